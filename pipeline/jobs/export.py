"""`export`: records to Parquet, one file per split (and day), with a manifest.

The files are written by Arrow in the process that decodes (this one, or Spark's tasks): no row
passes through the JVM. A file is named after its segment and position, so a run repeated over the
same splits gives the same names. Rows are in the order of the log.

    data/topic=T/partition=P/node=N/SEGMENT-POSITION.parquet
    data/topic=T/partition=P/date=2026-11-21/node=N/SEGMENT-POSITION.parquet    with --by date
"""

import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import crc32c
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core.audit.findings import ERROR, Finding
from pipeline.core.errors import BadInputError
from pipeline.core.reading.discovery import SegmentFile
from pipeline.core.reading.opening import open_segment
from pipeline.core.reading.options import Options, parse_options
from pipeline.core.reading.reader import Piece, plan_read, read_schema, read_splits
from pipeline.core.records.batches import Fault, scan
from pipeline.core.stage import Stage
from pipeline.jobs.engines import engine_choice, start_engine
from pipeline.jobs.export_files import SplitFiles, Target
from pipeline.jobs.job import JobConfig, JobResult, progress, publishing

NAME: Final = "export"
DATE_COLUMNS: Final = {"records": "timestamp", "json": "timestamp",
                       "metadata": "maxTimestamp", "raw": "maxTimestamp"}  # fmt: skip
_SHOWN: Final = 20  # damaged places printed on stderr; all are in --errors-path


class Exported(msgspec.Struct, frozen=True):
    """One written file: a row of the manifest.

    `start` and `end` are the split's positions in the segment, which has `segment_bytes`;
    `crc_of_crcs` is the CRC-32C of the stored checksums of the split's batches,
    so two exports can be compared without reading either.
    """

    file: str
    topic: str
    partition: int
    segment: str
    segment_bytes: int
    start: int
    end: int
    crc_of_crcs: int
    rows: int
    bytes: int


class Damage(msgspec.Struct):
    """Damage in a split: the count, and the first places."""

    count: int = 0
    first: list[Finding] = []

    def add(self, file: SegmentFile, fault: Fault) -> None:
        """Count one fault."""
        self.count += 1
        if len(self.first) < _SHOWN:
            self.first.append(
                Finding(
                    severity=ERROR, check=fault.reason, path=file.path, position=fault.position,
                    length=fault.length, offset=fault.base_offset, detail=fault.detail,
                )
            )  # fmt: skip


def add_arguments(parser: ArgumentParser) -> None:
    """Add the flags of this job."""
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


def run(config: JobConfig) -> JobResult:
    """Write the input's records below the output.

    Damaged or missing data counts as findings, the first of it printed on stderr; in mode
    FAILFAST it ends the run.

    Raises:
        BadInputError: nothing to read, or a flag that is not allowed.
    """
    options = _options(config)
    date_column = _date_column(config, options)
    plan = plan_read(options)
    if not plan.packs:
        raise BadInputError(f"{', '.join(config.inputs)}: no segments")
    for warning in (*plan.warnings, *plan.notes, *plan.cut_tails):
        sys.stderr.write(f"{warning}\n")
    pieces = [(piece,) for pack in plan.packs for piece in pack]
    if config.dry_run:
        counters = {"splits": len(pieces), "bytes": plan.bytes}
        return JobResult(counters=counters, findings=len(plan.warnings))
    choice = engine_choice(config, plan.bytes)
    with publishing(config, [piece.split for (piece,) in pieces]) as publication:
        data = publication.folder / "data"
        target = Target(str(data), date_column)
        stage = export_stage(pieces, options, target)
        engine = start_engine(config, NAME, choice)
        with progress(engine.spark, plan.bytes, tasks=len(pieces), as_json=config.as_json) as shown:
            found = [one for part in engine.run(stage, shown) for one in part]
        written = [one for one in found if isinstance(one, Exported)]
        damages = [one for one in found if isinstance(one, Damage)]
        damaged = sum(one.count for one in damages)
        manifest = pa.Table.from_pylist([msgspec.structs.asdict(one) for one in written])
        pq.write_table(manifest, publication.folder / "manifest.parquet", compression="zstd")
        rows = sum(one.rows for one in written)
        publication.result = JobResult(
            tables={"data": rows, "manifest": len(written)},
            counters={"bytes": plan.bytes, "damaged": damaged},
            findings=damaged + len(plan.warnings),
            bypassed=plan.cut_tails,
            engine=choice,
        )
    _show(damages, damaged)
    return publication.result


def _show(damages: list[Damage], count: int) -> None:
    shown = [finding for damage in damages for finding in damage.first][:_SHOWN]
    for finding in shown:
        sys.stderr.write(finding.line() + "\n")
    if count > len(shown):
        sys.stderr.write(f"and {count - len(shown)} more\n")


def _options(config: JobConfig) -> Options:
    arguments = config.arguments
    given = {
        "decode": arguments.decode,
        "columns": arguments.columns,
        "mode": arguments.mode,
        "replicas": arguments.replicas,
        "paths": msgspec.json.encode(config.inputs).decode(),
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


def _date_column(config: JobConfig, options: Options) -> str | None:
    """The column with the day, None if the files are not cut by day."""
    if config.arguments.by != "date":
        return None
    name = DATE_COLUMNS[options.decode]
    if name not in read_schema(options).names:
        raise BadInputError(f"--by date needs the column {name}; --columns is {options.columns!r}")
    return name


def export_stage(
    pieces: Sequence[tuple[Piece]], options: Options, target: Target
) -> Stage[tuple[Piece], list[Exported | Damage]]:
    """The work of an export: a task per split, which writes its files."""
    sizes = tuple(piece.split.size for (piece,) in pieces)
    return Stage(partial(_written, options=options, target=target), tuple(pieces), sizes)


def _written(pieces: tuple[Piece], *, options: Options, target: Target) -> list[Exported | Damage]:
    return list(write_pieces(pieces, options, target))


def write_pieces(
    pieces: Sequence[Piece], options: Options, target: Target
) -> Iterator[Exported | Damage]:
    """Write each piece to its files; a task that runs again writes the same files."""
    schema = read_schema(options)
    for piece in pieces:
        split, file = piece.split, piece.split.file
        checksum = crc_of_crcs(piece)
        files = SplitFiles(target, piece, schema)
        damage = Damage()
        for batch in read_splits((piece,), options, schema, damage.add):
            files.write(batch)
        for path, rows in files.close():
            relative = str(path.relative_to(target.folder))
            yield Exported(
                relative, file.topic, file.partition, file.name, split.frozen_size, split.start,
                split.end, checksum, rows, path.stat().st_size,
            )  # fmt: skip
        if damage.count:
            yield damage


def crc_of_crcs(piece: Piece) -> int:
    """CRC-32C of the stored checksums of the split's batches, four bytes each, in order."""
    split, found = piece.split, 0
    try:
        with open_segment(split.file.path) as descriptor:
            for table in scan(
                descriptor, split.start, split.end, frozen_size=split.frozen_size,
                is_last=split.file.is_last, validate="header", reads_old_formats=True,
            ):  # fmt: skip
                found = crc32c.crc32c(table.headers["crc"].tobytes(), found)
    except OSError:
        return 0  # the reader reports the error, by its mode
    return found
