"""Compaction planned by Spark's tasks: the driver has only the packs to read and the result rows.

One task per copy of a partition walks its headers for transactions; one per pack makes a row of
some 60 bytes per record; a shuffle by key finds the last record of each key, so that no
task holds more than its share of the keys; one task per copy then plans from a row per batch.
"""

import pickle
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.compaction.partition import KeyWork, PartitionPlan, finished, key_work
from pipeline.core.compaction.plan import BATCH_COUNTS, KEY_ROWS, Policy, key_rows
from pipeline.core.reading.discovery import PartitionFiles
from pipeline.sources.spark_types import ddl

_COPY: Final = pa.field("copy", pa.int32())
_KEY_ROWS: Final = KEY_ROWS.append(_COPY)
_COUNTS: Final = BATCH_COUNTS.append(_COPY)
_TASKS_MAX: Final = 10_000


def plan_by_spark(
    partitions: list[PartitionFiles], now_ms: int, policies: list[Policy], spark: Any
) -> list[PartitionPlan]:
    """Plan all copies, in their order; the result is the same as without Spark.

    Args:
        partitions: each with at least one segment.
        now_ms: time of the plan.
        policies: retention policies.
        spark: the session.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  # the extra may be missing

    tasks = min(len(partitions), _TASKS_MAX)
    works = spark.sparkContext.parallelize(partitions, tasks).map(key_work).collect()
    copies = [
        (copy, pickle.dumps((partition, work.end)))
        for copy, (partition, work) in enumerate(zip(partitions, works, strict=True))
    ]
    marks = spark.createDataFrame(copies, "copy int, work binary")
    # the end of a partition travels with its counts; one without counts is planned too
    rows = _counts(works, spark).unionByName(marks, allowMissingColumns=True)

    def plan(table: pa.Table) -> pa.Table:
        pa.set_cpu_count(1)
        is_mark = pc.is_valid(table.column("work"))
        (copy,) = table.filter(is_mark).select(["copy", "work"]).to_pylist()
        partition, end = pickle.loads(copy["work"])  # noqa: S301  # made above
        counts = table.filter(pc.invert(is_mark)).select(BATCH_COUNTS.names).cast(BATCH_COUNTS)
        keys = pc.sum(counts.column("kept")).as_py() or 0
        found = finished(partition, end, (counts, keys), now_ms, policies)
        content = msgspec.msgpack.encode(found)
        return pa.table({"copy": pa.array([copy["copy"]], pa.int32()), "plan": [content]})

    # by copy: Spark would put small groups into one task, but the work is in the files
    planned = rows.repartition(tasks, F.col("copy")).groupBy("copy")
    plans = planned.applyInArrow(plan, "copy int, plan binary").toArrow().to_pylist()
    plans.sort(key=lambda row: row["copy"])
    return [msgspec.msgpack.decode(row["plan"], type=PartitionPlan) for row in plans]


def _counts(works: list[KeyWork], spark: Any) -> Any:
    """BATCH_COUNTS with the number of the copy, by a shuffle of 16-byte hashes."""
    from pyspark.sql import Window  # noqa: PLC0415
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    packs = [
        (copy, pickle.dumps((pack, work.options)))
        for copy, work in enumerate(works)
        for pack in work.packs
    ]
    frame = spark.createDataFrame(
        spark.sparkContext.parallelize(packs, max(1, len(packs))), "copy int, pack binary"
    )

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        for batch in batches:
            for one in batch.to_pylist():
                pieces, options = pickle.loads(one["pack"])  # noqa: S301  # made above
                for rows in key_rows(pieces, options):
                    copy = pa.repeat(pa.scalar(one["copy"], pa.int32()), rows.num_rows)
                    yield pa.RecordBatch.from_arrays([*rows.columns, copy], schema=_KEY_ROWS)

    rows = frame.mapInArrow(work, ddl(_KEY_ROWS))
    keyed = F.col("hash").isNotNull()
    spread = F.when(~keyed, F.col("position"))  # spreads records without a key over the tasks
    last = F.max("offset").over(Window.partitionBy("copy", "hash", spread))
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
    counts = flagged.groupBy("copy", "segment", "position").agg(*sums)
    return counts.select(*_COUNTS.names)
