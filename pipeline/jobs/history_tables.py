"""Events to intervals: the fold of `history`, with window functions per key.

Per key the events are ordered by where they take effect. An overlay is "the last value that is not
null": a PartitionRecord or RegisterBroker sets every field, so what was before it never shows. The
counters add up: leader epoch and partition epoch are those of the last PartitionRecord plus the
changes since. The meaning is that of `metadata.apply`; tests compare both at every offset.

An interval holds where `valid_from_offset <= X < valid_to_offset`, X being the last record that
counts. Of several states that one batch gives a key only the last is kept, unless `intra_batch`.
A topic id is never used twice, so the removal of a topic ends whatever has its id.
"""

from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from metadata.json_form import uuid_text
from pipeline.jobs.history_schema import EVENTS, KEYED_STATES, REGISTRATION, SCD_TABLES
from pipeline.sources.spark_types import ddl
from wire.types import DIRECTORY_MIGRATING

_START: Final = Window.unboundedPreceding
_ORDER: Final = ("visible", "offset", "idx")
_MIGRATING: Final = uuid_text(DIRECTORY_MIGRATING)
INTERVALS: Final = "intervals"
_INTERVALS_DDL: Final = (
    f"{ddl(EVENTS['keyed'])}, valid_from_offset bigint, valid_from_ts timestamp,"
    " valid_to_offset bigint, valid_to_ts timestamp, to_batch bigint,"
    " to_visible bigint, cause_api string, cause_offset bigint, controller_epoch int"
)


class Fold:
    """Builds the tables of one set of events.

    Args:
        spark: a session.
        folder: of the events, one folder per kind.
        intra_batch: whether every state counts that a batch gives a key.
        has_moves: whether some record moves replicas without naming directories.
        has_clears: whether some record clears ELRs.
        base: what is still open in an archive and the fold goes on from: tables `partitions` and
            `brokers`, and the folder of `open_keyed`, "keyed".
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: str,
        *,
        intra_batch: bool = False,
        has_moves: bool = True,
        has_clears: bool = True,
        base: dict[str, DataFrame] | None = None,
    ) -> None:
        self._spark = spark
        self._folder = folder
        self._step = "visible" if intra_batch else "batch_offset"
        self._has_moves = has_moves
        self._has_clears = has_clears
        self._base = base or {}
        self._intervals = f"{folder}/{INTERVALS}"
        self._write_intervals()
        self._topics = (
            spark.read.schema(_INTERVALS_DDL)
            .parquet(self._intervals)
            .where(F.col("kind") == "topics")
        )

    def overlays(self) -> dict[str, DataFrame]:
        """The tables of partitions and brokers, lazily."""
        return {"partitions": self._partitions(), "brokers": self._brokers()}

    def _write_intervals(self) -> None:
        """All keyed tables in one job: their states stay JSON until `history_keyed`."""
        self._topics = self._keyed_intervals(self._keyed_events("topics"))
        both = self._topics.unionByName(self._rest_intervals())
        both.coalesce(1).write.parquet(self._intervals)

    def _events(self, kind: str) -> DataFrame:
        schema = ddl(EVENTS[kind])
        if not _has_files(f"{self._folder}/{kind}"):
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(f"{self._folder}/{kind}")

    def _keyed_events(self, *kinds: str) -> DataFrame:
        events = self._events("keyed").where(F.col("kind").isin(*kinds))
        if "keyed" in self._base:
            seeds = self._base["keyed"].where(F.col("kind").isin(*kinds))
            events = events.unionByName(seeds)
        return events

    def _rest_intervals(self) -> DataFrame:
        """All keyed tables but topics; configs of a topic go with the topic."""
        events = self._keyed_events(*(kind for kind in KEYED_STATES if kind != "topics"))
        owned = events.where(F.col("owner").isNotNull()).select("kind", "key", "owner").distinct()
        topics = self._keyed_events("topics")
        names = topics.where(F.col("state").isNotNull()).select(
            "key", F.get_json_object("state", "$.name").alias("owner")
        )
        removed = (
            topics.where(F.col("state").isNull())
            .drop("kind", "owner")
            .join(F.broadcast(names), "key")
            .drop("key")
        )
        return self._keyed_intervals(events.unionByName(owned.join(removed, "owner")))

    def _keyed_intervals(self, events: DataFrame) -> DataFrame:
        window = Window.partitionBy("kind", "key").orderBy(*_ORDER)
        kept = self._last_per_step(events, window)
        rows = _with_validity(kept, window).where(F.col("state").isNotNull())
        return rows.drop("following")

    def _last_per_step(self, events: DataFrame, window: Any) -> DataFrame:
        following = F.lead(self._step).over(window)
        kept = events.withColumn("following", following)
        mine = F.col(self._step)
        return kept.where(F.col("following").isNull() | (F.col("following") != mine))

    def _brokers(self) -> DataFrame:
        window = Window.partitionBy("broker_id").orderBy(*_ORDER)
        run = window.rowsBetween(_START, Window.currentRow)
        events = self._events("broker")
        if "brokers" in self._base:
            events = events.unionByName(_broker_seeds(self._base["brokers"]))
        for name in ("registration", "fenced", "in_shutdown", "log_dirs", "cordoned"):
            events = events.withColumn(name, F.last(name, ignorenulls=True).over(run))
        kept = self._last_per_step(events, window)
        rows = _with_validity(kept, window).where(~F.col("is_removed"))
        registration = F.from_json("registration", REGISTRATION).alias("r")
        cordoned = F.from_json("cordoned", "array<string>").alias("cordoned_log_dirs")
        return _finished("brokers", rows.select(registration, cordoned, "*").select("r.*", "*"))

    def _partitions(self) -> DataFrame:
        events = self._events("partition").withColumns(
            {name: F.lit(None).cast(type_) for name, type_ in _KEPT.items()}
        )
        if "partitions" in self._base:
            events = events.unionByName(_partition_seeds(self._base["partitions"]))
        events = events.withColumn("is_clear", F.lit(False))  # noqa: FBT003
        window = Window.partitionBy("topic_id", "partition").orderBy(*_ORDER)
        if self._has_clears:
            events = _effective_clears(self._with_clears(events), window)
        rows = self._overlay(events, window)
        topics = self._topics.select(
            F.get_json_object("state", "$.topic_id").alias("topic_id"),
            F.get_json_object("state", "$.name").alias("topic"),
            F.col("valid_to_offset").alias("removed_offset"),
            F.col("valid_to_ts").alias("removed_ts"),
            F.col("to_batch").alias("removed_batch"),
            F.col("to_visible").alias("removed_visible"),
        )
        # a topic that came and went in one step was never seen, nor were its partitions
        rows = rows.join(F.broadcast(topics), "topic_id")
        following = F.coalesce(
            F.lead(self._step).over(window),
            F.col("removed_visible" if self._step == "visible" else "removed_batch"),
        )
        rows = rows.withColumn("following", following)
        rows = rows.where(F.col("following").isNull() | (F.col("following") != F.col(self._step)))
        rows = _with_validity(rows, window)
        rows = rows.withColumns(
            {
                "valid_to_offset": F.coalesce("valid_to_offset", "removed_offset"),
                "valid_to_ts": F.coalesce("valid_to_ts", "removed_ts"),
            }
        )
        return _finished("partitions", _with_changes(rows, window))

    def _with_clears(self, events: DataFrame) -> DataFrame:
        """One event per partition that lives when a ClearElrRecord names its topic, or all."""
        keys = events.select("topic_id", "partition").distinct()
        topics = self._topics.select(
            F.get_json_object("state", "$.topic_id").alias("topic_id"),
            F.get_json_object("state", "$.name").alias("name"),
            F.col("valid_from_offset").alias("born"),
            F.col("valid_to_offset").alias("died"),
        )
        clears = self._events("clear_elr").alias("c")
        named = (F.col("topic") == "") | (F.col("topic") == F.col("name"))
        alive = (F.col("born") <= F.col("visible")) & (
            F.col("died").isNull() | (F.col("died") > F.col("visible"))
        )
        empty = F.array().cast("array<int>")
        made = (
            F.broadcast(clears)
            .join(topics, named & alive)
            .join(keys, "topic_id")
            .withColumns({"is_reset": F.lit(False), "is_clear": F.lit(True)})  # noqa: FBT003
            .withColumns({"elr": empty, "last_known_elr": empty})
        )
        have = set(made.columns)
        nulls = {
            field.name: F.lit(None).cast(field.dataType)
            for field in events.schema.fields
            if field.name not in have
        }
        return events.unionByName(made.withColumns(nulls).select(*events.columns))

    def _overlay(self, events: DataFrame, window: Any) -> DataFrame:
        """Every field as it is after each event."""
        run = window.rowsBetween(_START, Window.currentRow)
        changed = (~F.col("is_reset")).cast("int")
        led = (~F.col("is_reset") & F.col("leader").isNotNull()).cast("int")
        rows = events.withColumns(
            {"leader_steps": F.sum(led).over(run), "steps": F.sum(changed).over(run)}
        )
        leader_base = F.col("base_leader_epoch") - F.col("leader_steps")
        base = F.col("base_partition_epoch") - F.col("steps")

        def last(value: Any) -> Column:
            return F.last(value, ignorenulls=True).over(run)

        columns: dict[str, Column] = {
            "leader_epoch": last(leader_base) + F.col("leader_steps"),
            "partition_epoch": last(base) + F.col("steps"),
        }
        for name in ("leader", "isr", "elr", "last_known_elr", "adding", "removing", "recovery"):
            columns[name] = last(name)
        if not self._has_moves:
            columns |= {name: last(name) for name in ("replicas", "directories")}
            return rows.withColumns(columns)
        return _moved_directories(rows.withColumns(columns), run)


_KEPT: Final = {
    "kept_prev_leader": "int",
    "kept_prev_isr": "array<int>",
    "kept_prev_replicas": "array<int>",
    "kept_prev_elr": "array<int>",
    "kept_change": "array<string>",
}


def _moved_directories(rows: DataFrame, run: Any) -> DataFrame:
    """Directories follow their replicas when a record names none.

    A replica keeps its directory as long as it stays a replica; one that comes (back) is MIGRATING.
    """
    named = F.col("directories").isNotNull()
    state = F.last("replicas", ignorenulls=True).over(run)
    rows = rows.withColumns(
        {
            "move": F.when(~named & F.col("replicas").isNotNull(), F.col("replicas")),
            "replicas_now": state,
            "named_directories": F.last("directories", ignorenulls=True).over(run),
            "naming": F.sum(named.cast("int")).over(run),
        }
    )
    at_naming = F.last(F.when(named, F.col("replicas_now")), ignorenulls=True)
    since = (
        Window.partitionBy("topic_id", "partition", "naming")
        .orderBy(*_ORDER)
        .rowsBetween(_START, Window.currentRow)
    )
    rows = rows.withColumns(
        {"named_replicas": at_naming.over(run), "moves": F.collect_list("move").over(since)}
    )
    all_migrating = F.array_repeat(F.lit(_MIGRATING), F.size("named_replicas"))
    spelled = F.when(F.size("named_directories") == 0, all_migrating).otherwise(
        F.col("named_directories")
    )
    rows = rows.withColumn("named_directories", spelled)
    rows = rows.withColumn("known", F.map_from_arrays("named_replicas", "named_directories"))
    followed = F.expr(
        "transform(replicas_now, r -> if(forall(moves, m -> array_contains(m, r)),"
        f" coalesce(try_element_at(known, r), '{_MIGRATING}'), '{_MIGRATING}'))"
    )
    directories = F.when(F.size("moves") == 0, F.col("named_directories")).otherwise(followed)
    return rows.withColumns({"directories": directories, "replicas": F.col("replicas_now")})


def _effective_clears(events: DataFrame, window: Any) -> DataFrame:
    """Without the clears of partitions that have no ELR: these do not change them."""
    before = window.rowsBetween(_START, -1)
    had = F.coalesce(F.size(F.last("elr", ignorenulls=True).over(before)), F.lit(0))
    knew = F.coalesce(F.size(F.last("last_known_elr", ignorenulls=True).over(before)), F.lit(0))
    rows = events.withColumns({"had": had, "knew": knew})
    kept = rows.where(~F.col("is_clear") | (F.col("had") > 0) | (F.col("knew") > 0))
    return kept.drop("had", "knew")


def _with_validity(rows: DataFrame, window: Any) -> DataFrame:
    return rows.withColumns(
        {
            "valid_from_offset": F.col("visible"),
            "valid_from_ts": F.col("ts"),
            "valid_to_offset": F.lead("visible").over(window),
            "valid_to_ts": F.lead("ts").over(window),
            "to_batch": F.lead("batch_offset").over(window),
            "to_visible": F.lead("visible").over(window),
            "cause_api": F.col("api"),
            "cause_offset": F.col("offset"),
            "controller_epoch": F.col("epoch"),
        }
    )


def _with_changes(rows: DataFrame, window: Any) -> DataFrame:
    """What differs from the state before; nothing for the first one."""
    named = {"leader": "leader", "isr": "isr", "replicas": "replicas", "elr": "elr"}
    previous = {name: F.lag(name).over(window) for name in (*named, "directories")}
    is_first = F.lag("visible").over(window).isNull()
    flags = [
        F.when(~is_first & ~F.col(name).eqNullSafe(previous[name]), F.lit(label))
        for name, label in {**named, "directories": "dirs"}.items()
    ]
    change = F.filter(F.array(*flags), lambda one: one.isNotNull())
    return rows.withColumns(
        {
            "prev_leader": F.coalesce("kept_prev_leader", previous["leader"]),
            "prev_isr": F.coalesce("kept_prev_isr", previous["isr"]),
            "prev_replicas": F.coalesce("kept_prev_replicas", previous["replicas"]),
            "prev_elr": F.coalesce("kept_prev_elr", previous["elr"]),
            "change": F.coalesce("kept_change", change),
        }
    )


def _finished(table: str, rows: DataFrame) -> DataFrame:
    """The table's columns in their order, with the type that is declared for each."""
    fields = _schema(rows.sparkSession, SCD_TABLES[table])
    return rows.select(*(F.col(one.name).cast(one.dataType).alias(one.name) for one in fields))


def _schema(spark: SparkSession, columns: str) -> Any:
    """The fields of columns in DDL."""
    return spark.createDataFrame([], columns).schema.fields


def _seed_place() -> list[Column]:
    """An open interval of an archive as an event: it takes effect where it did."""
    return [
        F.col("valid_from_offset").alias("visible"),
        F.col("cause_offset").alias("offset"),
        F.lit(0).alias("idx"),
        F.col("batch_offset"),
        F.col("valid_from_ts").alias("ts"),
        F.col("controller_epoch").alias("epoch"),
        F.col("cause_api").alias("api"),
        F.col("seed"),
    ]


def _broker_seeds(rows: DataFrame) -> DataFrame:
    """Open intervals as events that set every field."""
    fields = [field.name for field in _schema(rows.sparkSession, REGISTRATION)]
    return rows.select(
        "broker_id",
        F.lit(True).alias("is_reset"),  # noqa: FBT003
        F.lit(False).alias("is_removed"),  # noqa: FBT003
        F.to_json(F.struct(*fields)).alias("registration"),
        "fenced",
        "in_shutdown",
        "log_dirs",
        F.coalesce(F.to_json("cordoned_log_dirs"), F.lit("null")).alias("cordoned"),
        *_seed_place(),
    )


def _partition_seeds(rows: DataFrame) -> DataFrame:
    """Open intervals as events that set every field and remember what they replaced."""
    same = ("replicas", "isr", "elr", "last_known_elr", "adding", "removing", "directories",
            "recovery")  # fmt: skip
    kept = ("prev_leader", "prev_isr", "prev_replicas", "prev_elr", "change")
    return rows.select(
        "topic_id",
        "partition",
        F.lit(True).alias("is_reset"),  # noqa: FBT003
        "leader",
        F.col("leader_epoch").alias("base_leader_epoch"),
        F.col("partition_epoch").alias("base_partition_epoch"),
        *same,
        *_seed_place(),
        *(F.col(name).alias(f"kept_{name}") for name in kept),
    )


def _has_files(folder: str) -> bool:
    return any(Path(folder).glob("*.parquet"))
