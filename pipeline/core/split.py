"""Cutting segments into pieces of work.

A split owns every batch whose first byte lies in [start, end), and may read beyond its end to
finish the last one. Cuts lie at positions that the offset index names and where a sound batch
starts; without a usable index the headers are walked. Small files are packed together.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from pipeline.core.batches import is_batch_at, scan
from pipeline.core.discovery import SegmentFile
from pipeline.core.index import offset_entries
from pipeline.core.opening import open_segment

MAX_SPLIT_BYTES: Final = 128 << 20
OPEN_COST_BYTES: Final = 4 << 20
_STEP_BYTES: Final = 1 << 20
_STEPS_A_CUT: Final = 16  # how finely a cut is placed where no index helps


class Split(msgspec.Struct, frozen=True):
    """Bytes [start, end) of a file; the hint is an offset at or before its first batch."""

    file: SegmentFile
    start: int
    end: int
    base_offset_hint: int

    @property
    def frozen_size(self) -> int:
        """Nothing at or after it is read."""
        return self.file.size

    @property
    def size(self) -> int:
        """Bytes owned."""
        return self.end - self.start


def plan_splits(
    files: Sequence[SegmentFile],
    max_split: int = MAX_SPLIT_BYTES,
    *,
    max_records: int | None = None,
) -> list[Split]:
    """Every byte of every file in exactly one split.

    Args:
        files: segments and snapshots; empty ones give no split.
        max_split: bytes above which a file is cut, where an index entry allows it.
        max_records: likewise records, counted by offsets.
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
    """Neighbouring splits together while their bytes and the cost of opening each fit."""
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
            hint = offset  # an entry's offset is the last of its append: only a hint
    return cuts


def _walked_entries(
    file: SegmentFile, max_split: int, max_records: int | None
) -> list[tuple[int, int]]:
    """What an index would say, by the headers: as many entries as the cuts need, not one a batch.

    Returns:
        (last offset, position) of a batch every so many bytes and, where asked, offsets.
    """
    step_bytes = min(_STEP_BYTES, max(1, max_split // _STEPS_A_CUT))
    step_records = None if max_records is None else max(1, max_records // _STEPS_A_CUT)
    entries: list[tuple[int, int]] = []
    with open_segment(file.path) as descriptor:
        for table in scan(
            descriptor, 0, file.size, frozen_size=file.size, validate="header",
            window_bytes=_STEP_BYTES,
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
    """What a run will read."""
    return sum(split.size for split in splits)
