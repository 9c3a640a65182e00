"""Crash tests of a broker's operations on the folders and logs of its partitions."""

from simulator.cluster.memory_vfs import MemoryVfs
from storage.checkpoints.checkpoint_files import OffsetCheckpoint, RecoveryPoint
from storage.log_dir.partition_directories import (
    create_partition_directory,
    mark_deleted,
    partition_directory_name,
    remove_partition_directory,
    scan_partition_directories,
)
from storage.logs.log import Log, LogConfig
from storage.vfs import Vfs
from tests.storage.crashes import Operation, same
from tests.storage.test_crash import batch
from wire.types import TopicId

TOPIC, OTHER = TopicId(b"t" * 16), TopicId(b"o" * 16)
CONFIG = LogConfig(
    segment_bytes=700, index_interval_bytes=100, recovery_point_bytes=400, verify_from_start=False
)
FLUSHED, END = 10, 14


# ---- folders -----------------------------------------------------------------------------------


def prepared_partition(vfs: MemoryVfs) -> MemoryVfs:
    create_partition_directory(vfs, "/d", "a", 0, TOPIC)
    return vfs


def delete_partition(vfs: MemoryVfs) -> None:
    remove_partition_directory(vfs, mark_deleted(vfs, "/d/a-0", bytes(16)))


def partition_is_gone(vfs: MemoryVfs, is_done: bool) -> None:
    found = scan_partition_directories(vfs, "/d")
    assert found == [] if is_done else len(found) <= 1
    for directory in found:
        if directory.suffix:
            remove_partition_directory(vfs, directory.path)
        else:
            assert directory.topic_id in (TOPIC, None)


def partition_is_made(vfs: MemoryVfs, is_done: bool) -> None:
    found = [d.topic_id for d in scan_partition_directories(vfs, "/d")]
    assert found == [TOPIC] if is_done else found in ([], [None], [TOPIC])
    create_partition_directory(vfs, "/d", "a", 0, TOPIC)


# ---- logs --------------------------------------------------------------------------------------


def partition_log(vfs: Vfs, folder: str, config: LogConfig, topic: str, number: int) -> Log:
    """The log of a partition whose directory exists, with its recorded end."""
    path = f"{folder}/{partition_directory_name(topic, number)}"
    point = RecoveryPoint(OffsetCheckpoint(vfs, folder), topic, number)
    return Log.open(vfs, path, config, point)


def log_of(vfs: MemoryVfs, topic: str) -> Log:
    return partition_log(vfs, "/d", CONFIG, topic, 0)


def prepared_logs(vfs: MemoryVfs) -> Log:
    """a-0 and b-0 with flushed batches; b-0 is open and has more that are not."""
    for topic in ("a", "b"):
        create_partition_directory(vfs, "/d", topic, 0, TOPIC)
        log = log_of(vfs, topic)
        append(log, 0, FLUSHED)
        log.flush()
    append(log, FLUSHED, END)
    return log


def append(log: Log, first: int, end: int) -> None:
    for offset in range(first, end):
        log.append(batch(offset, 1), offset)


def holds(vfs: MemoryVfs, topic: str, ends: set[int]) -> None:
    """The log of a partition ends at one of these, nothing of it is damaged, and it goes on."""
    log = log_of(vfs, topic)
    end = log.end_offset
    assert end in ends, (topic, end)
    for offset in range(end):
        assert log.read(offset, 1) == batch(offset, 1), (topic, offset)
    append(log, end, end + 1)
    log.close()


def both_are_kept(vfs: MemoryVfs, is_done: bool) -> None:
    """A log that is closed is flushed."""
    holds(vfs, "a", {FLUSHED})
    holds(vfs, "b", {END} if is_done else set(range(FLUSHED, END + 1)))


def recreate(vfs: MemoryVfs) -> None:
    """The topic is deleted and made again, from wherever an earlier try was cut off."""
    for directory in scan_partition_directories(vfs, "/d"):
        if directory.suffix:
            remove_partition_directory(vfs, directory.path)
        elif directory.topic == "a" and directory.topic_id != OTHER:
            OffsetCheckpoint(vfs, "/d").forget("a", 0)
            remove_partition_directory(vfs, mark_deleted(vfs, directory.path, bytes(16)))
    create_partition_directory(vfs, "/d", "a", 0, OTHER)
    log = log_of(vfs, "a")
    append(log, log.end_offset, 3)
    log.flush()


def recreated(vfs: MemoryVfs, is_done: bool) -> None:
    """The old log, none or the new one: a recorded end of the old one never stops the new one."""
    holds(vfs, "b", set(range(FLUSHED, END + 1)))
    for directory in scan_partition_directories(vfs, "/d"):
        if directory.topic == "a" and not directory.suffix:
            ids = {TOPIC: {FLUSHED}, OTHER: {3} if is_done else set(range(4)), None: {0}}
            holds(vfs, "a", ids[directory.topic_id])
            assert not is_done or directory.topic_id == OTHER


def dropped(vfs: MemoryVfs, is_done: bool) -> None:
    """Check that the records of the partition are forgotten, and those of the other one are not."""
    recorded = OffsetCheckpoint(vfs, "/d")
    assert recorded.get("a", 0) in ({0} if is_done else {0, FLUSHED})
    holds(vfs, "a", {FLUSHED})
    holds(vfs, "b", set(range(FLUSHED, END + 1)))


OPERATIONS = {
    "partition-create": Operation(same, prepared_partition, partition_is_made),
    "partition-delete": Operation(prepared_partition, delete_partition, partition_is_gone),
    "partition-log-close": Operation(prepared_logs, Log.close, both_are_kept),
    "partition-forget": Operation(
        lambda vfs: (prepared_logs(vfs), vfs)[1],
        lambda vfs: OffsetCheckpoint(vfs, "/d").forget("a", 0),
        dropped,
    ),
    "partition-recreate": Operation(lambda vfs: (prepared_logs(vfs), vfs)[1], recreate, recreated),
}
