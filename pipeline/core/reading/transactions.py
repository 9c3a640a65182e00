"""Records of a partition that a reader of committed data must not see.

All headers from the log's begin on are walked (only the records of markers are decoded): data ended
by a marker with ABORT is aborted, and data without a marker bounds the reader at the last stable
offset. The `.txnindex` files have only the former, so the walk replaces them.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from pipeline.core.reading.discovery import SegmentFile
from pipeline.core.reading.opening import open_segment
from pipeline.core.records.batches import BatchTable, scan
from pipeline.core.records.decode import decode_batch_py
from pipeline.core.records.rows import TRANSACTIONAL_BIT
from wire.batches.batch import CONTROL_BIT
from wire.batches.control_records import ControlType, control_type
from wire.errors import CorruptBatchError


class OpenTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """Data of a producer without a marker: its first offset, and times of batches in ms.

    `producer_epoch` and `last_ms` are those of its last batch.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    first_ms: int
    last_ms: int


class TransactionState(msgspec.Struct, frozen=True):
    """Aborted transactions as (producer id, first offset, marker's offset), both inclusive.

    `last_stable_offset` is exclusive, None when no transaction is open.
    """

    aborted: tuple[tuple[int, int, int], ...]
    last_stable_offset: int | None


def transaction_state(segments: Sequence[SegmentFile]) -> TransactionState:
    """The state at the end of the segments, which are in offset order."""
    aborted: list[tuple[int, int, int]] = []
    opened: dict[int, OpenTransaction] = {}
    for file in segments:
        with open_segment(file.path) as descriptor:
            for table in scan(
                descriptor, 0, file.size, frozen_size=file.size, is_last=file.is_last,
                validate="header",
                reads_old_formats=True,
            ):  # fmt: skip
                follow(table, opened, aborted)
    stable = min((one.first_offset for one in opened.values()), default=None)
    return TransactionState(tuple(aborted), stable)


def follow(
    table: BatchTable, opened: dict[int, OpenTransaction], aborted: list[tuple[int, int, int]]
) -> None:
    """Go on with the next batches of a log.

    Args:
        table: the batches.
        opened: open transactions by producer id, changed in place.
        aborted: as in `TransactionState`, appended to.
    """
    attributes = table.column("attributes")
    found = np.flatnonzero(attributes & TRANSACTIONAL_BIT)
    for index in found.tolist():
        header = table.headers[index]
        producer_id, base = int(header["producer_id"]), int(header["base_offset"])
        if not int(attributes[index]) & CONTROL_BIT:
            last_ms = int(header["max_timestamp_ms"])
            known = opened.get(producer_id)
            opened[producer_id] = OpenTransaction(
                producer_id=producer_id, producer_epoch=int(header["producer_epoch"]),
                first_offset=base if known is None else known.first_offset,
                first_ms=last_ms if known is None else known.first_ms, last_ms=last_ms,
            )  # fmt: skip
            continue
        kind = _marker(table, index)
        if kind is None:
            continue
        first = opened.pop(producer_id, None)
        if kind is ControlType.ABORT and first is not None:
            aborted.append((producer_id, first.first_offset, base))


def _marker(table: BatchTable, index: int) -> ControlType | None:
    try:
        records = decode_batch_py(table, index)
        kind = control_type(records[0].key) if records else None
    except CorruptBatchError:
        return None
    return kind if kind in (ControlType.ABORT, ControlType.COMMIT) else None
