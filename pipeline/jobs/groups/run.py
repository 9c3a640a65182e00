"""`groups`: commits, lag, members, rebalances and transactions from the logs of coordinators.

    OUTPUT/commits lag groups members rebalances transactions open_transactions    Parquet

Each is a folder with a file per partition. Of several copies of a partition one is read, a sound
one where there is one. Exit code 1 when a transaction hangs, or a record could not be read.
"""

import sys
import time
from argparse import ArgumentParser
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from pipeline.core.errors import BadInputError
from pipeline.core.groups import tables
from pipeline.core.groups.commits import Timeline
from pipeline.core.groups.data_log import Int64Array, newest_stamp_ms
from pipeline.core.groups.lag import sample_times
from pipeline.core.groups.open_transactions import (
    FINDINGS,
    MAX_TIMEOUT_MS,
    open_transactions,
)
from pipeline.core.reading.opening import input_errors
from pipeline.core.reading.split import Split
from pipeline.jobs.engines import Engine, engine_choice, start_engine
from pipeline.jobs.groups.plan import GroupsPlan, plan_groups
from pipeline.jobs.groups.tasks import (
    Folded,
    Measured,
    MeasureTask,
    fold_log,
    measure,
    stage_of,
    write_table,
)
from pipeline.jobs.job import (
    JobConfig,
    JobResult,
    progress,
    publishing,
)
from pipeline.report_page import PAGE_NAME

NAME: Final = "groups"
MODES: Final = ("FAILFAST", "DROPMALFORMED")
_SAMPLES: Final = 200
_SHOWN: Final = 20  # lines on stderr of one kind
SCHEMAS: Final = {
    "commits": tables.COMMITS, "lag": tables.LAG, "groups": tables.GROUPS,
    "members": tables.MEMBERS, "rebalances": tables.REBALANCES,
    "transactions": tables.TRANSACTIONS, "open_transactions": tables.OPEN_TRANSACTIONS,
}  # fmt: skip
_Timelines = dict[tuple[str, int], list[Timeline]]


def add_arguments(parser: ArgumentParser) -> None:
    """Add the flags of this job."""
    parser.add_argument("--mode", default="FAILFAST", type=str.upper, choices=MODES,
                        help="DROPMALFORMED passes over damage that no other copy replaces, and"
                        " counts it")  # fmt: skip
    parser.add_argument("--until", choices=("high_watermark", "end"),
                        help="end: also what a node may truncate later")  # fmt: skip
    parser.add_argument("--now", type=int, metavar="MS",
                        help="time at which time-outs are judged, default now")  # fmt: skip
    parser.add_argument("--max-transaction-timeout", type=int, default=MAX_TIMEOUT_MS,
                        metavar="MS", help="transaction.max.timeout.ms")  # fmt: skip
    parser.add_argument("--delivery-timeout", type=int, metavar="MS",
                        help="delivery.timeout.ms of all producers, which stamp records when they"
                        " send them: their stamps then bound the lag from below too")  # fmt: skip
    parser.add_argument("--samples", type=int, default=_SAMPLES, metavar="N",
                        help="instants of the lag history beside the commits")  # fmt: skip
    parser.add_argument("--report", metavar="DIR", help="a page with the lag as a picture")


def run(config: JobConfig) -> JobResult:
    """Read the logs below the inputs and publish the tables.

    Raises:
        BadInputError: no log of a coordinator, a flag that is not allowed, damage in mode FAILFAST.
    """
    arguments = config.arguments
    if arguments.samples < 1:
        raise BadInputError(f"--samples is {arguments.samples}, allowed: a whole number from 1 on")
    if arguments.delivery_timeout is not None and arguments.delivery_timeout < 0:
        given = arguments.delivery_timeout
        raise BadInputError(f"--delivery-timeout is {given}, allowed: a whole number from 0 on")
    plan = plan_groups(config.inputs, arguments.mode, arguments.until)
    _show((*plan.notes, *plan.bypassed))
    if config.dry_run:
        return JobResult(counters={"partitions": len(plan.logs), "bytes": plan.bytes})
    now_ms = time.time_ns() // 1_000_000 if arguments.now is None else arguments.now
    engine = start_engine(config, NAME, engine_choice(config, plan.bytes))
    pieces = [piece.split for log in plan.logs for piece in log.pieces]
    segments = [file for one in plan.data for file in one.partition.segments]
    splits = [*pieces, *(Split(file, 0, file.size, file.base_offset) for file in segments)]
    with publishing(config, splits) as publication:
        result = _made(config, plan, engine, now_ms, publication.folder)
        publication.result = msgspec.structs.replace(result, engine=engine.choice)
        if arguments.report:
            from pipeline.jobs.groups import page  # noqa: PLC0415  # needs matplotlib

            page.write_page(publication.folder, Path(arguments.report), publication.result, now_ms)
            sys.stderr.write(f"report: {Path(arguments.report, PAGE_NAME).absolute()}\n")
    return publication.result


def _made(
    config: JobConfig, plan: GroupsPlan, engine: Engine, now_ms: int, folder: Path
) -> JobResult:
    """Write all tables below a folder."""
    place, tasks = str(folder), len(plan.logs) + len(plan.data)
    with progress(engine.spark, plan.bytes, tasks=tasks, as_json=config.as_json) as shown:
        folded = engine.run(stage_of(_Folding(place), plan.logs), shown)
        timelines = _by_partition(folded)
        samples = _samples(plan, folded, timelines, now_ms, config.arguments.samples)
        works = [
            MeasureTask(
                files=one, samples_ms=samples, delivery_ms=config.arguments.delivery_timeout,
                timelines=timelines.get((one.partition.topic, one.partition.partition), []),
            )
            for one in plan.data
        ]  # fmt: skip
        measured = engine.run(stage_of(_Measuring(place), works), shown)
    ids = [one for found in folded for one in found.ids]
    opened = open_transactions(
        ids, [one.opened for one in measured], now_ms, config.arguments.max_transaction_timeout
    )
    rows: Counter[str] = Counter()
    for found in folded:
        rows.update(found.rows)
    rows["lag"] += sum(one.rows for one in measured)
    rows["open_transactions"] += write_table(folder / "open_transactions/part-0.parquet", opened)
    for name, schema in SCHEMAS.items():
        if not (folder / name).exists():  # each table can be read, also an empty one
            write_table(folder / name / "part-0.parquet", schema.empty_table())
    return _result(plan, folded, measured, rows, opened)


class _Folding(msgspec.Struct, frozen=True):
    """`fold_log` with its folder, as a function that can be sent to a task."""

    folder: str

    def __call__(self, task: Any) -> Folded:
        return fold_log(task, self.folder)


class _Measuring(msgspec.Struct, frozen=True):
    """`measure` with its folder."""

    folder: str

    def __call__(self, task: Any) -> Measured:
        return measure(task, self.folder)


def _by_partition(folded: list[Folded]) -> _Timelines:
    found: _Timelines = defaultdict(list)
    for one in folded:
        for timeline in one.timelines:
            found[timeline.topic, timeline.partition].append(timeline)
    return found


@input_errors()
def _samples(
    plan: GroupsPlan, folded: list[Folded], timelines: _Timelines, now_ms: int, count: int
) -> Int64Array:
    """Instants from the first commit to the newest record, of a log that groups read too."""
    times = [time for group in timelines.values() for one in group for time, _, _ in one.offsets]
    if not times:
        return np.zeros(0, np.int64)
    newest = [one.counts.last_ms for one in folded]
    newest += [
        newest_stamp_ms(one.partition)
        for one in plan.data
        if (one.partition.topic, one.partition.partition) in timelines
    ]
    end = min(now_ms, max(one for one in newest if one is not None))
    return sample_times(min(times), end, count)


def _result(
    plan: GroupsPlan, folded: list[Folded], measured: list[Measured], rows: Counter[str],
    opened: pa.Table,
) -> JobResult:  # fmt: skip
    verdicts = Counter(opened.column("verdict").to_pylist())
    undeclared: Counter[str] = sum((one.counts.undeclared for one in folded), Counter())
    refused = sum(one.counts.refused_count for one in folded)
    damage = [line for one in folded for line in one.damage]
    behind = [line for one in measured for line in one.damage]
    _show([f"{one.topic}-{one.partition}: offset {each.offset}: {each.reason}"
           for one in folded for each in one.counts.refused])  # fmt: skip
    _show([*damage, *behind])
    bypassed = plan.bypassed
    if undeclared:
        named = ", ".join(f"{name} {count}" for name, count in sorted(undeclared.items()))
        bypassed = (*bypassed, f"records without a declaration are not decoded: {named}")
        sys.stderr.write(f"{bypassed[-1]}\n")
    hanging = sum(count for verdict, count in verdicts.items() if verdict in FINDINGS)
    counters = {
        "records": sum(one.counts.records for one in folded), "refused": refused,
        "damaged": len(damage), "damaged_headers": len(behind), "hanging": hanging,
        "undeclared": undeclared.total(), "bytes": plan.bytes,
    }  # fmt: skip
    return JobResult(
        tables={name: rows[name] for name in SCHEMAS}, counters=counters,
        findings=hanging + refused + len(damage) + len(behind), bypassed=bypassed,
    )  # fmt: skip


def _show(lines: list[str] | tuple[str, ...]) -> None:
    for line in lines[:_SHOWN]:
        sys.stderr.write(f"{line}\n")
    if len(lines) > _SHOWN:
        sys.stderr.write(f"and {len(lines) - _SHOWN} more\n")
