"""Groups of segments, each of which becomes one: so that a log has few small segments.

apache/kafka: storage/.../log/Cleaner.java (`groupSegmentsBySize`)
"""

from collections.abc import Sequence

import msgspec

from storage.segments.rolling import RELATIVE_OFFSET_MAX


class SourceSegment(msgspec.Struct, frozen=True, gc=False):
    """A segment to be cleaned; sizes are those of its files."""

    base_offset: int
    size_bytes: int
    index_bytes: int
    time_index_bytes: int
    modified_ms: int
    """Wall clock of the last append."""


def grouped(
    segments: Sequence[SourceSegment],
    segment_bytes_max: int,
    index_bytes_max: int,
    first_uncleanable_offset: int,
) -> list[list[SourceSegment]]:
    """The segments in groups, in order; a segment that is alone may be larger than the limits.

    The last offset of a segment is not known without a look into it: the next segment, or the first
    uncleanable offset, bounds it.
    """
    groups: list[list[SourceSegment]] = []
    sizes = (0, 0, 0)
    for number, segment in enumerate(segments):
        is_last = number == len(segments) - 1
        end_offset = first_uncleanable_offset if is_last else segments[number + 1].base_offset
        own = (segment.size_bytes, segment.index_bytes, segment.time_index_bytes)
        total = (sizes[0] + own[0], sizes[1] + own[1], sizes[2] + own[2])
        if (
            groups
            and total[0] <= segment_bytes_max
            and max(total[1:]) <= index_bytes_max
            and (
                segment.size_bytes == 0
                or end_offset - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
            )
        ):
            groups[-1].append(segment)
            sizes = total
        else:
            groups.append([segment])
            sizes = own
    assert sum(map(len, groups)) == len(segments), f"{groups=}"
    return groups
