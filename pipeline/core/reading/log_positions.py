"""Places in a log by its headers: the batch of an offset, the end, an epoch."""

from collections.abc import Iterator

import msgspec

from pipeline.core.reading.discovery import PartitionFiles, SegmentFile
from pipeline.core.reading.index import offset_entries
from pipeline.core.reading.opening import open_segment
from pipeline.core.records.batches import Fault, is_batch_at, scan

NO_EPOCH = -1
_WINDOW_BYTES = 1 << 20


class Boundary(msgspec.Struct, frozen=True, gc=False):
    """A boundary between two batches: the next offset, and epoch and size of the batch before it.

    `position` is the start of that batch in its segment, `base` its first offset.
    """

    offset: int
    epoch: int
    position: int = 0
    size: int = 0
    base: int = 0


def walk_from(
    file: SegmentFile, start: int, end: int, validate: str = "header"
) -> Iterator[Boundary]:
    """Yield the end of each sound batch that starts in [start, end), ascending; damage is skipped.

    Damage is defined by `validate`, as in a reader. No checksum covers the base offset: a batch
    with a higher one than the next batch, or a lower one than the one before, gives no boundary.
    """
    low, held = file.base_offset, None
    for boundary in _all_ends(file, start, end, validate):
        if boundary.base < low:
            continue
        if held is not None and held.offset <= boundary.base:
            yield held
            low = held.offset
        held = boundary
    if held is not None:
        yield held


def _all_ends(file: SegmentFile, start: int, end: int, validate: str) -> Iterator[Boundary]:
    with open_segment(file.path) as descriptor:
        for table in scan(
            descriptor, start, end, frozen_size=file.size, is_last=True, validate=validate,
            window_bytes=_WINDOW_BYTES,
            reads_old_formats=True,
        ):  # fmt: skip
            ends = (table.last_offsets + 1).tolist()
            epochs = table.column("leader_epoch").tolist()
            positions = (table.positions + table.origin).tolist()
            bases = table.column("base_offset").tolist()
            yield from map(Boundary, ends, epochs, positions, table.sizes.tolist(), bases)


def locate(file: SegmentFile, offset: int, validate: str = "header") -> int:
    """End of the last sound batch with all offsets below the given one; else the begin.

    Damage after that batch is read by the range that begins at the offset, not by the one that ends
    there: each byte of a segment belongs to exactly one of two neighbouring ranges.
    """
    reached = start = _position_before(file, offset)
    for boundary in walk_from(file, start, file.size, validate):
        if boundary.offset > offset:
            break
        reached = boundary.position + boundary.size
    return reached


def end_boundary(files: PartitionFiles, limit: int | None, validate: str = "header") -> Boundary:
    """The last batch boundary, at or below the limit if one is given.

    The begin of an empty last segment is one too, even if the offsets before it are gone.
    """
    rolled_to = files.first_offset
    for file in reversed(files.segments):
        if limit is not None and file.base_offset > limit:
            continue
        rolled_to = max(rolled_to, file.base_offset)
        found = None
        # one offset below the limit may lie in the batch that crosses it: begin well before
        start = _position_before(file, (1 << 62) if limit is None else limit)
        for begin in dict.fromkeys((start, 0)):
            for boundary in walk_from(file, begin, file.size, validate):
                if limit is not None and boundary.offset > limit:
                    break
                found = boundary
            if found is not None:
                if found.offset >= rolled_to:
                    return found
                return Boundary(rolled_to, found.epoch)
    return Boundary(rolled_to, NO_EPOCH)


def tail_fault(files: PartitionFiles, end: Boundary, validate: str) -> Fault | None:
    """The damage that begins right at a boundary; a cut batch does not count."""
    for file in reversed(files.segments):
        if file.base_offset > end.offset:
            continue
        start = 0 if file.base_offset == end.offset else end.position + end.size
        with open_segment(file.path) as descriptor:
            for table in scan(
                descriptor, start, file.size, frozen_size=file.size, is_last=True,
                validate=validate, window_bytes=_WINDOW_BYTES,
                reads_old_formats=True,
            ):  # fmt: skip
                is_damage = table.fault is not None and table.fault.reason != "vanished"
                return table.fault if is_damage and not len(table) else None
        return None
    return None


def epoch_before(files: PartitionFiles, offset: int, validate: str = "header") -> int:
    """Leader epoch of the last batch that begins below the offset; -1 without one."""
    for file in reversed(files.segments):
        if file.base_offset >= offset:
            continue
        found = NO_EPOCH
        for boundary in walk_from(file, _position_before(file, offset), file.size, validate):
            if boundary.base >= offset:
                break
            found = boundary.epoch
        if found != NO_EPOCH:
            return found
    return NO_EPOCH


def _position_before(file: SegmentFile, offset: int) -> int:
    """Position, by the index, of a sound batch after batches below the given offset; else 0."""
    position = 0
    for last_offset, at in offset_entries(file) or ():
        if last_offset >= offset:
            break
        position = at
    if position == 0:
        return 0
    with open_segment(file.path) as descriptor:
        return position if is_batch_at(descriptor, position, file.size) else 0
