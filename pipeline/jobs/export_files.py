"""The Parquet files of one split: one, or one per day."""

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
NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"  # null in folders of Hive's layout
_OPEN_MAX: Final = 32


class Target(msgspec.Struct, frozen=True):
    """Folder of the files, and the column whose day splits them (None: not split)."""

    folder: str
    date_column: str | None = None


class SplitFiles:
    """Parquet files with the rows of a split; files get their names when they are complete.

    With days at most 32 files are open: if one more is needed, the one opened first is closed, and
    later rows of its day go into a further file, numbered.
    """

    def __init__(self, target: Target, piece: Piece, schema: pa.Schema) -> None:
        file = piece.split.file
        node = "none" if file.node_id is None else str(file.node_id)
        self._partition = Path(target.folder, f"topic={file.topic}", f"partition={file.partition}")
        self._node = f"node={node}"
        self._name = f"{file.name}-{piece.split.start:012d}"
        self._date_column = target.date_column
        self._schema = schema
        self._open: dict[str, _File] = {}
        self._done: list[tuple[Path, int]] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows, in the order of the log."""
        if self._date_column is None:
            self._file("").write(batch)
            return
        days = pc.strftime(batch.column(self._date_column), format="%Y-%m-%d")
        for day in pc.unique(days).to_pylist():
            mask = pc.is_null(days) if day is None else pc.equal(days, day)
            self._file(NO_DATE if day is None else day).write(batch.filter(mask))

    def close(self) -> list[tuple[Path, int]]:
        """Complete all files; returns path and rows of each (without days at least one file)."""
        if not self._open and not self._done and self._date_column is None:
            self._file("")
        while self._open:
            self._close(next(iter(self._open)))
        return self._done

    def _file(self, day: str) -> "_File":
        found = self._open.get(day)
        if found is None:
            if len(self._open) >= _OPEN_MAX:
                self._close(next(iter(self._open)))
            folder = self._partition / (f"date={day}" if day else "") / self._node
            again = sum(1 for path, _ in self._done if path.parent == folder)
            name = f"{self._name}-{again}" if again else self._name
            found = self._open[day] = _File(folder / f"{name}.parquet", self._schema)
        return found

    def _close(self, day: str) -> None:
        file = self._open.pop(day)
        self._done.append((file.path, file.close()))


class _File:
    """One file being written: row groups of some 256 Ki rows, with statistics."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        # another attempt of the same task may run on another machine
        self._temporary = temporary_of(path)
        sorting = None
        if "offset" in schema.names:
            sorting = pq.SortingColumn.from_ordering(schema, [("offset", "ascending")])
        self._sink: Any = pq.ParquetWriter(
            self._temporary, schema, compression="zstd", compression_level=3,
            sorting_columns=sorting,
        )  # fmt: skip
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._rows += batch.num_rows
        rows = sum(one.num_rows for one in self._waiting)
        if rows >= ROW_GROUP_ROWS or sum(one.nbytes for one in self._waiting) >= ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> int:
        self._flush()
        self._sink.close()
        self._temporary.rename(self.path)
        return self._rows

    def _flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self._schema)
            self._sink.write_table(table, row_group_size=ROW_GROUP_ROWS)
            self._waiting.clear()
