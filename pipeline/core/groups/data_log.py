"""Headers of one data partition: its end offset at any instant, and its open transactions.

An end offset in the past is known by the stamps of batches, never better than to a batch:

- `high`: a batch that is stamped after an instant was appended after it, so the log ended at or
  before the first one of them. That holds for both kinds of stamps, as a producer stamps a record
  before it sends it, if clocks agree and producers stamp records with the time of sending.
- `low`: a batch that its leader stamped (LogAppendTime) before the instant was there by then. A
  stamp of a producer (CreateTime) says so only after the time that a producer may take to deliver,
  where that is known and no stamp is older than its sending: the batch may have been on its way.

With stamps of leaders both are equal, but for the millisecond of an append itself and where the
cleaner or retention has removed the batches between. Times of old messages without any count as
no stamp.
"""

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from pipeline.core.reading.discovery import PartitionFiles, SegmentFile
from pipeline.core.reading.index import offset_entries
from pipeline.core.reading.log_positions import locate
from pipeline.core.reading.opening import open_segment
from pipeline.core.reading.ranges import judge_tail
from pipeline.core.reading.reader import is_cut
from pipeline.core.reading.transactions import OpenTransaction, follow
from pipeline.core.records.batches import BatchTable, scan

Int64Array = npt.NDArray[np.int64]
APPEND_TIME: Final = 1
_NEVER: Final = 1 << 62  # later than any instant
_DAMAGE_MAX: Final = 20


class Stamps(msgspec.Struct, frozen=True, kw_only=True):
    """A row per batch in log order: first offset, exclusive end, stamp in ms, the leader's or not.

    `log_end` is the exclusive end of all of them.
    """

    bases: Int64Array
    ends: Int64Array
    stamps_ms: Int64Array
    is_leaders: npt.NDArray[np.bool_]
    log_end: int

    def ends_at(
        self, instants_ms: Int64Array, delivery_ms: int | None = None
    ) -> tuple[Int64Array, Int64Array]:
        """Low and high of the log's end at each instant; a low of 0 says nothing.

        Args:
            instants_ms: any instants.
            delivery_ms: the longest that a batch takes from its producer's stamp to the log, None
                if nobody says so.
        """
        seen = np.maximum.accumulate(self.stamps_ms)
        after = np.searchsorted(seen, instants_ms, side="right")
        high = np.append(self.bases, self.log_end)[after]
        delivered = _NEVER if delivery_ms is None else self.stamps_ms + delivery_ms
        there = np.where(self.is_leaders, self.stamps_ms, delivered)
        there = np.where(self.stamps_ms < 0, _NEVER, there)
        # a batch was there at the latest when one behind it was
        by_then = np.minimum.accumulate(there[::-1])[::-1]
        before = np.searchsorted(by_then, instants_ms, side="left")
        return np.append(np.zeros(1, np.int64), self.ends)[before], high


class DataLog(msgspec.Struct, frozen=True, kw_only=True):
    """Headers of a partition below an end; the damage among them, a line each."""

    stamps: Stamps
    opened: tuple[OpenTransaction, ...]
    damage: tuple[str, ...] = ()


def read_data_log(partition: PartitionFiles, end: int | None) -> DataLog:
    """Read the headers of a copy, below the exclusive end if one is given.

    Damage is passed over: only stamps between two batches are lost by it. Bytes are not checked
    against their checksums.

    Raises:
        OSError: a file is gone or cannot be read.
    """
    copy, _ = judge_tail(partition)
    opened: dict[int, OpenTransaction] = {}
    damage: list[str] = []
    columns = [np.zeros((4, 0), np.int64)]
    for file in copy.segments:
        if end is not None and file.base_offset >= end:
            break
        start = copy.log_start_offset
        for table in _tables(file, locate(file, start), damage):
            wanted = table.column("base_offset") >= start
            if end is not None:
                wanted &= table.last_offsets < end
            kept = table.select(wanted)
            follow(kept, opened, [])
            columns.append(_columns(kept))  # NB: a table would keep the bytes of its batches
    transactions = sorted(opened.values(), key=lambda one: one.first_offset)
    return DataLog(
        stamps=_stamps(np.concatenate(columns, axis=1), copy.log_start_offset),
        opened=tuple(transactions), damage=tuple(damage[:_DAMAGE_MAX]),
    )  # fmt: skip


def _tables(file: SegmentFile, begin: int, damage: list[str]) -> Iterator[BatchTable]:
    with open_segment(file.path) as descriptor:
        for table in scan(
            descriptor, begin, file.size, frozen_size=file.size, is_last=file.is_last,
            validate="header", reads_old_formats=True,
        ):  # fmt: skip
            fault = table.fault
            if fault is not None and not is_cut(fault, file):
                damage.append(f"{file.path}:{fault.position} {fault.reason}: {fault.detail}")
            if len(table):
                yield table


def _columns(table: BatchTable) -> Int64Array:
    """First offsets, exclusive ends, stamps and types of stamps, a column per batch."""
    ends, stamps = table.last_offsets + 1, table.column("max_timestamp_ms")
    return np.stack([table.column("base_offset"), ends, stamps, table.timestamp_types])


def _stamps(columns: Int64Array, log_start: int) -> Stamps:
    bases, ends, stamps, types = columns
    return Stamps(
        bases=bases, ends=ends, stamps_ms=stamps, is_leaders=types == APPEND_TIME,
        log_end=int(ends.max(initial=log_start)),
    )  # fmt: skip


def newest_stamp_ms(partition: PartitionFiles) -> int | None:
    """The newest stamp among the last batches of a copy; None without any.

    Raises:
        OSError: as `read_data_log`.
    """
    for file in reversed(partition.segments):
        entries = offset_entries(file)
        tables = _tables(file, entries[-1][1] if entries else 0, [])
        newest = max((int(one.column("max_timestamp_ms").max()) for one in tables), default=-1)
        if newest >= 0:
            return newest
    return None
