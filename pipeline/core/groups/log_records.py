"""Records of a coordinator's log, as its folds take them, from the rows of a read."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
import pyarrow as pa

COLUMNS: Final = ("offset", "timestamp", "key", "value", "producerId", "isTransactional",
                  "isControl", "batchBaseOffset")  # fmt: skip
"""Columns of the read; control records must be among its rows."""


class LogRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One record; `time_ms` None for none, `producer_id` None outside of transactions.

    Records of one batch, that is of one decision of the coordinator, have the same `batch`.
    """

    offset: int
    time_ms: int | None
    key: bytes | None
    value: bytes | None
    producer_id: int | None = None
    is_control: bool = False
    batch: int = 0


def records_of(batches: Iterable[pa.RecordBatch]) -> Iterator[LogRecord]:
    """Yield the records of rows that have at least the columns of COLUMNS."""
    for rows in batches:
        times = rows.column("timestamp").cast(pa.int64()).to_pylist()  # microseconds
        columns = (rows.column(name).to_pylist() for name in COLUMNS if name != "timestamp")
        for time_us, *others in zip(times, *columns, strict=True):
            offset, key, value, producer_id, is_transactional, is_control, batch = others
            yield LogRecord(
                offset=offset, time_ms=None if time_us is None else time_us // 1000, key=key,
                value=value, producer_id=producer_id if is_transactional else None,
                is_control=is_control, batch=batch,
            )  # fmt: skip
