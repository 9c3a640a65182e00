"""Conditions for a new segment of a log.

apache/kafka: storage/.../log/{LogSegment,RollParams}.java (`shouldRoll`, `timeWaitedForRoll`)
"""

from enum import Enum
from typing import Final

import msgspec

from storage.segments.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from wire.types import Rng

RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1
"""Of an offset less the base offset of its segment, as the indexes store it."""


class RollReason(Enum):
    """The rule that asks for a new segment."""

    SIZE = "segment.bytes"
    TIME = "segment.ms"
    INDEX_FULL = "segment.index.bytes"
    OFFSET_OVERFLOW = "relative offset overflow"


class RollRules(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a topic; sizes in bytes, times in ms."""

    segment_bytes: int
    """`segment.bytes`; inclusive."""
    segment_ms: int
    """`segment.ms`; inclusive."""
    index_bytes: int
    """`segment.index.bytes`."""


class SegmentFill(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The active segment before an append."""

    base_offset: int
    size_bytes: int
    first_timestamp_ms: int
    """Largest timestamp of its first batch; -1 without one."""
    created_ms: int
    """Wall clock when it was created or opened."""
    jitter_ms: int
    offset_entries: int
    time_entries: int


class AppendExtent(msgspec.Struct, frozen=True, gc=False):
    """Extent of an append, and the time of it."""

    size_bytes: int
    last_offset: int
    """Inclusive."""
    max_timestamp_ms: int
    """-1 without one."""
    wall_ms: int


def roll_reason(segment: SegmentFill, append: AppendExtent, rules: RollRules) -> RollReason | None:
    """The reason why the append goes to a new segment; None if it goes to the active one.

    An empty segment takes whatever its relative offsets can express. Time is that of the records:
    one of the far future rolls at once; the wall clock counts only for a first batch without
    timestamp. One entry of the time index stays free for the last one, at the roll.
    """
    assert append.size_bytes > 0, f"{append=}"
    assert append.last_offset >= segment.base_offset, f"{append=} {segment=}"
    if append.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
        return RollReason.OFFSET_OVERFLOW
    if segment.size_bytes == 0:
        return None
    if segment.size_bytes + append.size_bytes > rules.segment_bytes:
        return RollReason.SIZE
    if segment.first_timestamp_ms >= 0:
        waited_ms = append.max_timestamp_ms - segment.first_timestamp_ms
    else:
        waited_ms = append.wall_ms - segment.created_ms
    if waited_ms > rules.segment_ms - segment.jitter_ms:
        return RollReason.TIME
    if (
        segment.offset_entries >= rules.index_bytes // OFFSET_ENTRY_BYTES
        or segment.time_entries >= rules.index_bytes // TIME_ENTRY_BYTES - 1
    ):
        return RollReason.INDEX_FULL
    return None


def drawn_jitter_ms(rng: Rng | None, segment_jitter_ms: int, segment_ms: int) -> int:
    """Time by which a segment rolls earlier than after `segment.ms`; 0 without `rng`."""
    bound = min(segment_jitter_ms, segment_ms)
    return 0 if rng is None or bound <= 0 else rng.randrange(bound)
