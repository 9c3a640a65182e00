"""Cuts of segments into pieces of work.

A split owns every batch whose first byte lies in [start, end), and may read beyond its end to
finish the last one. Cuts are at positions of the offset index where a sound batch
starts; without a usable index the headers are walked. Small files are packed together.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from pipeline.core.reading.discovery import SegmentFile
from pipeline.core.reading.index import offset_entries
from pipeline.core.reading.opening import open_segment
from pipeline.core.records.batches import is_batch_at, scan

MAX_SPLIT_BYTES: Final = 128 << 20
OPEN_COST_BYTES: Final = 4 << 20
_STEP_BYTES: Final = 1 << 20
_STEPS_A_CUT: Final = 16  # precision of a cut without an index


class Split(msgspec.Struct, frozen=True):
    """Bytes [start, end) of a file; the hint is an offset at or before its first batch."""

    file: SegmentFile
    start: int
    end: int
    base_offset_hint: int

    @property
    def frozen_size(self) -> int:
        """Limit of positions that are read, exclusive."""
        return self.file.size

    @property
    def size(self) -> int:
        """Number of bytes owned."""
        return self.end - self.start


def plan_splits(
    files: Sequence[SegmentFile],
    max_split: int = MAX_SPLIT_BYTES,
    *,
    max_records: int | None = None,
) -> list[Split]:
    """Cut files so that every byte is in exactly one split.

    Args:
        files: segments and snapshots; empty ones give no split.
        max_split: size in bytes above which a file is cut, where an index entry allows it.
        max_records: likewise the number of records, counted by offsets.
    """
    assert max_split > 0
    splits: list[Split] = []
    for file in files:
        if file.size == 0:
            continue
        cuts = _cuts(file, max_split, max_records)
        starts = [(0, file.base_offset), *cuts]
        ends = [position for position, _ in cuts] + [file.size]
        splits += [
            Split(file, start, end, hint) for (start, hint), end in zip(starts, ends, strict=True)
        ]
    return splits


def pack_splits(
    splits: Sequence[Split], max_split: int = MAX_SPLIT_BYTES, open_cost: int = OPEN_COST_BYTES
) -> list[tuple[Split, ...]]:
    """Group neighbouring splits while their bytes and the cost of opening each fit."""
    packs: list[list[Split]] = []
    filled = 0
    for split in splits:
        cost = split.size + open_cost
        if not packs or filled + cost > max_split:
            packs.append([])
            filled = 0
        packs[-1].append(split)
        filled += cost
    return [tuple(pack) for pack in packs]


def _cuts(file: SegmentFile, max_split: int, max_records: int | None) -> list[tuple[int, int]]:
    """(position, offset hint) of each cut, ascending."""
    if file.size <= max_split and max_records is None:
        return []
    entries = None if file.is_snapshot else offset_entries(file)
    if not entries:
        entries = _walked_entries(file, max_split, max_records)
    cuts: list[tuple[int, int]] = []
    start, start_offset, hint = 0, file.base_offset, file.base_offset
    with open_segment(file.path) as descriptor:
        for (offset, position), (_, after) in zip(
            entries, [*entries[1:], (0, file.size)], strict=True
        ):
            too_long = after - start > max_split
            too_many = max_records is not None and offset - start_offset >= max_records
            wanted = position > start and (too_long or too_many)
            if wanted and is_batch_at(descriptor, position, file.size):
                cuts.append((position, hint))
                start, start_offset = position, hint
            hint = offset  # the offset of an entry is the last of its append: only a hint
    return cuts


def _walked_entries(
    file: SegmentFile, max_split: int, max_records: int | None
) -> list[tuple[int, int]]:
    """Entries like those of an index, by the headers: as many as the cuts need, not one a batch.

    Returns:
        (last offset, position) of a batch every so many bytes and, with max_records, offsets.
    """
    step_bytes = min(_STEP_BYTES, max(1, max_split // _STEPS_A_CUT))
    step_records = None if max_records is None else max(1, max_records // _STEPS_A_CUT)
    entries: list[tuple[int, int]] = []
    with open_segment(file.path) as descriptor:
        for table in scan(
            descriptor, 0, file.size, frozen_size=file.size, validate="header",
            window_bytes=_STEP_BYTES,
            reads_old_formats=True,
        ):  # fmt: skip
            if not len(table):
                continue
            positions, offsets = table.positions + table.origin, table.last_offsets
            begins = np.diff(positions // step_bytes, prepend=-1) != 0
            if step_records is not None:
                begins |= np.diff(offsets // step_records, prepend=-1) != 0
            entries += zip(offsets[begins].tolist(), positions[begins].tolist(), strict=True)
    return entries


def total_bytes(splits: Sequence[Split]) -> int:
    """Bytes that a run will read."""
    return sum(split.size for split in splits)
