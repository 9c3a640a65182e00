"""`export`: records to Parquet, one file per split, with a manifest.

The files are written by Arrow in the process that decodes (this one, or Spark's tasks): no row
passes through the JVM. A file is named after its segment and position, so a run repeated over the
same splits gives the same names.
"""

from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core.errors import BadInputError
from pipeline.core.options import Options, parse_options
from pipeline.core.reader import Piece, ReadPlan, plan_read, read_schema, read_splits
from pipeline.jobs.job import SPARK_BYTES_MIN, JobConfig, JobResult, progress, publishing

NAME: Final = "export"
_ROW_GROUP: Final = 1 << 18


class Exported(msgspec.Struct, frozen=True):
    """One file that was written: a row of the manifest."""

    file: str
    topic: str
    partition: int
    segment: str
    start: int
    end: int
    rows: int
    bytes: int


def add_arguments(parser: ArgumentParser) -> None:
    """The job's own flags."""
    parser.add_argument("--decode", default="records", help="metadata, records, raw or json")
    parser.add_argument("--columns", default="full", help="full, kafka or names with commas")
    parser.add_argument("--mode", default="FAILFAST", help="FAILFAST, PERMISSIVE, DROPMALFORMED")
    parser.add_argument("--subscribe", help="topics, separated by commas; all without it")


def run(config: JobConfig) -> JobResult:
    """Write the input's records below the output.

    Raises:
        BadInputError: nothing to read, or a flag that is not allowed.
    """
    options = _options(config)
    plan = plan_read(options)
    if not plan.packs:
        raise BadInputError(f"{', '.join(config.inputs)}: no segments")
    pieces = [(piece,) for pack in plan.packs for piece in pack]
    if config.dry_run:
        return JobResult(counters={"splits": len(pieces), "bytes": plan.bytes})
    with publishing(config, [piece.split for (piece,) in pieces]) as publication:
        data = publication.folder / "data"
        written = _write_all(config, plan, pieces, options, str(data))
        manifest = pa.Table.from_pylist([msgspec.structs.asdict(one) for one in written])
        pq.write_table(manifest, publication.folder / "manifest.parquet", compression="zstd")
        rows = sum(one.rows for one in written)
        publication.result = JobResult(
            tables={"data": rows, "manifest": len(written)}, counters={"bytes": plan.bytes}
        )
    return publication.result


def _options(config: JobConfig) -> Options:
    arguments = config.arguments
    given = {
        "decode": arguments.decode,
        "columns": arguments.columns,
        "mode": arguments.mode,
        "paths": msgspec.json.encode(config.inputs).decode(),
    }
    if arguments.subscribe:
        given["subscribe"] = arguments.subscribe
    return parse_options(given)


def _write_all(
    config: JobConfig, plan: ReadPlan, pieces: list[tuple[Piece]], options: Options, folder: str
) -> list[Exported]:
    if not config.spark and plan.bytes < SPARK_BYTES_MIN:
        return [found for pack in pieces for found in write_pieces(pack, options, folder)]
    spark = config.session(NAME)

    def work(packs: Iterator[tuple[Piece]]) -> Iterator[Exported]:
        for pack in packs:
            yield from write_pieces(pack, options, folder)

    with progress(spark, plan.bytes, as_json=config.as_json):
        found: Any = spark.sparkContext.parallelize(pieces, len(pieces)).mapPartitions(work)
        return list(found.collect())


def write_pieces(pieces: Sequence[Piece], options: Options, folder: str) -> Iterator[Exported]:
    """Write each piece to its file; a task that is tried again writes the same file anew."""
    schema = read_schema(options)
    for piece in pieces:
        split, file = piece.split, piece.split.file
        node = "none" if file.node_id is None else str(file.node_id)
        place = Path(folder, f"topic={file.topic}", f"partition={file.partition}", f"node={node}")
        place.mkdir(parents=True, exist_ok=True)
        path = place / f"{file.name}-{split.start:012d}.parquet"
        temporary = path.with_suffix(".tmp")
        rows = 0
        with pq.ParquetWriter(temporary, schema, compression="zstd", compression_level=3) as sink:
            for batch in read_splits((piece,), options, schema):
                sink.write_batch(batch, row_group_size=_ROW_GROUP)
                rows += batch.num_rows
        temporary.rename(path)
        relative = str(path.relative_to(folder))
        yield Exported(relative, file.topic, file.partition, file.name, split.start, split.end,
                       rows, path.stat().st_size)  # fmt: skip
