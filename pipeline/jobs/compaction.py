"""`compaction`: what cleaning would free, per segment, and what retention would delete.

Partitions are those that a cleaner has touched (cleaner-offset-checkpoint) and Kafka's compacted
internal topics; others are named with --subscribe. Sizes after cleaning are exact for batches that
stay whole or go, and in proportion to the kept records for those between.
"""

import pickle
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.core.discovery import CLEANER_NAME, PartitionFiles, discover
from pipeline.core.errors import BadInputError
from pipeline.core.opening import input_errors
from pipeline.core.options import Options, parse_options
from pipeline.core.reader import plan_read, read_table
from pipeline.core.split import plan_splits
from pipeline.core.transactions import transaction_state
from pipeline.jobs.compaction_plan import (
    BATCH_COUNTS,
    HEADER_COLUMNS,
    KEY_ROWS,
    RECORD_COLUMNS,
    PartitionFacts,
    PlanRow,
    Policy,
    count_batches,
    key_rows,
    offset_map,
    plan_partition,
    retention_row,
)
from pipeline.jobs.job import SPARK_BYTES_MIN, JobConfig, JobResult, progress, publishing
from storage.checkpoint_files import decode_offsets
from wire.types import METADATA_TOPIC_NAME

NAME: Final = "compaction"
INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")


class PartitionPlan(msgspec.Struct, frozen=True):
    """All that is planned for one copy of a partition."""

    rows: list[PlanRow]
    retention: list[dict[str, Any]]
    keys: int


def add_arguments(parser: ArgumentParser) -> None:
    """The job's own flags."""
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
        BadInputError: no partition to plan.
    """
    arguments = config.arguments
    partitions = wanted_partitions(config.inputs, arguments.subscribe)
    size = sum(file.size for found in partitions for file in found.segments)
    if config.dry_run:
        return JobResult(counters={"partitions": len(partitions), "bytes": size})
    now_ms = time.time_ns() // 1_000_000 if arguments.now is None else arguments.now
    policies = _policies(arguments)
    splits = plan_splits([file for found in partitions for file in found.segments])
    spark = config.session(NAME) if config.spark or size >= SPARK_BYTES_MIN else None
    with publishing(config, splits) as publication:
        if spark is None:
            plans = [plan_one(found, now_ms, policies) for found in partitions]
        else:
            with progress(spark, size, as_json=config.as_json):
                plans = [plan_one(found, now_ms, policies, spark) for found in partitions]
        publication.result = _publish(publication.folder, plans, arguments, size)
        if arguments.report:
            from pipeline.pictures import compaction_picture  # noqa: PLC0415  # needs matplotlib

            Path(arguments.report).mkdir(parents=True, exist_ok=True)
            rows = [msgspec.structs.asdict(row) for plan in plans for row in plan.rows]
            compaction_picture(rows, Path(arguments.report))
    return publication.result


def wanted_partitions(inputs: tuple[str, ...], subscribe: str | None) -> list[PartitionFiles]:
    """The copies of partitions to plan.

    Raises:
        BadInputError: there is none.
    """
    if subscribe:
        data = _data_partitions(inputs)
        names = {name.strip() for name in subscribe.split(",")}
        found = [one for one in data if one.topic in names]
        missing = names - {one.topic for one in found}
        if missing:
            raise BadInputError(
                f"{', '.join(inputs)}: no partition of {', '.join(sorted(missing))}"
            )
        return found
    found = known_partitions(inputs)
    if not found:
        raise BadInputError(
            f"{', '.join(inputs)}: no partition is known as compacted; name topics with --subscribe"
        )
    return found


def known_partitions(inputs: tuple[str, ...]) -> list[PartitionFiles]:
    """The copies of partitions that are known as compacted."""
    found = _data_partitions(inputs)
    return [one for one in found if one.is_cleaned or one.topic in INTERNAL_TOPICS]


def _data_partitions(inputs: tuple[str, ...]) -> list[PartitionFiles]:
    listing = discover(inputs)
    return [p for p in listing.partitions if p.segments and p.topic != METADATA_TOPIC_NAME]


@input_errors()
def plan_one(
    partition: PartitionFiles, now_ms: int, policies: list[Policy], spark: Any = None
) -> PartitionPlan:
    """The plan of one copy of a partition, in this process or by Spark's tasks."""
    active = partition.segments[-1]
    stable = transaction_state(partition.segments).last_stable_offset
    end = active.base_offset if stable is None else min(stable, active.base_offset)
    headers = read_table(_options(partition, decode="metadata", columns=HEADER_COLUMNS))
    if end > partition.first_offset:
        ends = msgspec.json.encode({partition.topic: {str(partition.partition): end}}).decode()
        options = _options(
            partition, columns=RECORD_COLUMNS, endingOffsets=ends, isolation="read_committed"
        )
        counts, keys = _counts(options) if spark is None else _spark_counts(options, spark)
    else:
        counts, keys = BATCH_COUNTS.empty_table(), 0
    facts = PartitionFacts(
        topic=partition.topic, partition=partition.partition, node_id=partition.node_id,
        cleanable_end=end, first_dirty=_first_dirty(partition), now_ms=now_ms,
    )  # fmt: skip
    rows = plan_partition(headers, counts, facts)
    retention = [
        {"topic": partition.topic, "partition": partition.partition,
         "node_id": partition.node_id, "policy": msgspec.structs.asdict(policy)}
        | retention_row(headers, policy, now_ms)
        for policy in policies
    ]  # fmt: skip
    return PartitionPlan(rows, retention, keys)


def _options(partition: PartitionFiles, **more: str) -> Options:
    if partition.topic == "unknown":
        raise BadInputError(f"{partition.directory}: its name is not TOPIC-N")
    return parse_options({"path": partition.directory, "failOnDataLoss": "false"} | more)


def _counts(options: Options) -> tuple[pa.Table, int]:
    packs = plan_read(options).packs
    batches = [rows for pack in packs for rows in key_rows(pack, options)]
    rows = pa.Table.from_batches(batches, KEY_ROWS)
    return count_batches(rows), pc.count_distinct(rows.column("hash"), mode="only_valid").as_py()


def _spark_counts(options: Options, spark: Any) -> tuple[pa.Table, int]:
    """The same by a shuffle of 16-byte hashes: no task holds more than its share of the keys."""
    from pyspark.sql import Window  # noqa: PLC0415  # the extra may be missing
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    from pipeline.sources.spark_types import ddl  # noqa: PLC0415

    packs = [(pickle.dumps(pack),) for pack in plan_read(options).packs]
    frame = spark.createDataFrame(
        spark.sparkContext.parallelize(packs, max(1, len(packs))), "pack binary"
    )

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        for batch in batches:
            for content in batch.column(0).to_pylist():
                yield from key_rows(pickle.loads(content), options)  # noqa: S301  # made above

    rows = frame.mapInArrow(work, ddl(KEY_ROWS))
    last = F.max("offset").over(Window.partitionBy("hash"))
    keyed = F.col("hash").isNotNull()
    kept = (keyed & (F.col("offset") == F.col("last"))).cast("bigint")
    dead = kept * F.col("is_tombstone").cast("bigint")
    flagged = rows.withColumn("last", last).withColumns(
        {
            "records": F.lit(1), "kept": kept, "null_keys": (~keyed).cast("bigint"),
            "tombstones": F.col("is_tombstone").cast("bigint"), "kept_tombstones": dead,
            "kept_weight": kept * F.col("weight"),
            "kept_tombstone_weight": dead * F.col("weight"),
        }
    )  # fmt: skip
    sums = [F.sum(name).alias(name) for name in BATCH_COUNTS.names[2:]]
    found = flagged.groupBy("segment", "position").agg(*sums).toArrow().cast(BATCH_COUNTS)
    return found, sum(found.column("kept").to_pylist())


def _first_dirty(partition: PartitionFiles) -> int:
    """Where the cleaner goes on, by its checkpoint."""
    path = Path(partition.directory).parent / CLEANER_NAME
    if not path.exists() or not path.stat().st_size:
        return partition.first_offset
    known = decode_offsets(path.read_bytes(), str(path))
    return known.get((partition.topic, partition.partition), partition.first_offset)


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
    """The grid; every combination of what is given."""
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
