"""Comparison of two replicas of a compacted partition by the records that both still have.

Batches that both replicas have with the same offsets, count, size and checksum are not opened. The
records of the others are read by offset range, some 262,144 at a time, as offset and hash: the
memory depends on that number and on the number of batches, not on the log.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from pipeline.core.reading.discovery import SegmentFile
from pipeline.core.reading.opening import open_segment
from pipeline.core.records.batches import WINDOW_BYTES, Fault, scan
from pipeline.core.records.decode import RowSelection, decode_batches
from pipeline.core.records.rows import RowContext
from pipeline.core.records.schema import schema_of

Int64Array = npt.NDArray[np.int64]
CHUNK_RECORDS: Final = 1 << 18
_SCHEMA: Final = schema_of("records", "offset,key,value,batchPosition")
_CONTEXT: Final = RowContext(topic="", partition=0, segment="")
_EQUAL: Final = ("last", "crc", "count", "size")
_GAP_BYTES: Final = 256 << 10  # gap that is read on rather than opened again


class LogBatches(msgspec.Struct, frozen=True):
    """Sound batches of one replica: `digest` (dtype DIGEST) is sorted by base offset.

    `files` has the index of the segment for each batch.
    """

    digest: Any
    files: Any
    segments: tuple[SegmentFile, ...]

    @property
    def is_ordered(self) -> bool:
        """True if no two batches share an offset."""
        return bool((self.digest["base"][1:] > self.digest["last"][:-1]).all())


class RecordComparison(msgspec.Struct):
    """Numbers of records on both sides and in both; `batches`: left ones with a shared record.

    `first` is the first differing record: offset, and index of its batch on the right side.
    """

    left: int = 0
    right: int = 0
    shared: int = 0
    batches: int = 0
    different: int = 0
    first: tuple[int, int] | None = None


class _Records(msgspec.Struct, frozen=True):
    """Ascending offsets with the hash of key and value and the index of the batch."""

    offset: Int64Array
    hash: Int64Array
    batch: Int64Array


class _Side(msgspec.Struct, frozen=True):
    """A replica and its batches that are opened, in offset order.

    `reach` is the largest last offset up to each of them.
    """

    log: LogBatches
    wanted: Int64Array
    reach: Int64Array


def compare_records(
    left: LogBatches, right: LogBatches, start: int, end: int, *, chunk_records: int = CHUNK_RECORDS
) -> RecordComparison:
    """Compare the records at offsets in [start, end) by key and value.

    Unreadable batches are left out: the audit of their file reports them. Where a replica has an
    offset twice, the record that comes last in the files counts.

    Args:
        left: one replica.
        right: another one of the same partition.
        start: inclusive.
        end: exclusive.
        chunk_records: limit of records held at a time, of both together, and one batch more.
    """
    found = RecordComparison()
    if start >= end:
        return found
    same = _equal_batches(left, right, start, end)
    counts = left.digest["count"][same[0]]
    found.left = found.right = found.shared = int(counts.sum(dtype=np.int64))
    found.batches = int((counts > 0).sum())
    mine, theirs = _side(left, same[0]), _side(right, same[1])
    has_shared = np.zeros(len(left.digest), np.bool_)
    for low, high in _chunks(mine, theirs, start, end, chunk_records):
        one, two = _records(mine, low, high), _records(theirs, low, high)
        shared, i, j = np.intersect1d(
            one.offset, two.offset, assume_unique=True, return_indices=True
        )
        has_shared[one.batch[i]] = True
        wrong = np.flatnonzero(one.hash[i] != two.hash[j])
        found.left += len(one.offset)
        found.right += len(two.offset)
        found.shared += len(shared)
        found.different += len(wrong)
        if len(wrong) and found.first is None:
            found.first = int(shared[wrong[0]]), int(two.batch[j[wrong[0]]])
    found.batches += int(has_shared.sum())
    return found


def _equal_batches(
    left: LogBatches, right: LogBatches, start: int, end: int
) -> tuple[Int64Array, Int64Array]:
    """Return indices of the batches inside the range that are equal by their checksums."""
    if not (left.is_ordered and right.is_ordered):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    one, two = left.digest, right.digest
    _, i, j = np.intersect1d(one["base"], two["base"], assume_unique=True, return_indices=True)
    same = (one["base"][i] >= start) & (one["last"][i] < end) & (one["count"][i] >= 0)
    for name in _EQUAL:
        same &= one[name][i] == two[name][j]
    return i[same], j[same]


def _side(log: LogBatches, equal: Int64Array) -> _Side:
    is_wanted = np.ones(len(log.digest), np.bool_)
    is_wanted[equal] = False
    wanted = np.flatnonzero(is_wanted)
    return _Side(log, wanted, np.maximum.accumulate(log.digest["last"][wanted]))


def _chunks(
    one: _Side, two: _Side, start: int, end: int, records: int
) -> Iterator[tuple[int, int]]:
    """Yield ranges of offsets, ends exclusive, that together are [start, end)."""
    bases = np.concatenate([side.log.digest["base"][side.wanted] for side in (one, two)])
    counts = np.concatenate([side.log.digest["count"][side.wanted] for side in (one, two)])
    order = np.argsort(bases, kind="stable")
    filled = np.cumsum(np.maximum(counts[order], 0), dtype=np.int64) // records
    cuts = bases[order][np.flatnonzero(np.diff(filled, prepend=0))]
    inside = np.unique(cuts[(cuts > start) & (cuts < end)]).tolist()
    yield from zip([start, *inside], [*inside, end], strict=True)


def _records(side: _Side, low: int, high: int) -> _Records:
    """Read the records at offsets in [low, high) from the batches to open."""
    digest = side.log.digest
    first = int(np.searchsorted(side.reach, low))
    last = int(np.searchsorted(digest["base"][side.wanted], high))
    batches = side.wanted[first:last]
    batches = batches[digest["last"][batches] >= low]
    batches = batches[np.lexsort((digest["position"][batches], side.log.files[batches]))]
    selection = RowSelection(start=low, end=high, include_control=True)
    parts = []
    for run in _runs(side.log, batches):
        with contextlib.suppress(OSError):  # the audit of the file reports it
            parts += list(_read(side.log, run, selection))
    if not parts:
        return _Records(*(np.empty(0, np.int64) for _ in range(3)))
    found = _Records(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    if bool((np.diff(found.offset) > 0).all()):
        return found
    offsets, from_end = np.unique(found.offset[::-1], return_index=True)
    at = len(found.offset) - 1 - from_end
    return _Records(offsets, found.hash[at], found.batch[at])


def _runs(log: LogBatches, batches: Int64Array) -> list[Int64Array]:
    """Group batches that lie near each other in one file."""
    if not len(batches):
        return []
    position, files = log.digest["position"][batches], log.files[batches]
    gaps = position[1:] - (position + log.digest["size"][batches])[:-1]
    cuts = np.flatnonzero((files[1:] != files[:-1]) | (gaps > _GAP_BYTES)) + 1
    return np.split(batches, cuts)


def _read(
    log: LogBatches, run: Int64Array, selection: RowSelection
) -> Iterator[tuple[Int64Array, Int64Array, Int64Array]]:
    """Yield offsets, hashes and batches of the records of a run."""
    file = log.segments[int(log.files[run[0]])]
    positions = log.digest["position"][run]
    start, end = int(positions[0]), int(positions[-1]) + int(log.digest["size"][run[-1]])
    with open_segment(file.path) as descriptor:
        for table in scan(
            descriptor, start, end, frozen_size=file.size,
            window_bytes=min(WINDOW_BYTES, end - start),
        ):  # fmt: skip
            wanted = table.select(np.isin(table.positions + table.origin, positions))
            for rows in decode_batches(wanted, _SCHEMA, _CONTEXT, selection):
                if isinstance(rows, Fault):
                    continue
                pairs = zip(
                    rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True
                )
                hashes = np.fromiter(map(hash, pairs), np.int64, rows.num_rows)
                at = np.searchsorted(positions, rows.column("batchPosition").to_numpy())
                yield rows.column("offset").to_numpy(), hashes, run[at]
