"""Choice of the segments to delete: below the log start, above a size, older than a time.

apache/kafka: storage/.../log/UnifiedLog.java (`deleteOldSegments`, `deletableSegments`)
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

NO_LIMIT = -1


class RetentionRules(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a topic; -1 is no limit."""

    is_deleted: bool = True
    """True if `cleanup.policy` has `delete`: only then size and time count."""
    retention_bytes: int = NO_LIMIT
    """`retention.bytes`: as much stays at least."""
    retention_ms: int = 604_800_000
    """`retention.ms`; inclusive."""


class SegmentExtent(msgspec.Struct, frozen=True, gc=False):
    """A segment; its end is the base offset of the next one, or the log end."""

    base_offset: int
    end_offset: int
    size_bytes: int


class Sized(Protocol):
    """A segment of a log."""

    base_offset: int
    size_bytes: int


def extents(segments: Sequence[Sized], end_offset: int) -> list[SegmentExtent]:
    """The extents of all segments of a log that ends there, oldest first."""
    ends = [*(each.base_offset for each in segments[1:]), end_offset]
    return [
        SegmentExtent(each.base_offset, end, each.size_bytes)
        for each, end in zip(segments, ends, strict=True)
    ]


def deletable_count(
    segments: Sequence[SegmentExtent],
    rules: RetentionRules,
    largest_timestamp_ms: Callable[[int], int],
    *,
    log_start_offset: int,
    high_watermark: int,
    wall_ms: int,
) -> int:
    """Number of the oldest segments that are deleted.

    The three limits are applied one after the other, each to what is left, and each ends at the
    first segment that it spares. What is not below the high watermark stays, and so does an empty
    last segment; if all go, the log begins a new one first.

    Args:
        segments: all, oldest first.
        rules: of the topic.
        largest_timestamp_ms: of the records of a segment by its number; asked only where needed.
        log_start_offset: of the log.
        high_watermark: of the log.
        wall_ms: wall clock.
    """
    assert segments, "a log has a segment"
    assert all(each.base_offset <= each.end_offset for each in segments), f"{segments=}"
    assert high_watermark >= 0, f"{high_watermark=}"
    last = len(segments) - 1
    bound = 0
    while bound <= last and segments[bound].end_offset <= high_watermark:
        bound += 1
    if bound > last and segments[last].size_bytes == 0:
        bound = last
    assert 0 <= bound <= len(segments), f"{bound=}"
    count = 0
    while count < min(bound, last) and segments[count].end_offset <= log_start_offset:
        count += 1
    if not rules.is_deleted:
        return count
    if rules.retention_bytes >= 0:
        excess = sum(each.size_bytes for each in segments[count:]) - rules.retention_bytes
        while count < bound and excess - segments[count].size_bytes >= 0:
            excess -= segments[count].size_bytes
            count += 1
    if rules.retention_ms >= 0:
        while count < bound and wall_ms - largest_timestamp_ms(count) > rules.retention_ms:
            count += 1
    return count
