"""Ends of the log of a partition with their places.

The place of the high watermark is kept, since parked fetches ask for it at each append. It holds
as long as the offset does and nothing is truncated: behind a truncation the same offset may be
reached again at another place, so these ends are made anew.

apache/kafka: storage/.../log/UnifiedLog.java (`fetchHighWatermarkMetadata`, `fetchOffsetSnapshot`)
"""

from replication.log_offsets import LogOffsetMetadata
from storage.errors import CorruptLogError
from storage.logs.unified_log import FetchIsolation, UnifiedLog
from wire.types import Offset


class LogEnds:
    """Ends of an open log, of which nothing is truncated while they are used."""

    __slots__ = ("_high_watermark", "_log")

    def __init__(self, log: UnifiedLog) -> None:
        self._log = log
        self._high_watermark: LogOffsetMetadata | None = None

    def at(self, offset: Offset) -> LogOffsetMetadata:
        """An offset of the log with its place; without one where a header before it is damaged."""
        return LogOffsetMetadata(offset, _place(self._log, offset))

    @property
    def log_end(self) -> LogOffsetMetadata:
        """The log end offset."""
        return self.at(Offset(self._log.end_offset))

    @property
    def high_watermark(self) -> LogOffsetMetadata:
        """The high watermark, as the log has it."""
        offset, known = Offset(self._log.high_watermark), self._high_watermark
        if known is None or known.offset != offset:
            known = self._high_watermark = self.at(offset)
        return known

    def raise_high_watermark(self, new: LogOffsetMetadata) -> None:
        """Set the high watermark to a later offset, or to the same one on a later segment."""
        before = self._log.high_watermark
        assert before <= new.offset <= self._log.end_offset, f"INV-PT-2 {before=} {new=}"
        self._log.set_high_watermark(new.offset)
        self._high_watermark = None if new.place is None else new

    def of(self, isolation: FetchIsolation) -> LogOffsetMetadata:
        """The end of what a fetch reads."""
        if isolation is FetchIsolation.LOG_END:
            return self.log_end
        high_watermark = self.high_watermark
        if isolation is FetchIsolation.HIGH_WATERMARK:
            return high_watermark
        stable = Offset(self._log.last_stable_offset)
        assert stable <= high_watermark.offset, f"{stable=} {high_watermark=}"
        return high_watermark if stable == high_watermark.offset else self.at(stable)


def _place(log: UnifiedLog, offset: Offset) -> tuple[Offset, int] | None:
    try:
        base_offset, position = log.place_of(offset)
    except CorruptLogError:
        return None
    return Offset(base_offset), position
