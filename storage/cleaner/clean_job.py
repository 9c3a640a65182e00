"""A round of cleaning of one log as a value, and what comes back from it.

They go between the broker, which selects and swaps, and its cleaner processes
(`msgspec.msgpack`), so they hold all that a cleaner needs beside the files of the log.

apache/kafka: storage/.../log/{LogToClean,CleanerConfig}.java
"""

import msgspec

NONE = -1


class LastRecord(msgspec.Struct, frozen=True, gc=False):
    """The newest record of an active producer, which keeps its batch."""

    producer_id: int
    last_data_offset: int
    """Inclusive; -1 if the newest batch is a marker, which then keeps the epoch."""
    producer_epoch: int


class CleanRules(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the topic."""

    segment_bytes: int
    """`segment.bytes`: of a cleaned segment at most, unless one alone has more."""
    segment_index_bytes: int
    """`segment.index.bytes`: the same of its indexes."""
    index_interval_bytes: int
    delete_retention_ms: int
    """`delete.retention.ms`: time that a tombstone or marker stays from its first cleaning on."""

    def __post_init__(self) -> None:
        """Assert the range of each setting."""
        assert self.segment_bytes > 0, f"{self.segment_bytes=}"
        assert self.segment_index_bytes > 0, f"{self.segment_index_bytes=}"
        assert self.index_interval_bytes >= 0, f"{self.index_interval_bytes=}"
        assert self.delete_retention_ms >= 0, f"{self.delete_retention_ms=}"


class CleanJob(msgspec.Struct, frozen=True, kw_only=True):
    """One round; offsets are half-open: [`first_dirty_offset`, `first_uncleanable_offset`)."""

    partition: str
    """`topic-number`, for texts."""
    directory: str
    segments: tuple[int, ...]
    """Base offsets of those below the first uncleanable offset, ascending."""
    later_segments: tuple[int, ...]
    """Base offsets of the others: markers of transactions may be in them."""
    first_dirty_offset: int
    first_uncleanable_offset: int
    producers: tuple[LastRecord, ...] = ()
    rules: CleanRules
    slots: int
    """Slots of the offset map."""
    keys_max: int
    """Number of keys that it holds, less than its slots by the load factor."""
    read_bytes: int
    """Bytes of one read, at least; a larger batch is read as a whole."""
    now_ms: int
    """Wall clock."""

    def __post_init__(self) -> None:
        """Assert that the offsets and the sizes fit."""
        segments, end = self.segments, self.first_uncleanable_offset
        assert segments, "a log without closed segments is not cleaned"
        assert list(segments) == sorted(set(segments)), f"{segments=}"
        assert 0 <= self.first_dirty_offset < end, f"{self.first_dirty_offset=} {end=}"
        assert segments[-1] < end, f"{segments=} {end=}"
        assert all(each >= end for each in self.later_segments), f"{self.later_segments=}"
        assert 0 < self.keys_max <= self.slots, f"{self.keys_max=} {self.slots=}"
        assert self.read_bytes > 0, f"{self.read_bytes=}"


class CleanStats(msgspec.Struct, kw_only=True):
    """Counts of a round, as Kafka's; times are measured by who runs it."""

    map_bytes_read: int = 0
    map_messages_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    messages_read: int = 0
    messages_written: int = 0
    invalid_messages_read: int = 0
    """Records without a key."""
    buffer_utilization: float = 0.0
    """Part of the offset map that is in use, of 1."""


class Progress(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Bytes were read or written: a place to wait for the throttle, and to be aborted."""

    size_bytes: int

    def __post_init__(self) -> None:
        """Assert the range."""
        assert self.size_bytes >= 0, f"{self.size_bytes=}"


class GroupCleaned(msgspec.Struct, frozen=True, tag=True):
    """Segments are cleaned into one, whose `.cleaned` files are durable, names included."""

    base_offset: int
    """Of the cleaned segment, which is that of the first old one."""
    segments: tuple[int, ...]
    """Base offsets of the old segments, ascending."""

    def __post_init__(self) -> None:
        """Assert that the cleaned segment takes the place of the first."""
        assert self.base_offset == self.segments[0], f"{self.base_offset=} {self.segments=}"
        assert list(self.segments) == sorted(set(self.segments)), f"{self.segments=}"


class RoundEnded(msgspec.Struct, frozen=True, tag=True):
    """All groups are cleaned."""

    end_offset: int
    """First dirty offset of the next round."""
    stats: CleanStats


CleanEvent = Progress | GroupCleaned | RoundEnded
