"""The largest open logs of a broker, looked for in slices of a turn."""

from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest
from typing import Final

import msgspec

from storage.checkpoints.recovery_points import TopicAndPartition
from storage.logs.log_directory import SettingsOf
from storage.logs.unified_log import UnifiedLog

LOGS_MAX: Final = 250
"""Number of logs whose sizes are told: series of thousands would hold up both threads."""
LOOKS: Final = 500
"""Logs that one look asks for their size, about half a millisecond."""

OpenLog = tuple[TopicAndPartition, UnifiedLog]
LogOf = Callable[[TopicAndPartition], UnifiedLog | None]


class LogSize(msgspec.Struct, frozen=True, gc=False):
    """One open log."""

    topic: str
    partition: int
    size_bytes: int
    log_start_offset: int
    log_end_offset: int
    segment_count: int
    retention_percent: int = 0
    """Its size in per cent of `retention.bytes`; 0 without a limit."""


class LogSizes(msgspec.Struct, frozen=True, kw_only=True):
    """The logs that are told, and those that are not."""

    logs: tuple[LogSize, ...] = ()
    """Sorted; at most 250, the largest ones."""
    left_out: int = 0
    """Number of smaller ones."""
    producer_ids: int = 0
    """Producers of all logs."""


class LargestLogs:
    """The largest logs as the last whole pass found them; a pass may take several looks."""

    __slots__ = ("_chosen", "_count", "_passing", "_producer_ids", "_rest")

    def __init__(self) -> None:
        self._rest: Iterator[OpenLog] | None = None
        self._passing: list[tuple[int, int, TopicAndPartition]] = []
        """Size, producers and name of each that the running pass has seen."""
        self._chosen: list[TopicAndPartition] = []
        self._count = self._producer_ids = 0

    def look(self, logs: Iterable[OpenLog], log_of: LogOf, settings_of: SettingsOf) -> LogSizes:
        """Go on with the pass, or begin one over these logs; sizes are those of now.

        Args:
            logs: all that are open.
            log_of: gives the open log of a name: one that was moved since is another, and one that
                is gone is not told.
            settings_of: of a topic.
        """
        if self._rest is None:
            self._rest, self._passing = iter(list(logs)), []
        for _ in range(LOOKS):
            each = next(self._rest, None)
            if each is None:
                self._rest = None
                break
            name, seen = each
            self._passing.append((seen.log.size_bytes, len(seen.known_producers), name))
        if self._rest is None or not self._chosen:
            self._choose()
        open_now = [(name, log) for name in self._chosen if (log := log_of(name)) is not None]
        return LogSizes(
            logs=tuple(
                _size(name, log, settings_of(name[0]).retention.retention_bytes)
                for name, log in open_now
            ),
            left_out=self._count - len(self._chosen),
            producer_ids=self._producer_ids,
        )

    def _choose(self) -> None:
        seen = self._passing
        largest = nlargest(LOGS_MAX, seen, key=lambda row: row[0]) if len(seen) > LOGS_MAX else seen
        self._chosen = sorted(name for _, _, name in largest)
        self._count, self._producer_ids = len(seen), sum(producers for _, producers, _ in seen)


def _size(name: TopicAndPartition, log: UnifiedLog, retention_bytes: int) -> LogSize:
    size_bytes = log.log.size_bytes
    return LogSize(
        *name,
        size_bytes=size_bytes,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.end_offset,
        segment_count=len(log.log.segments),
        retention_percent=100 * size_bytes // retention_bytes if retention_bytes > 0 else 0,
    )
