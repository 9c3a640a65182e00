"""Files of one table of a history: typed rows by Arrow, open and closed intervals apart."""

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core.records.schema import TIMESTAMP
from pipeline.jobs.history.schema import SCD_ARROW

_ROWS: Final = 16_384
Row = dict[str, Any]


class TableSink:
    """Writer of one SCD table; times are given as microseconds.

    Args:
        table: name of the table.
        folder: folder of `current=true` and `current=false`, the latter only if an interval ended.
        label: part of the file names; differs between runs that feed one archive.
    """

    def __init__(self, table: str, folder: Path, label: str) -> None:
        self._schema = SCD_ARROW[table]
        self._maps = [field.name for field in self._schema if pa.types.is_map(field.type)]
        self._folder = folder
        self._name = f"{table}-{label}.parquet"
        self._rows: dict[bool, list[Row]] = {True: [], False: []}
        self._files: dict[bool, pq.ParquetWriter] = {}
        self._count = 0
        self._open(is_open=True)

    def add(self, row: Row, *, is_open: bool) -> None:
        """Add one row, its columns by name; missing ones are null."""
        self._count += 1
        rows = self._rows[is_open]
        rows.append(row)
        if len(rows) >= _ROWS:
            self._flush(is_open=is_open)

    def close(self) -> int:
        """Finish the files; returns the number of rows written."""
        for is_open in (True, False):
            self._flush(is_open=is_open)
        for sink in self._files.values():
            sink.close()
        return self._count

    def _open(self, *, is_open: bool) -> None:
        place = self._folder / f"current={str(is_open).lower()}"
        place.mkdir(parents=True)
        self._files[is_open] = pq.ParquetWriter(
            place / self._name, self._schema, compression="zstd"
        )

    def _flush(self, *, is_open: bool) -> None:
        rows = self._rows[is_open]
        if not rows:
            return
        if is_open not in self._files:
            self._open(is_open=is_open)
        for row in rows:
            for name in self._maps:
                row[name] = None if row[name] is None else list(dict(row[name]).items())
        columns = [_column(rows, field) for field in self._schema]
        self._files[is_open].write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._rows[is_open] = []


def _column(rows: list[Row], field: pa.Field) -> pa.Array:
    values = [row.get(field.name) for row in rows]
    if field.type == TIMESTAMP:
        return pa.array(values, pa.int64()).view(TIMESTAMP)
    return pa.array(values, field.type)
