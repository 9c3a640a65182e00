"""The indexes of a segment from their files, from a scan of the segment, or cut with it.

apache/kafka: storage/.../log/LogSegment.java (`recover`, `truncateTo`, `readLargestTimestamp`)
"""

from typing import TYPE_CHECKING, Final

from storage.errors import CorruptLogError
from storage.segments.index import (
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    IndexDamageError,
    OffsetIndex,
    TimeIndex,
)
from storage.segments.segment_indexes import SegmentIndexes
from storage.vfs import Vfs
from wire.errors import CorruptBatchError

if TYPE_CHECKING:
    from storage.segments.segment import Segment

_OFFSET_BYTES: Final = 4
"""Of the relative offset in an entry: the first of an offset index, the last of a time index."""


def load_indexes(segment: "Segment", vfs: Vfs, interval_bytes: int) -> SegmentIndexes:
    """Read both index files, and take up what follows their last entries; or rebuild them.

    Raises:
        CorruptLogError: they cannot be rebuilt, the segment is damaged.
    """
    indexes = SegmentIndexes(segment.base_offset, interval_bytes)
    index_path, time_path = segment.index_paths
    try:
        indexes.offsets = OffsetIndex.decode(
            vfs.read(index_path), segment.base_offset, segment.size_bytes
        )
        indexes.times = TimeIndex.decode(vfs.read(time_path), segment.base_offset)
        _complete(segment, indexes)
    except (FileNotFoundError, IndexDamageError, CorruptBatchError):
        return rebuilt_indexes(segment, interval_bytes)
    indexes.is_loaded = True
    return indexes


def index_objection(segment: "Segment", vfs: Vfs) -> tuple[str, str] | None:
    """Path and reason of an index file that cannot be used, by its length and its last entry.

    What a start looks at; what is in between is found to be wrong by who uses it.
    apache/kafka: OffsetIndex.java, TimeIndex.java (`sanityCheck`), LogLoader.java
    """
    for path, entry_bytes in zip(
        segment.index_paths, (OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES), strict=True
    ):
        if not vfs.exists(path):
            return path, "it is missing"
        size_bytes = vfs.size(path)
        if size_bytes % entry_bytes:
            return path, f"{size_bytes} bytes are not a multiple of {entry_bytes}"
        if size_bytes and _last_relative_offset(vfs, path, size_bytes, entry_bytes) < 0:
            return path, "its last offset is below that of the segment"
    return None


def _last_relative_offset(vfs: Vfs, path: str, size_bytes: int, entry_bytes: int) -> int:
    assert size_bytes >= entry_bytes, f"{size_bytes=}"
    file = vfs.open(path)
    try:
        entry = file.pread(entry_bytes, size_bytes - entry_bytes)
    finally:
        file.close()
    at = 0 if entry_bytes == OFFSET_ENTRY_BYTES else TIME_ENTRY_BYTES - _OFFSET_BYTES
    return int.from_bytes(entry[at : at + _OFFSET_BYTES], "big", signed=True)


def rebuilt_indexes(segment: "Segment", interval_bytes: int) -> SegmentIndexes:
    """Make the indexes by a scan of the headers of the whole segment.

    Raises:
        CorruptLogError: the segment is damaged.
    """
    indexes = SegmentIndexes(segment.base_offset, interval_bytes)
    end = 0
    try:
        for position, header in segment.headers_from(0):
            size_bytes = header.size_bytes
            objection = indexes.objection(header.base_offset, header.last_offset)
            if objection is not None:
                raise CorruptLogError(segment.path, position, objection)
            indexes.add(position, size_bytes, header.last_offset, header.max_timestamp_ms)
            end = position + size_bytes
    except CorruptBatchError as error:
        raise CorruptLogError(segment.path, end, str(error)) from error
    return indexes


def cut_indexes(
    segment: "Segment", indexes: SegmentIndexes, end_offset: int, interval_bytes: int
) -> SegmentIndexes:
    """The indexes of a segment that was cut, from those before, by search.

    Only the batches behind the last entry that is left are looked at. If an entry of a file was
    wrong, all are.
    """
    indexes.cut_to(end_offset)
    _, start = indexes.offsets.last_entry
    if 0 < start >= segment.size_bytes:  # though its batch is below the cut
        return rebuilt_indexes(segment, interval_bytes)
    try:
        _take_up(segment, indexes)
    except (IndexDamageError, CorruptBatchError):
        return rebuilt_indexes(segment, interval_bytes)
    assert indexes.end_offset <= end_offset, f"{indexes.end_offset=} {end_offset=}"
    return indexes


def _complete(segment: "Segment", indexes: SegmentIndexes) -> None:
    """Bring the indexes of the files up to the end of the segment.

    Raises:
        IndexDamageError: the last entry of one of them is not true of the segment.
        CorruptBatchError: the same, or the segment is damaged.
    """
    timestamp_ms, offset = indexes.times.last_entry
    indexes.max_timestamp_ms, indexes.offset_of_max_timestamp = timestamp_ms, offset
    _, start = indexes.offsets.last_entry
    if start > 0:
        (_, first), (_, last) = next(segment.headers_from(0)), next(segment.headers_from(start))
        indexes.first_timestamp_ms = first.max_timestamp_ms
        newest_ms = max(first.max_timestamp_ms, last.max_timestamp_ms)
        if timestamp_ms < 0 <= newest_ms:
            raise IndexDamageError("offsets are indexed, timestamps are not")
    _take_up(segment, indexes)
    if timestamp_ms >= 0:
        at = segment.walk(indexes.offsets.lookup(offset), offset)
        found = next(segment.headers_from(at), None)
        if found is None or found[1].max_timestamp_ms != timestamp_ms:
            raise IndexDamageError(f"timestamp {timestamp_ms} is not at {offset=}")


def _take_up(segment: "Segment", indexes: SegmentIndexes) -> None:
    """Add the batches from that of the last entry on.

    Raises:
        IndexDamageError: an entry does not name a batch that can be there.
        CorruptBatchError: the same, or the segment is damaged.
    """
    last_indexed, start = indexes.offsets.last_entry
    for position, header in segment.headers_from(start):
        objection = indexes.objection(header.base_offset, header.last_offset)
        if objection is not None:
            raise IndexDamageError(objection)
        indexes.add(position, header.size_bytes, header.last_offset, header.max_timestamp_ms)
        if header.last_offset < last_indexed:  # Kafka before 4.0: an entry for a whole append
            indexes.restart_interval()
