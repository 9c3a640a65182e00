"""The place of an offset in the segments of a log, in which offsets may be missing."""

from collections.abc import Callable, Sequence

from storage.errors import CorruptLogError
from storage.segments.segment import Segment, floor_index


def located(
    segments: Sequence[Segment],
    bounds: tuple[int, int, int],
    touch: Callable[[Segment], None],
    *,
    contiguous: bool,
) -> tuple[Segment, int, int] | None:
    """Segment, position and end of the batches from an offset on; None if there are none.

    Args:
        segments: of the log, oldest first.
        bounds: the offset, the first one that is not wanted, and the end of the log.
        touch: told of a closed segment before it is read.
        contiguous: no offset may be missing.

    Raises:
        CorruptLogError: an offset is missing that must not.
    """
    offset, limit, end_offset = bounds
    assert offset < limit <= end_offset, f"{bounds=}"
    number, last = floor_index(segments, offset), len(segments) - 1
    while number <= last:
        segment = segments[number]
        if segment.base_offset >= limit:
            return None
        if number < last:
            touch(segment)
        position = segment.find(offset)
        upper = end_offset if number == last else segments[number + 1].base_offset
        end = segment.size_bytes if limit >= upper else segment.find(limit)
        if position < segment.size_bytes:
            return (segment, position, end) if position < end else None
        number += 1
    if contiguous:
        active = segments[-1]
        raise CorruptLogError(active.path, active.size_bytes, f"no batch holds {offset=}")
    return None
