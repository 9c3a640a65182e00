"""`compaction`: bytes that cleaning would free, per segment, and segments that retention deletes.

Partitions are those of topics in a cleaner's checkpoint (cleaner-offset-checkpoint) and of Kafka's
compacted internal topics; others, which may be compacted and never cleaned yet, are named with
--subscribe; stderr lists them. Sizes after cleaning are exact for batches that
stay whole or are removed, and in proportion to the kept records for the others.
"""

import sys
import time
from argparse import ArgumentParser
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core.compaction.chosen import data_partitions, known_partitions
from pipeline.core.compaction.partition import PartitionPlan, plan_one
from pipeline.core.compaction.plan import BUFFER_BYTES_MIN, Policy, offset_map
from pipeline.core.errors import BadInputError
from pipeline.core.reading.discovery import PartitionFiles
from pipeline.core.reading.split import Split
from pipeline.core.stage import Stage
from pipeline.jobs.engines import engine_choice, start_engine
from pipeline.jobs.job import JobConfig, JobResult, progress, publishing

NAME: Final = "compaction"
_SHOWN: Final = 10  # topics on a line for people


def add_arguments(parser: ArgumentParser) -> None:
    """Add the flags of this job."""
    parser.add_argument("--subscribe", metavar="TOPICS", help="topics with commas, also ones that"
                        " are not known as compacted")  # fmt: skip
    parser.add_argument("--now", type=int, metavar="MS", help="time of the plan, default now")
    parser.add_argument("--retention-ms", type=_numbers, default=[], metavar="N,N")
    parser.add_argument("--retention-bytes", type=_numbers, default=[], metavar="N,N")
    parser.add_argument("--segment-bytes", type=_numbers, default=[], metavar="N,N")
    parser.add_argument("--dedupe-buffer-bytes", type=int, default=128 << 20, metavar="N",
                        help="log.cleaner.dedupe.buffer.size, default 128 MiB")  # fmt: skip
    parser.add_argument("--report", metavar="DIR", help="a picture of the savings, with its CSV")


def run(config: JobConfig) -> JobResult:
    """Plan every wanted partition and publish `plan`, `retention` and `findings`.

    Raises:
        BadInputError: no partition to plan, or a buffer without room for a key.
    """
    arguments = config.arguments
    if arguments.dedupe_buffer_bytes < BUFFER_BYTES_MIN:
        raise BadInputError(
            f"--dedupe-buffer-bytes is {arguments.dedupe_buffer_bytes}, allowed: a whole number"
            f" from {BUFFER_BYTES_MIN} on, room for one key"
        )
    partitions = wanted_partitions(config.inputs, arguments.subscribe)
    size = sum(file.size for found in partitions for file in found.segments)
    if config.dry_run:
        return JobResult(counters={"partitions": len(partitions), "bytes": size})
    now_ms = time.time_ns() // 1_000_000 if arguments.now is None else arguments.now
    policies = _policies(arguments)
    files = [file for found in partitions for file in found.segments if file.size]
    splits = [Split(file, 0, file.size, file.base_offset) for file in files]
    engine = start_engine(config, NAME, engine_choice(config, size))
    with publishing(config, splits) as publication:
        with progress(engine.spark, size, tasks=len(partitions), as_json=config.as_json) as shown:
            if engine.spark is None:
                plans = engine.run(compaction_stage(partitions, now_ms, policies), shown)
            else:
                plans = _planned_by_spark(partitions, now_ms, policies, engine.spark)
        result = _publish(publication.folder, plans, arguments, size)
        publication.result = msgspec.structs.replace(result, engine=engine.choice)
        if arguments.report:
            from pipeline.pictures import compaction_picture  # noqa: PLC0415  # needs matplotlib

            Path(arguments.report).mkdir(parents=True, exist_ok=True)
            rows = [msgspec.structs.asdict(row) for plan in plans for row in plan.rows]
            compaction_picture(rows, Path(arguments.report))
            sys.stderr.write(f"report: {Path(arguments.report).absolute()}\n")
    return publication.result


def _planned_by_spark(
    partitions: list[PartitionFiles], now_ms: int, policies: list[Policy], spark: Any
) -> list[PartitionPlan]:
    from pipeline.sources.compaction_tasks import plan_by_spark  # noqa: PLC0415  # needs pyspark

    return plan_by_spark(partitions, now_ms, policies, spark)


def wanted_partitions(inputs: tuple[str, ...], subscribe: str | None) -> list[PartitionFiles]:
    """Copies of the partitions to plan.

    Raises:
        BadInputError: there is none.
    """
    if subscribe:
        data = data_partitions(inputs)
        names = {name.strip() for name in subscribe.split(",")}
        found = [one for one in data if one.topic in names]
        missing = names - {one.topic for one in found}
        if missing:
            raise BadInputError(
                f"{', '.join(inputs)}: no partition of {', '.join(sorted(missing))}"
            )
        return found
    data = data_partitions(inputs)
    found = known_partitions(data)
    if not found:
        raise BadInputError(
            f"{', '.join(inputs)}: no partition is known as compacted; name topics with --subscribe"
        )
    left = sorted({one.topic for one in data} - {one.topic for one in found})
    if left:
        named = ", ".join(left[:_SHOWN]) + (f" and {len(left) - _SHOWN} more topics"
                                            if len(left) > _SHOWN else "")  # fmt: skip
        sys.stderr.write(f"not planned, no cleaner's checkpoint names them: {named};"
                         " --subscribe plans topics that are compacted\n")  # fmt: skip
    return found


def compaction_stage(
    partitions: list[PartitionFiles], now_ms: int, policies: list[Policy]
) -> Stage[PartitionFiles, PartitionPlan]:
    """The plans of the copies; Spark's tasks divide each further, with the same plans."""
    sizes = tuple(sum(file.size for file in found.segments) for found in partitions)
    work = partial(plan_one, now_ms=now_ms, policies=policies)
    return Stage(work, tuple(partitions), sizes)


def _publish(folder: Path, plans: list[PartitionPlan], arguments: Any, size: int) -> JobResult:
    rows = [msgspec.structs.asdict(row) for plan in plans for row in plan.rows]
    retention = [row for plan in plans for row in plan.retention]
    findings = [
        {"severity": "error", "check": "null_key", "topic": row["topic"],
         "partition": row["partition"], "node_id": row["node_id"], "segment": row["segment"],
         "detail": f"{row['null_keys']} records without a key in a compacted topic"}
        for row in rows if row["null_keys"]
    ]  # fmt: skip
    for name, found in (("plan", rows), ("retention", retention), ("findings", findings)):
        if found:
            (folder / name).mkdir()
            pq.write_table(pa.Table.from_pylist(found), folder / name / "part-0.parquet")
    keys = max((plan.keys for plan in plans), default=0)
    before, after = (sum(row[name] for row in rows) for name in ("bytes_before", "bytes_after"))
    counters = {"bytes": size, "bytes_before": before, "bytes_after": after,
                "keys_max": keys} | offset_map(keys, arguments.dedupe_buffer_bytes)  # fmt: skip
    tables = {"plan": len(rows), "retention": len(retention)}
    return JobResult(tables=tables, counters=counters, findings=len(findings))


def _policies(arguments: Any) -> list[Policy]:
    """Every combination of the given limits."""
    if not arguments.retention_ms and not arguments.retention_bytes:
        return []
    return [
        Policy(ms=ms, bytes=size, segment_bytes=segment)
        for ms in arguments.retention_ms or [None]
        for size in arguments.retention_bytes or [None]
        for segment in arguments.segment_bytes or [None]
    ]


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]
