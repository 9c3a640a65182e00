"""What the intervals say: changes of leaders and why, churn of ISRs, under-replication."""

from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from metadata.records import CONFIG_BROKER, CONFIG_TOPIC
from pipeline.jobs.history_query import table
from pipeline.jobs.history_schema import REPORTS

_KEY: Final = ("topic_id", "partition")


def write_reports(spark: Any, root: str) -> dict[str, int]:
    """Compute the reports from the tables below a root and write them beside; rows of each."""
    partitions = table(spark, root, "partitions")
    found = {
        "leader_changes": leader_changes(partitions, table(spark, root, "brokers")),
        "isr_churn": isr_churn(partitions),
        "under_replicated": under_replicated(partitions, table(spark, root, "configs")),
    }
    rows = {}
    for name, frame in found.items():
        fields = spark.createDataFrame([], REPORTS[name]).schema.fields
        shown = frame.select(*(F.col(f"`{f.name}`").cast(f.dataType).alias(f.name) for f in fields))
        shown.coalesce(1).write.parquet(str(Path(root, name)))
        files = Path(root, name).glob("*.parquet")
        rows[name] = sum(pq.ParquetFile(path).metadata.num_rows for path in files)
    return rows


def leader_changes(partitions: DataFrame, brokers: DataFrame) -> DataFrame:
    """One row per change of leader or of its epoch alone, with the inferred kind."""
    steps = Window.partitionBy(*_KEY).orderBy("valid_from_offset", "cause_offset")
    known = partitions.withColumns(
        {
            "prev_epoch": F.lag("leader_epoch").over(steps),
            "prev_moving": F.lag(F.size("adding") + F.size("removing")).over(steps),
        }
    )
    moved = F.col("leader") != F.col("prev_leader")
    raised = F.col("leader_epoch") > F.col("prev_epoch")
    changes = known.where(moved | raised).withColumn(
        "before_ts", F.lag("valid_from_ts").over(steps)
    )
    without = F.when(
        (F.col("prev_leader") == -1) & (F.col("leader") >= 0),
        F.unix_millis("valid_from_ts") - F.unix_millis("before_ts"),
    )
    changes = changes.withColumn("ms_without_leader", without)
    return _with_old_leader(changes, brokers).select(
        F.col("valid_from_ts").alias("ts"),
        F.col("valid_from_offset").alias("offset"),
        "topic_id",
        "topic",
        "partition",
        F.col("prev_leader").alias("from"),
        F.col("leader").alias("to"),
        F.col("leader_epoch").alias("epoch"),
        _kind().alias("kind"),
        "ms_without_leader",
        "cause_offset",
        "controller_epoch",
    )


def _with_old_leader(changes: DataFrame, brokers: DataFrame) -> DataFrame:
    """How the old leader's registration stands after the batch that changed the leader."""
    steps = Window.partitionBy("broker_id").orderBy("valid_from_offset")
    states = brokers.select(
        F.col("broker_id").alias("old"),
        F.col("fenced").alias("old_fenced"),
        F.col("in_shutdown").alias("old_in_shutdown"),
        F.col("batch_offset").alias("old_from"),
        F.coalesce(
            F.lead("batch_offset").over(steps), F.col("valid_to_offset"), F.lit(1 << 62)
        ).alias("old_to"),
    )
    then = (
        (F.col("old") == F.col("prev_leader"))
        & (F.col("old_from") <= F.col("batch_offset"))
        & (F.col("old_to") > F.col("batch_offset"))
    )
    return changes.join(F.broadcast(states), then, "left")


def _kind() -> Any:
    """Why the leader changed, as far as the records tell."""
    to, old = F.col("leader"), F.col("prev_leader")
    in_isr = F.array_contains("prev_isr", to)
    in_elr = F.coalesce(F.array_contains("prev_elr", to), F.lit(False))  # noqa: FBT003
    was_replica = F.array_contains("prev_replicas", to)
    first = F.col("replicas")[0]
    moving = (F.coalesce(F.col("prev_moving"), F.lit(0)) > 0) | F.array_contains(
        "change", "replicas"
    )
    gone = F.col("old").isNull() | F.col("old_fenced")
    return (
        F.when(to == old, F.lit("epoch_only"))
        .when((to >= 0) & was_replica & ~in_isr & in_elr, F.lit("failover_elr"))
        .when((to >= 0) & was_replica & ~in_isr, F.lit("unclean"))
        .when((old == -1) & (to >= 0), F.lit("recovery"))
        .when(F.col("old_in_shutdown"), F.lit("controlled_shutdown"))
        .when(gone, F.lit("failover"))
        .when(moving, F.lit("reassignment"))
        .when((to == first) & F.array_contains("isr", old), F.lit("preferred"))
        .otherwise(F.lit("planned"))
    )


def isr_churn(partitions: DataFrame) -> DataFrame:
    """Per hour, topic and broker: how often it left and joined ISRs, and how long it stayed out."""
    changed = partitions.where(F.array_contains("change", "isr"))
    left = _moves(changed, F.array_except("prev_isr", "isr"), is_out=True)
    joined = _moves(changed, F.array_except("isr", "prev_isr"), is_out=False)
    steps = Window.partitionBy(*_KEY, "broker").orderBy("valid_from_offset")
    moves = left.unionByName(joined).withColumns(
        {"next_out": F.lead("is_out").over(steps), "next_ts": F.lead("valid_from_ts").over(steps)}
    )
    back = F.col("is_out") & ~F.col("next_out")
    seconds = (F.unix_millis("next_ts") - F.unix_millis("valid_from_ts")) / 1000
    timed = moves.withColumn("out_s", F.when(back, seconds))
    hour = F.date_trunc("hour", "valid_from_ts").alias("window")
    return timed.groupBy(hour, "topic", "broker").agg(
        F.count_if("is_out").alias("shrinks"),
        F.count_if(~F.col("is_out")).alias("expands"),
        F.median("out_s").alias("median_out_s"),
        F.max("out_s").alias("max_out_s"),
    )


def _moves(changed: DataFrame, brokers: Any, *, is_out: bool) -> DataFrame:
    return changed.select(
        *_KEY, "topic", "valid_from_offset", "valid_from_ts",
        F.explode(brokers).alias("broker"), F.lit(is_out).alias("is_out"),
    )  # fmt: skip


def under_replicated(partitions: DataFrame, configs: DataFrame) -> DataFrame:
    """Spans of time in which the same replicas were missing from the ISR.

    Replicas that a reassignment adds do not count as missing until it is complete.
    """
    settled = F.array_except("replicas", "adding")
    rows = partitions.withColumn("missing", F.sort_array(F.array_except(settled, F.col("isr"))))
    steps = Window.partitionBy(*_KEY).orderBy("valid_from_offset", "cause_offset")
    same = F.col("missing").eqNullSafe(F.lag("missing").over(steps))
    rows = rows.withColumn("starts", F.when(same, 0).otherwise(1))
    run = steps.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    rows = rows.withColumn("span", F.sum("starts").over(run)).where(F.size("missing") > 0)
    last = F.col("valid_from_offset")
    spans = rows.groupBy(*_KEY, "topic", "missing", "span").agg(
        F.min("valid_from_ts").alias("from_ts"),
        F.max_by("valid_to_ts", last).alias("to_ts"),
        F.min("valid_from_offset").alias("from_offset"),
        F.max_by("valid_to_offset", last).alias("to_offset"),
        F.max_by("leader", last).alias("leader"),
        F.min(F.size("isr")).alias("in_sync"),
    )
    return _with_min_isr(spans, configs).withColumn(
        "below_min_isr", F.col("in_sync") < F.col("min_isr")
    )


def _with_min_isr(spans: DataFrame, configs: DataFrame) -> DataFrame:
    """min.insync.replicas at the start of each span: of the topic, the cluster, or 1."""
    mine = configs.where(F.col("name") == "min.insync.replicas")

    def values(resource_type: int, prefix: str) -> DataFrame:
        return F.broadcast(
            mine.where(F.col("resource_type") == resource_type).select(
                F.col("resource").alias(f"{prefix}_resource"),
                F.col("value").cast("int").alias(f"{prefix}_min"),
                F.col("valid_from_offset").alias(f"{prefix}_from"),
                F.coalesce("valid_to_offset", F.lit(1 << 62)).alias(f"{prefix}_to"),
            )
        )

    def held(prefix: str) -> Any:
        begins = F.col(f"{prefix}_from") <= F.col("from_offset")
        return begins & (F.col(f"{prefix}_to") > F.col("from_offset"))

    of_topic = (F.col("t_resource") == F.col("topic")) & held("t")
    of_cluster = (F.col("c_resource") == "") & held("c")
    joined = spans.join(values(CONFIG_TOPIC, "t"), of_topic, "left").join(
        values(CONFIG_BROKER, "c"), of_cluster, "left"
    )
    return joined.withColumn("min_isr", F.coalesce("t_min", "c_min", F.lit(1)))
