"""The recovery points of the logs in a log directory: kept in memory, recorded together.

Kafka records them every `log.flush.offset.checkpoint.interval.ms` and when it stops; a start that
was not clean reads each log from its recovery point on. The file has a line of the metadata log
too, which is recorded by itself (`checkpoint_files.RecoveryPoint`) and stays as it is.

    INV-RP-1  no recorded offset is above the end of its log: it is lowered before records go

apache/kafka: core/.../log/LogManager.scala (`checkpointLogRecoveryOffsets`, `truncateTo`)
"""

from collections.abc import Set as AbstractSet

from storage.checkpoints.checkpoint_files import OffsetCheckpoint
from storage.errors import OutOfSpaceError
from storage.logs.recovery import FileRebuilt
from wire.types import METADATA_TOPIC_NAME

TopicAndPartition = tuple[str, int]


class RecoveryPoints:
    """Those of one log directory.

    Args:
        checkpoint: `recovery-point-offset-checkpoint` of the directory, read.
    """

    def __init__(self, checkpoint: OffsetCheckpoint) -> None:
        self._checkpoint = checkpoint
        self._offsets = {
            key: offset
            for key, offset in checkpoint.offsets.items()
            if key[0] != METADATA_TOPIC_NAME
        }

    def get(self, key: TopicAndPartition) -> int:
        """The recovery point of a log, 0 if it has none."""
        return self._offsets.get(key, 0)

    def set(self, key: TopicAndPartition, end_offset: int) -> None:
        """Set it; a lower one is recorded at once, durably.

        Raises:
            OutOfSpaceError: the record is as before.
        """
        assert end_offset >= 0, f"{end_offset=}"
        assert key[0] != METADATA_TOPIC_NAME, f"{key=} is recorded by itself"
        before = self.get(key)
        self._offsets[key] = end_offset
        if end_offset < before:
            try:
                self.record()
            except OutOfSpaceError:
                self._offsets[key] = before
                raise

    def take(self, key: TopicAndPartition, end_offset: int) -> None:
        """Set it for the record that follows; one is lower if its log was damaged at the start."""
        assert end_offset >= 0, f"{end_offset=}"
        self._offsets[key] = end_offset

    def forget(self, key: TopicAndPartition) -> None:
        """Leave out a log that is gone; recorded with the next record."""
        self._offsets.pop(key, None)

    def is_recorded(self, key: TopicAndPartition) -> bool:
        """True if the file has a line of this log."""
        return key in self._checkpoint.offsets

    def keep(self, keys: AbstractSet[TopicAndPartition]) -> bool:
        """Leave out all but those of these logs; True if there were others, still recorded."""
        before = len(self._offsets)
        self._offsets = {key: self._offsets[key] for key in self._offsets if key in keys}
        return len(self._offsets) < before

    def record(self) -> None:
        """Make all of them durable; any thread.

        What is recorded is read while the file is held: a lower offset that another thread sets is
        in this record, or it is recorded behind it.

        Raises:
            OutOfSpaceError: the record is as before.
        """
        self._checkpoint.replace_with(lambda: dict(self._offsets), kept_topic=METADATA_TOPIC_NAME)


class KeptRecoveryPoint:
    """The recovery point of one log, as the log sees it."""

    damage: FileRebuilt | None = None

    def __init__(self, points: RecoveryPoints, key: TopicAndPartition) -> None:
        self._points = points
        self._key = key

    @property
    def end_offset(self) -> int:
        """The recovery point, exclusive."""
        return self._points.get(self._key)

    def note(self, end_offset: int) -> None:
        """Nothing to do: it is recorded with those of the other logs."""

    def record(self, end_offset: int) -> None:
        """Set the recovery point; a lower one is durable on return."""
        self._points.set(self._key, end_offset)

    def close(self) -> None:
        """Hold nothing open."""
