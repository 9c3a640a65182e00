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


class TransactionState(msgspec.Struct, frozen=True):
    """Aborted transactions as (producer id, first offset, marker's offset), both inclusive.

    `last_stable_offset` is exclusive, None when no transaction is open.
    """

    aborted: tuple[tuple[int, int, int], ...]
    last_stable_offset: int | None


def transaction_state(segments: Sequence[SegmentFile]) -> TransactionState:
    """The state at the end of the segments, which are in offset order."""
    aborted: list[tuple[int, int, int]] = []
    open_since: dict[int, int] = {}
    for file in segments:
        with open_segment(file.path) as descriptor:
            for table in scan(
                descriptor, 0, file.size, frozen_size=file.size, is_last=file.is_last,
                validate="header",
                reads_old_formats=True,
            ):  # fmt: skip
                _follow(table, open_since, aborted)
    return TransactionState(tuple(aborted), min(open_since.values(), default=None))


def _follow(
    table: BatchTable, open_since: dict[int, int], aborted: list[tuple[int, int, int]]
) -> None:
    attributes = table.column("attributes")
    found = np.flatnonzero(attributes & TRANSACTIONAL_BIT)
    producers, bases = table.column("producer_id"), table.column("base_offset")
    for index in found.tolist():
        producer_id, base = int(producers[index]), int(bases[index])
        if not int(attributes[index]) & CONTROL_BIT:
            open_since.setdefault(producer_id, base)
            continue
        kind = _marker(table, index)
        if kind is None:
            continue
        first = open_since.pop(producer_id, None)
        if kind is ControlType.ABORT and first is not None:
            aborted.append((producer_id, first, base))


def _marker(table: BatchTable, index: int) -> ControlType | None:
    try:
        records = decode_batch_py(table, index)
        kind = control_type(records[0].key) if records else None
    except CorruptBatchError:
        return None
    return kind if kind in (ControlType.ABORT, ControlType.COMMIT) else None
