"""A record of offsets of all logs in a log directory, taken some logs at a time.

A thread of Kafka reads one log after the other while others append; here a step takes some. What
is written is as old as its taking: of a log that is gone meanwhile nothing is written.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from storage.checkpoints.recovery_points import TopicAndPartition

Offsets = Mapping[TopicAndPartition, int]


class OffsetsRecord:
    """One record of one file.

    Args:
        keys: of the logs.
        offset_of: offset of a log; None to leave it out.
        taken: offsets that are taken already.
        write: makes the offsets durable in their file.
    """

    def __init__(
        self,
        keys: Iterable[TopicAndPartition],
        offset_of: Callable[[TopicAndPartition], int | None],
        taken: Offsets,
        write: Callable[[Offsets], None],
    ) -> None:
        self._left = deque(keys)
        self._offset_of = offset_of
        self._offsets = dict(taken)
        self._write = write

    @property
    def is_taken(self) -> bool:
        """True once `run` may follow."""
        return not self._left

    @property
    def left_count(self) -> int:
        """Number of logs that are not taken."""
        return len(self._left)

    def take(self, logs_max: int) -> int:
        """Take the offsets of some logs; number of logs that were looked at."""
        assert logs_max >= 0, f"{logs_max=}"
        count = min(logs_max, len(self._left))
        for _ in range(count):
            key = self._left.popleft()
            offset = self._offset_of(key)
            if offset is not None:
                self._offsets[key] = offset
        return count

    def forget(self, key: TopicAndPartition) -> None:
        """Leave out a log that is gone; nothing once all are taken: its file is behind `run`."""
        if self._left:
            self._offsets.pop(key, None)

    def run(self) -> None:
        """Make the offsets durable; any thread.

        Raises:
            OutOfSpaceError: the record is as before.
        """
        assert self.is_taken, f"{self.left_count=}"
        self._write(self._offsets)
        self._offsets = {}
