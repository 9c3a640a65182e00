"""States of the partitions that are cleaned, their first dirty offsets, and those left alone.

    none         -> in progress   a round begins
    in progress  -> none          it has ended
    in progress  -> aborted       the log is truncated, deleted, moved, not compacted any more
    aborted      -> none, paused  its cleaner has noticed
    none         -> paused (n)    while a replica moves: n that asked for it

Kafka's threads wait for a round that is aborted; here its result is left out when it comes, and no
other round of the partition begins before that.

apache/kafka: storage/.../log/LogCleanerManager.java
"""

from collections.abc import Callable
from enum import Enum
from typing import Final

from storage.checkpoints.checkpoint_files import OffsetCheckpoint
from storage.checkpoints.recovery_points import TopicAndPartition
from storage.vfs import Vfs

CLEANER_CHECKPOINT_NAME: Final = "cleaner-offset-checkpoint"


class CleaningState(Enum):
    """State of a partition that is not free to be cleaned."""

    IN_PROGRESS = "in progress"
    ABORTED = "aborted"
    PAUSED = "paused"


class _Cleaning:
    """A partition that is being cleaned, or paused."""

    __slots__ = ("is_aborted", "is_running", "pauses")

    def __init__(self) -> None:
        self.is_running = False
        self.is_aborted = False
        self.pauses = 0


class CleanerManager:
    """The partitions of one broker, as its cleaners see them."""

    def __init__(self, vfs: Vfs) -> None:
        self._vfs = vfs
        self._cleanings: dict[TopicAndPartition, _Cleaning] = {}
        self._checkpoints: dict[str, OffsetCheckpoint] = {}
        self._offsets: dict[str, dict[TopicAndPartition, int]] = {}
        """First dirty offsets by log directory."""
        self._uncleanable: dict[str, set[TopicAndPartition]] = {}

    # -- states ---------------------------------------------------------------------------------

    def state(self, key: TopicAndPartition) -> CleaningState | None:
        """State of a partition; None if it may be cleaned."""
        cleaning = self._cleanings.get(key)
        if cleaning is None:
            return None
        if cleaning.is_running:
            return CleaningState.ABORTED if cleaning.is_aborted else CleaningState.IN_PROGRESS
        return CleaningState.PAUSED

    def pauses(self, key: TopicAndPartition) -> int:
        """Number of those who asked that the partition is not cleaned."""
        cleaning = self._cleanings.get(key)
        return 0 if cleaning is None else cleaning.pauses

    def begin(self, key: TopicAndPartition) -> None:
        """A round of a free partition begins."""
        assert key not in self._cleanings, f"{key=} {self.state(key)=}"
        self._cleanings[key] = cleaning = _Cleaning()
        cleaning.is_running = True

    def abort(self, key: TopicAndPartition) -> bool:
        """Leave out the round of a partition, if there is one; True if there is."""
        cleaning = self._cleanings.get(key)
        if cleaning is None or not cleaning.is_running:
            return False
        cleaning.is_aborted = True
        return True

    def abort_and_pause(self, key: TopicAndPartition) -> None:
        """Leave out the round of a partition, and begin none until `resume`."""
        self.abort(key)
        self._cleanings.setdefault(key, _Cleaning()).pauses += 1

    def resume(self, key: TopicAndPartition) -> None:
        """Undo one `abort_and_pause`."""
        cleaning = self._cleanings[key]
        assert cleaning.pauses > 0, f"{key=} is not paused"
        cleaning.pauses -= 1
        self._forget_if_free(key, cleaning)

    def end(self, key: TopicAndPartition) -> None:
        """A round has ended, aborted or not."""
        cleaning = self._cleanings[key]
        assert cleaning.is_running, f"{key=} has no round"
        cleaning.is_running = cleaning.is_aborted = False
        self._forget_if_free(key, cleaning)

    def _forget_if_free(self, key: TopicAndPartition, cleaning: _Cleaning) -> None:
        if not cleaning.is_running and not cleaning.pauses:
            del self._cleanings[key]

    # -- partitions left alone ------------------------------------------------------------------

    def mark_uncleanable(self, path: str, key: TopicAndPartition) -> None:
        """Clean a partition no more, until the next start: its log cannot be read."""
        self._uncleanable.setdefault(path, set()).add(key)

    def is_uncleanable(self, path: str, key: TopicAndPartition) -> bool:
        """True if the log of a partition in a log directory is left alone."""
        return key in self._uncleanable.get(path, ())

    def uncleanable(self, path: str) -> frozenset[TopicAndPartition]:
        """Those in a log directory."""
        return frozenset(self._uncleanable.get(path, ()))

    # -- checkpoints ----------------------------------------------------------------------------

    def open(self, path: str) -> None:
        """Read the first dirty offsets of a log directory.

        Raises:
            CorruptFileError: the file is damaged.
        """
        checkpoint = OffsetCheckpoint(self._vfs, path, CLEANER_CHECKPOINT_NAME)
        self._checkpoints[path] = checkpoint
        self._offsets[path] = dict(checkpoint.offsets)

    def fail(self, path: str) -> None:
        """Leave a log directory that is offline."""
        self._checkpoints.pop(path, None)
        self._offsets.pop(path, None)
        self._uncleanable.pop(path, None)

    @property
    def paths(self) -> tuple[str, ...]:
        """The log directories."""
        return tuple(self._checkpoints)

    def offset(self, path: str, key: TopicAndPartition) -> int | None:
        """First dirty offset of a log, None if none is recorded."""
        return self._offsets.get(path, {}).get(key)

    def set_offset(self, path: str, key: TopicAndPartition, first_dirty_offset: int) -> None:
        """Set it; durable with the next `record`."""
        assert first_dirty_offset >= 0, f"{first_dirty_offset=}"
        if path in self._offsets:
            self._offsets[path][key] = first_dirty_offset

    def lower_offset(self, path: str, key: TopicAndPartition, bound: int) -> bool:
        """Lower it to the bound, as after a truncation; True if it was higher."""
        recorded = self.offset(path, key)
        if recorded is None or recorded <= bound:
            return False
        self.set_offset(path, key, bound)
        return True

    def forget(self, key: TopicAndPartition) -> list[str]:
        """Leave out a deleted log; the log directories whose file has it."""
        for keys in self._uncleanable.values():
            keys.discard(key)
        return [path for path, each in self._offsets.items() if each.pop(key, None) is not None]

    def move(self, key: TopicAndPartition, source: str, target: str) -> None:
        """Take what is known of a log over to the log directory that it moved to."""
        recorded = self._offsets.get(source, {}).pop(key, None)
        if recorded is not None:
            self.set_offset(target, key, recorded)
        if self.is_uncleanable(source, key):
            self._uncleanable[source].remove(key)
            self.mark_uncleanable(target, key)

    def record(self, path: str) -> Callable[[], None]:
        """The work that makes the offsets of a log directory durable; any thread.

        It raises OutOfSpaceError, and the record is as before; so for `FsyncError` and `OSError`.
        """
        checkpoint, offsets = self._checkpoints[path], dict(self._offsets[path])
        return lambda: checkpoint.replace(offsets)
