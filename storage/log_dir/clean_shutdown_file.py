"""`.kafka_cleanshutdown`: proof that the last process of a broker shut down cleanly, and its epoch.

Written into each log directory at a clean shutdown, read and removed at the next start: a process
that crashes leaves none. With the broker epoch in it a broker proves to the controller that its
replicas lost nothing, so that they stay eligible leaders (KIP-966).
Source: apache/kafka: storage/.../checkpoint/CleanShutdownFileHandler.java,
core/.../LogManager.scala (`readBrokerEpochFromCleanShutdownFiles`).
"""

import contextlib
import json
from collections.abc import Sequence
from typing import Final

from storage.vfs import Vfs, join, write_file_atomically

CLEAN_SHUTDOWN_NAME: Final = ".kafka_cleanshutdown"
UNKNOWN_EPOCH: Final = -1
"""The protocol's value for an unknown epoch."""


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    """The content, byte for byte as Kafka writes it."""
    return b'{"version":0,"brokerEpoch":%d}' % broker_epoch


def decode_clean_shutdown(content: bytes) -> int:
    """The broker epoch; -1 for the empty file of older Kafka versions and for unreadable ones."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):  # the latter: brackets nested too deep
        return UNKNOWN_EPOCH
    epoch = found.get("brokerEpoch") if isinstance(found, dict) else None
    if isinstance(epoch, int) and not isinstance(epoch, bool) and 0 <= epoch < 1 << 63:
        return epoch
    return UNKNOWN_EPOCH


class CleanShutdownFiles:
    """The files of one broker, as they were when the process started.

    Args:
        vfs: the disk.
        log_directories: all of them.
    """

    def __init__(self, vfs: Vfs, log_directories: Sequence[str]) -> None:
        self._vfs = vfs
        self._log_directories = log_directories
        self._paths = [join(directory, CLEAN_SHUTDOWN_NAME) for directory in log_directories]
        self._found = {path for path in self._paths if vfs.exists(path)}
        epochs = {
            decode_clean_shutdown(vfs.read(path)) if path in self._found else UNKNOWN_EPOCH
            for path in self._paths
        }
        self.previous_epoch = epochs.pop() if len(epochs) == 1 else UNKNOWN_EPOCH
        """Epoch of the registration that shut down cleanly; -1 unless all directories agree."""
        self.found_in = frozenset(
            directory
            for directory, path in zip(log_directories, self._paths, strict=True)
            if path in self._found
        )
        """The log directories that had the file."""

    def remove(self) -> None:
        """Remove the files, so that a crash from now on leaves none; durable."""
        for path in sorted(self._found):
            with contextlib.suppress(FileNotFoundError):
                self._vfs.unlink(path)
            self._vfs.sync_directory(path.rpartition("/")[0])

    def write(self, broker_epoch: int | None, *, is_everything_sound: bool) -> None:
        """Record a clean shutdown; durable.

        Args:
            broker_epoch: of this process's registration, None if it never had one.
            is_everything_sound: no log needs recovery. If that is not known, only directories that
                had the file at the start get it again.
        """
        for directory in self._log_directories:
            if is_everything_sound or directory in self.found_in:
                self.write_into(directory, broker_epoch)

    def write_into(self, log_directory: str, broker_epoch: int | None) -> None:
        """Record in one log directory that its logs need no recovery; durable."""
        content = encode_clean_shutdown(UNKNOWN_EPOCH if broker_epoch is None else broker_epoch)
        write_file_atomically(self._vfs, join(log_directory, CLEAN_SHUTDOWN_NAME), content)
