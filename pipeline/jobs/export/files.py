"""The Parquet files of one task: one, or one per day, or several of a size."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.core.reading.reader import Piece
from pipeline.jobs.task_files import temporary_of

ROW_GROUP_ROWS: Final = 1 << 18
ROW_GROUP_BYTES: Final = 64 << 20
SORT_BYTES_MAX: Final = 128 << 20  # rows of one task in memory, to be sorted
NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"  # null in folders of Hive's layout
PATH_COLUMNS: Final = ("topic", "partition")  # said by the folders, so not in the files
_OPEN_MAX: Final = 32
_GROUPS_A_FILE: Final = 4  # a file ends at a row group: of so many it has about its size


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Place of the files of an export, and how they are cut.

    `folder` holds them. `date_column`: its day splits them (None: not split). `label` begins
    their names. `by_node`: a folder per node, where each replica is written. `file_bytes`: size at
    which a file ends. `sort`: columns by which the rows of a file are sorted; none: in the order
    of the log.
    """

    folder: str
    date_column: str | None = None
    label: str = ""
    by_node: bool = False
    file_bytes: int | None = None
    sort: tuple[str, ...] = ()


class Written(msgspec.Struct, frozen=True):
    """A complete file: its rows, and the range of their offsets, half-open.

    The range is None if the rows have no column of offsets.
    """

    path: Path
    rows: int
    start_offset: int | None
    end_offset: int | None


def file_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of a file: those of the read without those that the folders say."""
    return pa.schema([field for field in schema if field.name not in PATH_COLUMNS])


class SplitFiles:
    """Parquet files with the rows of a task; files get their names when they are complete.

    With days at most 32 files are open: if one more is needed, the one opened first is closed, and
    later rows of its day go into a further file, numbered; so do rows behind a file of full size.

    Args:
        target: place and cut of the files.
        pieces: what the task reads, of one replica of a partition; not empty.
        schema: columns of the rows.
    """

    def __init__(self, target: Target, pieces: Sequence[Piece], schema: pa.Schema) -> None:
        first = pieces[0].split
        file = first.file
        node = "none" if file.node_id is None else str(file.node_id)
        self._partition = Path(target.folder, f"topic={file.topic}", f"partition={file.partition}")
        self._node = f"node={node}" if target.by_node else ""
        self._name = f"{target.label}{file.name}-{first.start:012d}"
        self._target = target
        self._schema = file_schema(schema)
        self._open: dict[str, _File] = {}
        self._done: list[Written] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows, in the order of the log."""
        date_column = self._target.date_column
        if date_column is None:
            self._append("", batch)
            return
        days = pc.strftime(batch.column(date_column), format="%Y-%m-%d")
        for day in pc.unique(days).to_pylist():
            mask = pc.is_null(days) if day is None else pc.equal(days, day)
            self._append(NO_DATE if day is None else day, batch.filter(mask))

    def close(self) -> list[Written]:
        """Complete all files; returns them (without days at least one)."""
        if not self._open and not self._done and self._target.date_column is None:
            self._file("")
        while self._open:
            self._close(next(iter(self._open)))
        return self._done

    def _append(self, day: str, batch: pa.RecordBatch) -> None:
        file = self._file(day)
        file.write(batch)
        if file.is_full:
            self._close(day)
        elif self._target.sort and sum(one.held for one in self._open.values()) >= SORT_BYTES_MAX:
            self._close(max(self._open, key=lambda name: self._open[name].held))

    def _file(self, day: str) -> "_File":
        found = self._open.get(day)
        if found is None:
            if len(self._open) >= _OPEN_MAX:
                self._close(next(iter(self._open)))
            folder = self._partition / (f"date={day}" if day else "") / self._node
            again = sum(1 for one in self._done if one.path.parent == folder)
            name = f"{self._name}-{again}" if again else self._name
            place = folder / f"{name}.parquet"
            found = self._open[day] = _File(place, self._schema, self._target)
        return found

    def _close(self, day: str) -> None:
        self._done.append(self._open.pop(day).close())


class _File:
    """One file being written: row groups of some 256 Ki rows, with statistics.

    To be sorted, all its rows are held until its end.
    """

    def __init__(self, path: Path, schema: pa.Schema, target: Target) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.held = 0  # bytes of rows in memory
        self._path = path
        self._sort = [(name, "ascending") for name in target.sort]
        self._limit = target.file_bytes
        group = target.file_bytes or ROW_GROUP_BYTES * _GROUPS_A_FILE
        self._group_bytes = max(1, min(ROW_GROUP_BYTES, group // _GROUPS_A_FILE))
        # another attempt of the same task may run on another machine
        self._temporary = temporary_of(path)
        self._out = pa.OSFile(str(self._temporary), "wb")
        order = self._sort or ([("offset", "ascending")] if "offset" in schema.names else [])
        sorting = pq.SortingColumn.from_ordering(schema, order) if order else None
        self._sink: Any = pq.ParquetWriter(
            self._out, schema, compression="zstd", compression_level=3, sorting_columns=sorting
        )
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._rows = 0
        self._range = _OffsetRange()

    @property
    def is_full(self) -> bool:
        """True if the file has its size: as it is written, or as it is held to be sorted."""
        reached = self.held if self._sort else self._out.tell()
        return self._limit is not None and reached >= self._limit

    def write(self, batch: pa.RecordBatch) -> None:
        self._range.add(batch)
        self._waiting.append(batch.select(self._schema.names))
        self._rows += batch.num_rows
        self._waiting_rows += batch.num_rows
        self.held += self._waiting[-1].nbytes
        if self._sort:
            return
        if self._waiting_rows >= ROW_GROUP_ROWS or self.held >= self._group_bytes:
            self._flush()

    def close(self) -> Written:
        self._flush()
        self._sink.close()
        self._out.close()
        self._temporary.rename(self._path)
        return Written(self._path, self._rows, self._range.start, self._range.end)

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting, self._schema)
        if self._sort:
            table = table.take(_stable_order(table, self._sort))
        self._sink.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self._waiting.clear()
        self._waiting_rows = self.held = 0


class _OffsetRange:
    """Lowest offset and end of the rows, by the column of records or those of batches."""

    def __init__(self) -> None:
        self.start: int | None = None
        self.end: int | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in rows."""
        names = batch.schema.names
        low = "offset" if "offset" in names else "baseOffset"
        high = "offset" if "offset" in names else "lastOffset"
        if low not in names or high not in names:
            return
        first, last = pc.min(batch.column(low)).as_py(), pc.max(batch.column(high)).as_py()
        if first is None or last is None:
            return
        # damage by its base offset may be out of order: bounds of a table must hold all rows
        self.start = first if self.start is None else min(first, self.start)
        self.end = last + 1 if self.end is None else max(last + 1, self.end)


def _stable_order(table: pa.Table, sort: list[tuple[str, str]]) -> pa.Array:
    """Row numbers in the wanted order; equal rows stay in the order of the log."""
    number = pa.array(range(table.num_rows), pa.int64())
    keys = table.select([name for name, _ in sort]).append_column("", number)
    return pc.sort_indices(keys, sort_keys=[*sort, ("", "ascending")])
