"""Kafka's keys about records that a broker acts on: its own, and the defaults of topics."""

from typing import Final, NamedTuple

from broker.replicas.topic_settings import NO_EFFECT
from metadata.config_schema import topic_configs

LONG_MAX: Final = 2**63 - 1


class RecordsKey(NamedTuple):
    """A key with a whole number: its field and the path to it; `least` is used for lower values."""

    key: str
    group: str
    field: str
    least: int | None = None


class Interval(NamedTuple):
    """A key with the interval of a task: its field of UpkeepConfig."""

    key: str
    field: str


MOVE_QUOTA: Final = "alter.log.dirs.replication.quota.window"
TRANSACTION: Final = "transaction"
CLEANUP: Final = ".transaction.cleanup.interval.ms"
ADD_PARTITIONS: Final = "add.partitions.to.txn"
NUMBERS: Final = (
    RecordsKey("replica.lag.time.max.ms", "records", "replica_lag_ms_max", 1),
    RecordsKey("queued.max.request.bytes", "records", "queued_bytes_max"),
    RecordsKey("fetch.max.bytes", "records", "fetch_bytes_max"),
    RecordsKey("max.incremental.fetch.session.cache.slots", "records", "fetch_session_slots"),
    RecordsKey("replica.fetch.wait.max.ms", "replica_fetch", "wait_ms_max", 0),
    RecordsKey("replica.fetch.min.bytes", "replica_fetch", "bytes_min", 0),
    RecordsKey("replica.fetch.max.bytes", "replica_fetch", "bytes_max"),
    RecordsKey("replica.fetch.response.max.bytes", "replica_fetch", "response_bytes_max"),
    RecordsKey("replica.fetch.backoff.ms", "replica_fetch", "backoff_ms"),
    RecordsKey("num.replica.fetchers", "replica_fetch", "fetchers"),
    RecordsKey("replica.socket.timeout.ms", "replica_fetch", "socket_timeout_ms", 1),
    RecordsKey("replication.quota.window.num", "replication_window", "samples"),
    RecordsKey("replication.quota.window.size.seconds", "replication_window", "size_seconds"),
    RecordsKey("log.initial.task.delay.ms", "upkeep", "initial_delay_ms"),
    RecordsKey("num.replica.alter.log.dirs.threads", "records", "move_threads", 1),
    RecordsKey(f"{MOVE_QUOTA}.num", "move_window", "samples"),
    RecordsKey(f"{MOVE_QUOTA}.size.seconds", "move_window", "size_seconds"),
    RecordsKey("num.recovery.threads.per.data.dir", "upkeep", "recovery_threads"),
    RecordsKey("producer.id.expiration.ms", "upkeep", "producer_expiration_ms"),
    RecordsKey("group.max.size", "groups.classic", "group_max_size"),
    RecordsKey(
        "group.initial.rebalance.delay.ms", "groups.classic", "initial_rebalance_delay_ms", 0
    ),
    RecordsKey("group.min.session.timeout.ms", "groups.classic", "session_timeout_ms_min"),
    RecordsKey("group.max.session.timeout.ms", "groups.classic", "session_timeout_ms_max"),
    RecordsKey("offset.metadata.max.bytes", "groups.offsets", "metadata_max"),
    RecordsKey("offsets.commit.timeout.ms", "groups.offsets", "commit_timeout_ms"),
    RecordsKey("offsets.retention.check.interval.ms", "groups.offsets", "retention_check_ms"),
    RecordsKey("offsets.retention.minutes", "groups.offsets", "retention_minutes"),
    RecordsKey("offsets.load.buffer.size", "groups", "load_bytes_max"),
    RecordsKey("group.coordinator.append.linger.ms", "groups", "linger_ms"),
    RecordsKey("transaction.max.timeout.ms", "transactions", "timeout_ms_max"),
    RecordsKey("transactional.id.expiration.ms", "transactions", "id_expiration_ms"),
    RecordsKey(f"{TRANSACTION}.abort.timed.out{CLEANUP}", "transactions", "abort_interval_ms"),
    RecordsKey(f"{TRANSACTION}.remove.expired{CLEANUP}", "transactions", "expiry_interval_ms"),
    RecordsKey(f"{ADD_PARTITIONS}.retry.backoff.ms", "transactions", "retry_backoff_ms"),
    RecordsKey(f"{ADD_PARTITIONS}.retry.backoff.max.ms", "transactions", "retry_ms_max"),
    RecordsKey("transaction.state.log.load.buffer.size", "transactions", "load_bytes_max"),
    RecordsKey("request.timeout.ms", "transactions", "request_timeout_ms"),
)
INTERVALS: Final = (
    Interval("log.retention.check.interval.ms", "retention_check_ms"),
    Interval("log.flush.scheduler.interval.ms", "flush_check_ms"),
    Interval("log.flush.offset.checkpoint.interval.ms", "recovery_point_ms"),
    Interval("log.flush.start.offset.checkpoint.interval.ms", "log_start_ms"),
    Interval("replica.high.watermark.checkpoint.interval.ms", "high_watermark_ms"),
    Interval("producer.id.expiration.check.interval.ms", "producer_check_ms"),
)
RECORDS_KEYS: Final = frozenset(number.key for number in (*NUMBERS, *INTERVALS))
"""Keys of the broker itself."""
OFFSETS_CODEC_KEY: Final = "offsets.topic.compression.codec"
SELECTOR_KEY: Final = "replica.selector.class"
TOPIC_DEFAULT_KEYS: Final = frozenset(
    synonym.name
    for name, definition in topic_configs().items()
    if name not in NO_EFFECT
    for synonym in definition.synonyms
)
"""Keys that hold for topics without a config of their own (`broker/replicas/topic_settings.py`)."""
