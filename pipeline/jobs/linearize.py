"""`linearize`: verdicts on thousands of recorded histories in parallel.

Every history (or, with `--group key`, some keys of it) is a task; heavy ones start first. The
checker is the local one, so the verdicts are the same. A budget ends a search as `unknown`, never
a hang.

Table `verdicts`: one row per history (key `*`) and one per key. Exit code 1 when a history is
invalid or cannot be read.
"""

import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from jepsen.linearizability import MODELS, Budget
from pipeline.core.audit.verdicts import (
    UNREADABLE,
    WHOLE,
    HistoryTask,
    KeyVerdict,
    find_histories,
    judge,
    put_together,
)
from pipeline.core.errors import BadInputError
from pipeline.core.stage import EngineChoice
from pipeline.jobs.engines import engine_choice, start_engine
from pipeline.jobs.job import JobConfig, JobResult, progress, publishing

NAME: Final = "linearize"
SPARK_HISTORY_BYTES_MIN: Final = 1 << 20  # below it Spark takes longer to start than the checker
KEY_SHARES: Final = 16
_SPLIT_BYTES_MIN: Final = 1 << 20
_TASKS_MAX: Final = 10_000
_EXPLAIN_SECONDS: Final = 10.0
SCHEMA: Final = pa.schema(
    [
        ("run", pa.string()), ("key", pa.string()), ("ops", pa.int64()),
        ("verdict", pa.string()), ("engine", pa.string()), ("seconds", pa.float64()),
        ("states", pa.int64()), ("max_rss", pa.int64()), ("reason", pa.string()),
        ("counterexample", pa.string()), ("history_path", pa.string()),
    ]
)  # fmt: skip


def add_arguments(parser: ArgumentParser) -> None:
    """Add the flags of this job."""
    parser.add_argument("--model", required=True, choices=MODELS, help="the sequential model")
    parser.add_argument("--group", default="run", choices=("run", "key"),
                        help="key: large histories are cut by key")  # fmt: skip
    parser.add_argument(
        "--time-limit",
        type=float,
        default=None,
        metavar="S",
        help="seconds per history (or key) before it is unknown",
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=None,
        metavar="N",
        help="steps per history (or key) before it is unknown",
    )
    parser.add_argument(
        "--cache-entries",
        type=int,
        default=Budget().cache_entries,
        metavar="N",
        help="configurations in memory (100 to 200 bytes each)",
    )
    parser.add_argument("--explain", action="store_true",
                        help="a minimal counterexample of each invalid history")  # fmt: skip


def run(config: JobConfig) -> JobResult:
    """Judge the histories below the inputs.

    Raises:
        BadInputError: no history, or a budget that is not positive.
    """
    tasks = plan_histories(config)
    size = sum(task.size for task in tasks if not task.share)
    histories = sum(1 for task in tasks if not task.share)
    if config.dry_run:
        return JobResult(counters={"histories": histories, "tasks": len(tasks), "bytes": size})
    if config.output is None:
        return _judged(config, tasks, size, None)
    with publishing(config) as publication:
        path = publication.folder / "verdicts.parquet"
        publication.result = _judged(config, tasks, size, str(path))
    return publication.result


def plan_histories(config: JobConfig) -> list[HistoryTask]:
    """List the tasks, heavy ones first."""
    arguments = config.arguments
    for name in ("time_limit", "steps", "cache_entries"):
        value = getattr(arguments, name)
        if value is not None and value <= 0:
            raise BadInputError(f"--{name.replace('_', '-')} is {value}, allowed: above 0")
    budget = Budget(cache_entries=arguments.cache_entries, steps=arguments.steps,
                    seconds=arguments.time_limit)  # fmt: skip
    tasks = []
    for path, size in find_histories(config.inputs):
        shares = KEY_SHARES if arguments.group == "key" and size >= _SPLIT_BYTES_MIN else 1
        tasks += [
            HistoryTask(
                path=path, size=size, model=arguments.model, budget=budget, share=share,
                shares=shares, explain_seconds=_EXPLAIN_SECONDS if arguments.explain else 0.0,
            )
            for share in range(shares)
        ]  # fmt: skip
    return tasks


def _judged(config: JobConfig, tasks: list[HistoryTask], size: int, path: str | None) -> JobResult:
    choice = engine_choice(config, size, spark_bytes_min=SPARK_HISTORY_BYTES_MIN)
    rows = put_together(_rows(config, tasks, size, choice))
    whole = [row for row in rows if row.key == WHOLE]
    if all(row.verdict == UNREADABLE for row in whole):
        raise BadInputError(f"no history can be read: {whole[0].reason}")
    for row in whole:
        if row.verdict in ("invalid", UNREADABLE):
            reason = f": {row.reason}" if row.reason else ""
            sys.stderr.write(f"{row.history_path}: {row.verdict}{reason}\n")
    if path is not None:
        table = pa.Table.from_pylist([msgspec.structs.asdict(row) for row in rows], SCHEMA)
        pq.write_table(table, path, compression="zstd")
    counts = Counter(row.verdict for row in whole)
    verdicts = {name: counts[name] for name in ("valid", "invalid", "unknown", UNREADABLE)}
    return JobResult(
        tables={"verdicts": len(rows)},
        counters={"histories": len(whole), **verdicts,
                  "operations": sum(row.ops for row in whole)},
        findings=counts["invalid"] + counts[UNREADABLE],
        engine=choice,
    )  # fmt: skip


def _rows(
    config: JobConfig, tasks: list[HistoryTask], size: int, choice: EngineChoice
) -> Iterator[KeyVerdict]:
    spark = start_engine(config, NAME, choice).spark
    if spark is None:
        with progress(None, size, tasks=len(tasks), as_json=config.as_json) as shown:
            for task in tasks:
                yield from judge(task)
                shown.step(0 if task.share else task.size)
        return
    # one task each, in the order of the list, so that heavy ones do not start last
    slices = min(len(tasks), _TASKS_MAX)
    ordered = [task for first in range(slices) for task in tasks[first::slices]]
    with progress(spark, size, tasks=slices, as_json=config.as_json):
        found: Any = spark.sparkContext.parallelize(ordered, slices).flatMap(judge)
        yield from found.collect()
