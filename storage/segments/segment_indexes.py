"""The two indexes of a segment and the times of its records, as batches are appended or scanned.

apache/kafka: storage/.../log/LogSegment.java (`append`, `recover`)
"""

from storage.segments.index import OffsetIndex, TimeIndex
from storage.segments.rolling import RELATIVE_OFFSET_MAX


class SegmentIndexes:
    """The indexes and timestamps of a segment, built while appending or scanning."""

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.offsets = OffsetIndex(base_offset)
        self.times = TimeIndex(base_offset)
        self.max_timestamp_ms = -1
        self.offset_of_max_timestamp = base_offset
        self.first_timestamp_ms = -1
        self.end_offset = base_offset
        self.is_loaded = False
        """True if they were read from files, so that a look-up checks where it ends."""
        self._interval_bytes = interval_bytes
        self._bytes_since_entry = 0

    def add(self, position: int, size_bytes: int, last_offset: int, max_timestamp_ms: int) -> None:
        """Index a batch: one entry per `interval_bytes`."""
        if position == 0:
            self.first_timestamp_ms = max_timestamp_ms
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
            self.offset_of_max_timestamp = last_offset
        self.end_offset = last_offset + 1
        if self._bytes_since_entry > self._interval_bytes:
            self.offsets.append(last_offset, position)
            self.times.maybe_append(self.max_timestamp_ms, self.offset_of_max_timestamp)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size_bytes

    def objection(self, base_offset: int, last_offset: int) -> str | None:
        """Return the reason why a batch cannot be the next one of the segment; None if it can."""
        if not self.end_offset <= base_offset <= last_offset:
            return f"offsets {base_offset} to {last_offset} follow end offset {self.end_offset}"
        if last_offset - self.offsets.base_offset > RELATIVE_OFFSET_MAX:
            return f"offset {last_offset} is too far above that of its segment"
        return None

    def restart_interval(self) -> None:
        """Count the bytes to the next entry from here."""
        self._bytes_since_entry = 0

    def cut_to(self, end_offset: int) -> None:
        """Drop the entries at or above an offset; the batches behind the last one are to be added.

        A time entry below it stays, as in Kafka, also where its maximum is behind that last one.
        """
        assert end_offset >= self.offsets.base_offset, f"{end_offset=} {self.offsets.base_offset=}"
        self.offsets.truncate_to(end_offset)
        self.times.truncate_to(end_offset)
        self.max_timestamp_ms, self.offset_of_max_timestamp = self.times.last_entry
        self.end_offset = self.offsets.base_offset
        if not len(self.offsets):
            self.first_timestamp_ms = -1
        self._bytes_since_entry = 0

    def finish(self) -> None:
        """Add the last time entry, when the segment becomes inactive."""
        self.times.maybe_append(self.max_timestamp_ms, self.offset_of_max_timestamp)
