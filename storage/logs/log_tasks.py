"""The work that a `LogManager` hands out, and the errors that it may end with."""

import contextlib
from collections.abc import Callable
from typing import Final

import msgspec

from storage.checkpoints.recovery_points import TopicAndPartition
from storage.errors import CorruptFileError, CorruptLogError, FsyncError, OutOfSpaceError
from storage.log_dir.partition_directories import mark_deleted, remove_partition_directory
from storage.logs.log_directory import LogDirectory
from storage.logs.recovery import RecoveryProgress
from storage.logs.unified_log import UnifiedLog
from storage.producers.producer_state import ProducerStateError
from storage.vfs import Vfs
from wire.errors import CorruptBatchError

ERRORS: Final = (
    CorruptLogError,
    CorruptFileError,
    CorruptBatchError,
    ProducerStateError,
    OutOfSpaceError,
    FsyncError,
    OSError,
)
"""Damage of a log, and errors of the disk, that keep a log from being opened."""


class LoadTask:
    """The loading of one log; `run` on any thread, then `LogManager.loaded` on its own."""

    def __init__(
        self,
        directory: LogDirectory,
        key: TopicAndPartition,
        opening: Callable[[RecoveryProgress], UnifiedLog],
        wall_ms: int,
        *,
        is_future: bool = False,
    ) -> None:
        self.directory = directory
        self.key = key
        self.is_future = is_future
        """True for the log of a replica that moves to this log directory."""
        self.wall_ms = wall_ms
        """Wall clock when it was handed out."""
        self.progress = RecoveryProgress()
        """Progress, also while it runs."""
        self._opening = opening
        self.log: UnifiedLog | None = None
        self.error: Exception | None = None
        """The damage or error of the disk that kept the log from being opened."""

    def run(self) -> None:
        """Open the log."""
        try:
            self.log = self._opening(self.progress)
        except ERRORS as error:
            self.error = error


class DeleteTask:
    """The deletion of one log; `run` on any thread, then `LogManager.deleted` on its own."""

    def __init__(
        self, vfs: Vfs, directory: LogDirectory, path: str, unique_id: bytes, due_ms: int
    ) -> None:
        self.directory = directory
        self.due_ms = due_ms
        """Wall clock of the removal."""
        self._vfs = vfs
        self._path = path
        self._unique_id = unique_id
        self.renamed: str | None = None
        """New path of the partition's directory."""

    def run(self) -> None:
        """Rename the directory of the partition; durable.

        Raises:
            OSError: the log directory cannot stay online. So for `FsyncError`.
        """
        self.renamed = mark_deleted(self._vfs, self._path, self._unique_id)


class DuplicateLogError(Exception):
    """A partition has a directory in two log directories: which one counts is not known."""

    def __init__(self, key: TopicAndPartition, path: str, other: str) -> None:
        name = f"{key[0]}-{key[1]}"
        super().__init__(
            f"Duplicate log directories for {name} are found in both {path}/{name} and "
            f"{other}/{name}. It is likely because log directory failure happened while broker was "
            f"replacing current replica with future replica. Recover broker from this failure by "
            f"manually deleting one of the two directories for this partition. It is recommended "
            f"to delete the partition in the log directory that is known to have failed recently."
        )


class DueFile(msgspec.Struct, frozen=True, order=True):
    """A deleted segment's file, or the directory of a deleted partition, and when it goes."""

    due_ms: int
    path: str
    is_directory: bool


def remove(vfs: Vfs, due: DueFile) -> None:
    """Remove a file or directory that `LogManager.removable` handed out; any thread."""
    if due.is_directory:
        remove_partition_directory(vfs, due.path)
    else:
        with contextlib.suppress(FileNotFoundError):
            vfs.unlink(due.path)
