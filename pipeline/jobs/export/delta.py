"""A growing export as a Delta table: its data files are the table's, its watermarks a commit's.

    OUTPUT/_delta_log
    OUTPUT/topic=T/partition=P/NUMBER-SEGMENT-POSITION.parquet

A run is one transaction of the table: files, watermarks and the number of the run appear together,
or not at all.
"""

from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from typing_extensions import override

from pipeline.core.errors import BadInputError
from pipeline.jobs.delta_tables import LOG_NAME, Delta, DeltaCommit, DeltaFile, is_begun
from pipeline.jobs.export.files import NO_DATE
from pipeline.jobs.export.growing import Book, ExportState
from pipeline.jobs.export.tasks import Exported

APP: Final = "kraftline.export"
DATE_COLUMN: Final = "date"
_FOLDER_TYPES: Final = {"topic": pa.string(), "partition": pa.int32(), DATE_COLUMN: pa.date32()}


class DeltaBook(Book):
    """The table in a folder.

    Args:
        output: folder of the table.
        schema: columns of the files.
        by_date: a folder per day, so `date` is a column too.

    Raises:
        BadInputError: the table's log cannot be read.
    """

    def __init__(self, output: Path, schema: pa.Schema, *, by_date: bool) -> None:
        super().__init__(output)
        self._folders = [name for name in _FOLDER_TYPES if by_date or name != DATE_COLUMN]
        said = [pa.field(name, _FOLDER_TYPES[name]) for name in self._folders]
        self._schema = pa.schema([*said, *schema])
        self._delta = Delta(output)

    @override
    def is_part(self, name: str) -> bool:
        return name == LOG_NAME or name.startswith("topic=")

    @override
    def is_begun(self) -> bool:
        return is_begun(self.output)

    @override
    def state(self) -> ExportState | None:
        self._delta = Delta(self.output)
        if not self._delta.exists:
            return None
        if self._delta.number(APP) is None:
            raise BadInputError(f"{self.output}: a Delta table that no export has begun")
        found = self._delta.state(APP)
        try:
            return msgspec.convert(found.get("export"), ExportState)
        except msgspec.ValidationError as error:
            raise BadInputError(
                f"{self.output}: the state of the last run can not be read, so nothing can be"
                " appended"
            ) from error

    @override
    def check_columns(self, state: ExportState, columns: tuple[str, ...]) -> None:
        """Check types alone: a table may gain columns, and one that is not read is null."""
        self._delta.check_schema(self._schema, self._folders)

    @override
    def is_published(self, number: int) -> bool:
        return number <= (Delta(self.output).number(APP) or 0)

    @override
    def publish(
        self, folder: Path, exported: list[Exported], state: ExportState, run: bytes
    ) -> None:
        said: dict[str, Any] = {
            "export": msgspec.to_builtins(state), "run": msgspec.json.decode(run)
        }  # fmt: skip
        files = [self._file(one) for one in exported]
        commit = DeltaCommit(app=APP, number=state.number, state=said, add=files)
        self._delta.commit(commit, self._schema, self._folders)

    @override
    def complete(self) -> None:
        """Nothing comes behind the transaction."""

    def _file(self, one: Exported) -> DeltaFile:
        said = dict(part.split("=", 1) for part in one.file.split("/")[:-1])
        bounds: dict[str, tuple[int, int]] = {}
        start, end = one.start_offset, one.end_offset
        if "offset" in self._schema.names and start is not None and end is not None:
            bounds["offset"] = start, end - 1
        return DeltaFile(
            path=one.file, size_bytes=one.bytes, rows=one.rows, bounds=bounds,
            modified_ms=int((self.output / one.file).stat().st_mtime * 1000),
            partitions={name: None if said[name] == NO_DATE else said[name]
                        for name in self._folders},
        )  # fmt: skip
