"""`export`: records to Parquet, one file per split (and day), with a manifest.

The files are written by Arrow in the process that decodes (this one, or Spark's tasks): no row
passes through the JVM. A file is named after its segment and position, so a run repeated over the
same splits gives the same names. Rows are in the order of the log, or sorted in each file.

    data/topic=T/partition=P/SEGMENT-POSITION.parquet
    data/topic=T/partition=P/date=2026-11-21/SEGMENT-POSITION.parquet    with --by date
    data/topic=T/partition=P/node=N/...                                  with --replicas all

With --append the folder grows (`append`).
"""

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from pipeline.core.errors import BadInputError
from pipeline.core.reading.reader import ReadPlan, plan_read
from pipeline.jobs.engines import engine_choice
from pipeline.jobs.export.append import run_append
from pipeline.jobs.export.engine import NAME, run_tasks, show_damage, tell
from pipeline.jobs.export.manifests import ManifestBook
from pipeline.jobs.export.plan import FORMATS, PARQUET, ExportPlan, add_plan_arguments, export_plan
from pipeline.jobs.export.tasks import Task, manifest_of
from pipeline.jobs.job import JobConfig, JobResult, publishing

__all__ = ["NAME", "add_arguments", "run"]
DELTA_LOG: Final = "_delta_log"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the flags of this job."""
    add_plan_arguments(parser)
    parser.add_argument("--format", choices=FORMATS, default=PARQUET, help="delta: --output is a"
                        " Delta table, with --append")  # fmt: skip
    parser.add_argument("--append", action="store_true", help="add what --output has not yet, each"
                        " record once")  # fmt: skip
    parser.add_argument("--skip-lost", action="store_true", help="with --append: go on behind"
                        " records that the log deleted before they were exported")  # fmt: skip


def run(config: JobConfig) -> JobResult:
    """Write the input's records below the output.

    Damaged or missing data counts as findings, the first of it printed on stderr; in mode
    FAILFAST it ends the run.

    Raises:
        BadInputError: nothing to read, a flag that is not allowed, or an output that is not the
            one of this log.
        DataLossError: records are gone; with `--append` also what was exported before.
    """
    plan = export_plan(config.inputs, config.arguments)
    if config.arguments.append:
        return run_append(config, plan)
    if config.arguments.skip_lost:
        raise BadInputError("--skip-lost needs --append")
    if config.arguments.format != PARQUET:
        raise BadInputError(f"--format {config.arguments.format} needs --append")
    _refuse_growing(config)
    read = plan_read(plan.options)
    if not read.packs:
        raise BadInputError(f"{', '.join(config.inputs)}: no segments")
    tell((*read.warnings, *read.notes, *read.cut_tails))
    tasks = plan.tasks(piece for pack in read.packs for piece in pack)
    if config.dry_run:
        counters = {"splits": _pieces(tasks), "bytes": read.bytes}
        return JobResult(counters=counters, findings=len(read.warnings))
    return _whole(config, plan, read, tasks)


def _whole(config: JobConfig, plan: ExportPlan, read: ReadPlan, tasks: Sequence[Task]) -> JobResult:
    choice = engine_choice(config, read.bytes)
    splits = [piece.split for task in tasks for piece in task]
    with publishing(config, splits) as publication:
        written, damages = run_tasks(config, plan, tasks, choice, publication.folder / "data")
        pq.write_table(
            manifest_of(written), publication.folder / "manifest.parquet", compression="zstd"
        )
        damaged = sum(one.count for one in damages)
        publication.result = JobResult(
            tables={"data": sum(one.rows for one in written), "manifest": len(written)},
            counters={"bytes": read.bytes, "damaged": damaged},
            findings=damaged + len(read.warnings),
            bypassed=read.cut_tails,
            engine=choice,
        )
    show_damage(damages)
    return publication.result


def _refuse_growing(config: JobConfig) -> None:
    output = None if config.output is None else Path(config.output)
    if output is None:
        return
    if ManifestBook(output).is_begun() or (output / DELTA_LOG).exists():
        raise BadInputError(f"{output} holds an export that grows; go on with it by --append, or"
                            " name another folder")  # fmt: skip


def _pieces(tasks: Sequence[Task]) -> int:
    return sum(len(task) for task in tasks)
