"""Log directories that refuse writes, and the administrator who repairs them."""

import errno
from collections.abc import Sequence
from typing import Final

from simulator.cluster.machine import Machine
from simulator.cluster.memory_vfs import MemoryVfs
from storage.log_dir.partition_directories import scan_partition_directories
from wire.types import TopicId

DIRECTORY_CALLS: Final = ("write", "sync", "create")


class FailingDirectory:
    """Function for `MemoryVfs.failing`: writes, syncs and new files of a topic's partitions fail.

    Args:
        log_dir: the log directory.
        topic: its name.
        code: errno.
    """

    def __init__(self, log_dir: str, topic: str, code: int) -> None:
        self.log_dir = log_dir
        self._prefix = f"{log_dir}/{topic}-"
        self._code = code
        self.has_failed = False

    def __call__(self, kind: str, path: str, /) -> int | None:
        """Return the errno, None to let the operation happen."""
        if kind not in DIRECTORY_CALLS or not path.startswith(self._prefix):
            return None
        if kind == "sync" and self._code == errno.ENOSPC:
            return None
        self.has_failed = True
        return self._code


def failed_directory(vfs: MemoryVfs) -> str | None:
    """The log directory of a disk that has refused a call and is not repaired; None without one."""
    failing = vfs.failing
    if isinstance(failing, FailingDirectory) and failing.has_failed:
        return failing.log_dir
    return None


def repair_directories(machine: Machine) -> None:
    """Put a failed directory right: what was written is on the disk, the process starts anew."""
    vfs = machine.vfs
    failed = failed_directory(vfs)
    if failed is not None:
        machine.kill()
        delete_duplicates(vfs, failed, machine.config.log_dirs)
        vfs.write_back()
    vfs.failing = None


def delete_duplicates(vfs: MemoryVfs, failed: str, log_dirs: Sequence[str]) -> None:
    """Delete from a directory that has failed the replicas that were placed anew since.

    An administrator has to, before each start and when he repairs it: a broker does not start with
    two directories of a replica, as Kafka's. No process does it, so none can crash by it.
    """
    crash_at, vfs.crash_at = vfs.crash_at, None
    others = {each for path in log_dirs if path != failed for each in _replicas(vfs, path)}
    for replica in _replicas(vfs, failed):
        if replica not in others:
            continue
        topic, partition, _ = replica
        path = f"{failed}/{topic}-{partition}"
        for name in vfs.list(path):
            vfs.unlink(f"{path}/{name}")
        vfs.remove_directory(path)
    vfs.sync_directory(failed)
    vfs.crash_at = crash_at


def _replicas(vfs: MemoryVfs, log_dir: str) -> list[tuple[str, int, TopicId | None]]:
    """The replicas in a log directory."""
    found = scan_partition_directories(vfs, log_dir)
    return [(each.topic, each.partition, each.topic_id) for each in found if not each.suffix]
