"""`export`: records to Parquet, one file per split (and day), with a manifest.

The files are written by Arrow in the process that decodes (this one, or Spark's tasks): no row
passes through the JVM. A file is named after its segment and position, so a run repeated over the
same splits gives the same names. Rows are in the order of the log, or sorted in each file.

    data/topic=T/partition=P/SEGMENT-POSITION.parquet
    data/topic=T/partition=P/date=2026-11-21/SEGMENT-POSITION.parquet    with --by date
    data/topic=T/partition=P/node=N/...                                  with --replicas all

With --append the folder grows (`growing`).
"""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import pyarrow.parquet as pq

from pipeline.core.errors import BadInputError
from pipeline.core.reading.discovery import Listing, discover
from pipeline.core.reading.increment import Increment, plan_increment
from pipeline.core.reading.reader import ReadPlan, plan_read
from pipeline.core.reading.split import Split
from pipeline.core.stage import EngineChoice
from pipeline.jobs.engines import engine_choice, start_engine
from pipeline.jobs.export.growing import (
    ExportState,
    Growth,
    Layout,
    appending,
    is_growing,
    read_state,
    watermarks_of,
)
from pipeline.jobs.export.plan import ExportPlan, add_plan_arguments, export_plan
from pipeline.jobs.export.tasks import SHOWN, Damage, Exported, Task, export_stage, manifest_of
from pipeline.jobs.job import JobConfig, JobResult, progress, publishing, usable_output

NAME: Final = "export"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the flags of this job."""
    add_plan_arguments(parser)
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
        return _appended(config, plan)
    if config.arguments.skip_lost:
        raise BadInputError("--skip-lost needs --append")
    if config.output is not None and is_growing(Path(config.output)):
        raise BadInputError(f"{config.output} holds an export that grows; go on with it by"
                            " --append, or name another folder")  # fmt: skip
    read = plan_read(plan.options)
    if not read.packs:
        raise _no_segments(config)
    _tell((*read.warnings, *read.notes, *read.cut_tails))
    tasks = plan.tasks(piece for pack in read.packs for piece in pack)
    if config.dry_run:
        counters = {"splits": _pieces(tasks), "bytes": read.bytes}
        return JobResult(counters=counters, findings=len(read.warnings))
    return _whole(config, plan, read, tasks)


def _whole(config: JobConfig, plan: ExportPlan, read: ReadPlan, tasks: Sequence[Task]) -> JobResult:
    choice = engine_choice(config, read.bytes)
    with publishing(config, _splits(tasks)) as publication:
        written, damages = _written(config, plan, tasks, choice, publication.folder / "data")
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
    _show(damages)
    return publication.result


def _appended(config: JobConfig, plan: ExportPlan) -> JobResult:
    """Add what is behind the watermarks of the output."""
    if plan.options.replicas != "one":
        raise BadInputError("--append needs --replicas one: a watermark is of one log")
    listing = discover(config.inputs, strict=plan.options.mode == "FAILFAST")
    read = [Split(file, 0, file.size, file.base_offset) for file in listing.files]
    output = usable_output(config, read)
    if not read:
        raise _no_segments(config)
    if config.dry_run:
        increment = _increment(config, plan, listing, read_state(output))
        counters = {"splits": len(increment.pieces), "bytes": increment.bytes}
        return JobResult(counters=counters, findings=len(listing.problems) + len(increment.lost))
    with appending(config, output) as state:
        increment = _increment(config, plan, listing, state)
        _tell((*listing.problems, *increment.notes, *_news(increment, state)))
        return _grown(config, plan, listing, increment, state)


def _increment(
    config: JobConfig, plan: ExportPlan, listing: Listing, state: ExportState | None
) -> Increment:
    cluster_id = listing.cluster_id
    if state is not None:
        _check_same(config, plan, state, cluster_id)
    return plan_increment(
        listing, plan.options, {} if state is None else state.points,
        is_same_cluster=state is not None and cluster_id is not None
        and cluster_id == state.cluster_id, passes_lost=config.arguments.skip_lost,
    )  # fmt: skip


def _check_same(
    config: JobConfig, plan: ExportPlan, state: ExportState, cluster_id: str | None
) -> None:
    """Refuse another cluster, and rows of another table."""
    if None not in (cluster_id, state.cluster_id) and cluster_id != state.cluster_id:
        raise BadInputError(
            f"{', '.join(config.inputs)} is of cluster {cluster_id}, the export {config.output} is"
            f" of cluster {state.cluster_id}"
        )
    given, kept = _layout(config, plan), state.layout
    for name in ("decode", "by"):
        was, now = getattr(kept, name), getattr(given, name)
        if was != now:
            raise BadInputError(f"{config.output} was begun with --{name} {was}, not {now}")
    if given.columns != kept.columns:
        differ = sorted(set(given.columns) ^ set(kept.columns)) or given.columns
        raise BadInputError(
            f"{config.output} has other columns ({', '.join(differ)}): --columns and --mode must"
            " be as when it began"
        )


def _layout(config: JobConfig, plan: ExportPlan) -> Layout:
    return Layout(plan.options.decode, config.arguments.by, tuple(plan.schema.names))


def _news(increment: Increment, state: ExportState | None) -> list[str]:
    """Lines about topics that came or went, and about records that are gone."""
    told = set() if state is None else set(state.deleted)
    gone = [name for name in _names(increment) if name not in told]
    lines = [f"{name}: not there any more; its records stay" for name in gone]
    for problems, end in ((increment.recreated, "read from its start"),
                          (increment.lost, "passed over")):  # fmt: skip
        lines += [f"{one.topic}-{one.partition}: {one.detail}, {end}" for one in problems]
    return lines


def _names(increment: Increment) -> tuple[str, ...]:
    """The partitions that are not there, like orders-0."""
    return tuple(f"{topic}-{partition}" for topic, partition in sorted(increment.deleted))


def _grown(
    config: JobConfig, plan: ExportPlan, listing: Listing, increment: Increment,
    state: ExportState | None,
) -> JobResult:  # fmt: skip
    tasks = plan.tasks(increment.pieces)
    choice = engine_choice(config, increment.bytes)
    number = 1 if state is None else state.number + 1
    findings = len(listing.problems) + len(increment.lost)
    lost = {"lost_ranges": len(increment.lost)}
    marks, gone = watermarks_of(increment.points), _names(increment)
    if not tasks and state is not None and (state.watermarks, state.deleted) == (marks, gone):
        counters = {"new_records": 0, "new_files": 0, "bytes": 0, "damaged": 0, **lost}
        tables = {"data": state.rows, "manifest": state.files}
        return JobResult(tables=tables, counters=counters, findings=findings)
    growth = Growth(config, Path(config.output or ""), _splits(tasks))
    plan = msgspec.structs.replace(
        plan, target=msgspec.structs.replace(plan.target, label=f"{number:010d}-")
    )
    written, damages = _written(config, plan, tasks, choice, growth.data)
    written = [one for one in written if one.rows]
    rows, damaged = sum(one.rows for one in written), sum(one.count for one in damages)
    after = ExportState(
        layout=_layout(config, plan), number=number,
        cluster_id=listing.cluster_id or (None if state is None else state.cluster_id),
        watermarks=marks, deleted=gone,
        rows=rows + (0 if state is None else state.rows),
        files=len(written) + (0 if state is None else state.files),
    )  # fmt: skip
    result = growth.publication.result = JobResult(
        tables={"data": after.rows, "manifest": after.files},
        counters={"new_records": rows, "new_files": len(written), "bytes": increment.bytes,
                  "damaged": damaged, **lost},
        findings=findings + damaged, bypassed=tuple(_news(increment, state)), engine=choice,
    )  # fmt: skip
    growth.publish(manifest_of(written), after)
    _show(damages)
    return result


def _written(
    config: JobConfig, plan: ExportPlan, tasks: Sequence[Task], choice: EngineChoice, data: Path
) -> tuple[list[Exported], list[Damage]]:
    """Run the tasks; the files that they wrote and the damage that they met."""
    stage = export_stage(
        tasks, plan.options, msgspec.structs.replace(plan.target, folder=str(data))
    )
    engine = start_engine(config, NAME, choice)
    size = sum(stage.sizes)
    with progress(engine.spark, size, tasks=len(tasks), as_json=config.as_json) as shown:
        found = [one for part in engine.run(stage, shown) for one in part]
    return (
        [one for one in found if isinstance(one, Exported)],
        [one for one in found if isinstance(one, Damage)],
    )


def _splits(tasks: Sequence[Task]) -> list[Split]:
    return [piece.split for task in tasks for piece in task]


def _pieces(tasks: Sequence[Task]) -> int:
    return sum(len(task) for task in tasks)


def _no_segments(config: JobConfig) -> BadInputError:
    return BadInputError(f"{', '.join(config.inputs)}: no segments")


def _tell(lines: Sequence[str]) -> None:
    for line in lines:
        sys.stderr.write(f"{line}\n")


def _show(damages: list[Damage]) -> None:
    count = sum(one.count for one in damages)
    shown = [finding for damage in damages for finding in damage.first][:SHOWN]
    for finding in shown:
        sys.stderr.write(finding.line() + "\n")
    if count > len(shown):
        sys.stderr.write(f"and {count - len(shown)} more\n")
