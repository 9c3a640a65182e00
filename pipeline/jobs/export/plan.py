"""Flags of an export to one value: what its tasks read and how their files are cut."""

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import pyarrow as pa

from pipeline.core.errors import BadInputError
from pipeline.core.reading.options import Options, parse_options
from pipeline.core.reading.reader import Piece, read_schema
from pipeline.jobs.export.files import PATH_COLUMNS, Target, file_schema
from pipeline.jobs.export.tasks import Task

DATE_COLUMNS: Final = {"records": "timestamp", "json": "timestamp",
                       "metadata": "maxTimestamp", "raw": "maxTimestamp"}  # fmt: skip
PARQUET: Final = "parquet"
DELTA: Final = "delta"
FORMATS: Final = (PARQUET, DELTA)
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class ExportPlan(msgspec.Struct, frozen=True):
    """Options of the read and the cut of the files; the same for every engine."""

    options: Options
    target: Target

    @property
    def schema(self) -> pa.Schema:
        """Columns of the files."""
        return file_schema(read_schema(self.options))

    def tasks(self, pieces: Iterable[Piece]) -> list[Task]:
        """Cut pieces into tasks: one each, or neighbours of a partition up to the size of a file.

        That size is of the log, so a task has one file unless its log is compressed better.
        """
        limit = self.target.file_bytes
        tasks: list[list[Piece]] = []
        filled = 0
        for piece in pieces:
            size = piece.split.size
            fits = limit is not None and filled + size <= limit
            if tasks and fits and tasks[-1][0].split.file.directory == piece.split.file.directory:
                tasks[-1].append(piece)
                filled += size
            else:
                tasks.append([piece])
                filled = size
        return [tuple(task) for task in tasks]


def add_plan_arguments(parser: ArgumentParser) -> None:
    """Add the flags that say what is read and how files are cut."""
    parser.add_argument("--decode", default="records", help="metadata, records, raw or json")
    parser.add_argument("--columns", default="full", help="full, kafka or names with commas")
    parser.add_argument("--mode", default="FAILFAST", help="FAILFAST, PERMISSIVE, DROPMALFORMED")
    parser.add_argument("--errors-path", metavar="DIR", help="not with FAILFAST: JSON lines of all"
                        " that is damaged")  # fmt: skip
    parser.add_argument("--replicas", default="one", help="one: each record once, the default; all:"
                        " from every folder")  # fmt: skip
    parser.add_argument("--until", help="high_watermark, or end: also what a node may truncate"
                        " later")  # fmt: skip
    parser.add_argument("--subscribe", help="topics, separated by commas; all without it")
    parser.add_argument(
        "--by",
        default="segment",
        choices=("segment", "date"),
        help="date: also a folder per day (UTC) of the record",
    )
    parser.add_argument("--target-file-size", metavar="BYTES", help="about so large files, from"
                        " several segments if need be: 256m")  # fmt: skip
    parser.add_argument("--sort", metavar="COLUMNS", help="sort the rows of each file by these,"
                        " separated by commas; in the order of the log without it")  # fmt: skip


def export_plan(inputs: Sequence[str], arguments: Namespace) -> ExportPlan:
    """Check the flags; the folder and the label of the target are still empty.

    Raises:
        BadInputError: a flag that is not allowed.
    """
    options = _options(inputs, arguments)
    size = None
    if arguments.target_file_size is not None:
        size = _size("--target-file-size", arguments.target_file_size)
        split = min(options.max_split_bytes, size)
        options = msgspec.structs.replace(options, max_split_bytes=split)
    schema = file_schema(read_schema(options))
    if not schema.names:
        raise BadInputError(f"--columns {arguments.columns} leaves nothing for the files: the"
                            f" folders say {' and '.join(PATH_COLUMNS)}")  # fmt: skip
    target = Target(
        folder="", date_column=_date_column(arguments, options), file_bytes=size,
        by_node=options.replicas == "all", sort=_sort(arguments.sort, schema),
    )  # fmt: skip
    return ExportPlan(options, target)


def _options(inputs: Sequence[str], arguments: Namespace) -> Options:
    given = {
        "decode": arguments.decode,
        "columns": arguments.columns,
        "mode": arguments.mode,
        "replicas": arguments.replicas,
        "paths": msgspec.json.encode(inputs).decode(),
    }
    if arguments.until:
        given["until"] = arguments.until
    if arguments.subscribe:
        given["subscribe"] = arguments.subscribe
    if arguments.errors_path:
        if arguments.mode.upper() == "FAILFAST":
            raise BadInputError("--errors-path needs --mode PERMISSIVE or DROPMALFORMED: the first"
                                " error ends a run with FAILFAST")  # fmt: skip
        given["errorsPath"] = arguments.errors_path
    return parse_options(given)


def _date_column(arguments: Namespace, options: Options) -> str | None:
    """The column with the day, None if the files are not cut by day."""
    if arguments.by != "date":
        return None
    name = DATE_COLUMNS[options.decode]
    if name not in read_schema(options).names:
        raise BadInputError(f"--by date needs the column {name}; --columns is {options.columns!r}")
    return name


def _size(flag: str, text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,12})([kmg]?)b?", text.strip().lower())
    size = 0 if found is None else int(found[1]) * _UNITS[found[2]]
    if size == 0:
        raise BadInputError(f"{flag} is {text!r}, allowed: bytes, or like 256m or 1g")
    return size


def _sort(text: str | None, schema: pa.Schema) -> tuple[str, ...]:
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    allowed = [field.name for field in schema if not pa.types.is_nested(field.type)]
    wrong = [name for name in names if name not in allowed]
    if wrong or not names or len(set(names)) != len(names):
        raise BadInputError(f"--sort is {text!r}, allowed, each once: {', '.join(allowed)}")
    return names
