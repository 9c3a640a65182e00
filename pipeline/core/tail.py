"""Finding places in a log by its headers: the batch of an offset, the end, an epoch."""

from collections.abc import Iterator

import msgspec

from pipeline.core.batches import scan
from pipeline.core.discovery import PartitionFiles, SegmentFile
from pipeline.core.index import offset_entries
from pipeline.core.opening import open_segment

NO_EPOCH = -1
_WINDOW_BYTES = 1 << 20


class Boundary(msgspec.Struct, frozen=True, gc=False):
    """Between two batches: the next offset and the epoch and bytes of the batch before it.

    `position` is where that batch starts in its segment.
    """

    offset: int
    epoch: int
    position: int = 0
    size: int = 0


def walk_from(file: SegmentFile, start: int, end: int) -> Iterator[Boundary]:
    """The end of each batch that starts in [start, end); stops where a batch is cut or damaged."""
    with open_segment(file.path) as descriptor:
        for table in scan(
            descriptor, start, end, frozen_size=file.size, is_last=True, validate="header",
            window_bytes=_WINDOW_BYTES,
        ):  # fmt: skip
            ends = (table.last_offsets + 1).tolist()
            epochs = table.column("leader_epoch").tolist()
            positions = (table.positions + table.origin).tolist()
            yield from map(Boundary, ends, epochs, positions, table.sizes.tolist())
            if table.fault is not None:
                return


def locate(file: SegmentFile, offset: int) -> int:
    """Where the first batch with a last offset at or above the offset starts; else the end."""
    start = _position_before(file, offset)
    end = start
    for boundary in walk_from(file, start, file.size):
        if boundary.offset > offset:
            return boundary.position
        end = boundary.position + boundary.size
    return end


def end_boundary(files: PartitionFiles, limit: int | None) -> Boundary:
    """The last batch boundary, at or below the limit when one is given."""
    for file in reversed(files.segments):
        if limit is not None and file.base_offset >= limit:
            continue
        found = None
        # one offset below the limit may lie in the batch that crosses it: begin well before
        start = _position_before(file, (1 << 62) if limit is None else limit - 1)
        for begin in dict.fromkeys((start, 0)):
            for boundary in walk_from(file, begin, file.size):
                if limit is not None and boundary.offset > limit:
                    break
                found = boundary
            if found is not None:
                return found
    return Boundary(files.first_offset, NO_EPOCH)


def epoch_before(files: PartitionFiles, offset: int) -> int:
    """The leader epoch of the last batch that begins below the offset; -1 when there is none."""
    for file in reversed(files.segments):
        if file.base_offset >= offset:
            continue
        found = NO_EPOCH
        start = locate(file, offset - 1)
        for boundary in walk_from(file, start if start < file.size else 0, file.size):
            found = boundary.epoch
            if boundary.offset >= offset:
                break
        if found != NO_EPOCH:
            return found
    return NO_EPOCH


def _position_before(file: SegmentFile, offset: int) -> int:
    """A batch position at or before that of the offset, by the index."""
    position = 0
    for last_offset, at in offset_entries(file) or ():
        if last_offset > offset:
            break
        position = at
    return position
