"""Kafka's keys about records, as settings of the records of a broker.

Their types and ranges are those of Kafka's definitions. Kafka takes some values that it cannot run
with as others could: `least` is used for lower ones, and an interval of 0 or less is one that never
comes again, as in KafkaScheduler. (apache/kafka: core/.../server/KafkaConfig.scala)
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from broker.config import RecordsConfig, ReplicaFetchConfig, UpkeepConfig
from kernel.config import NodeConfig
from metadata.config_schema import broker_configs
from metadata.config_values import parse_value
from node.config_keys import LONG_MAX
from node.errors import ConfigError, shortened
from node.listeners import inter_broker_listener
from wire.types import DirectoryId


class RecordsKey(NamedTuple):
    """A key with a whole number: its group and field; `least` is used for any lower value."""

    key: str
    group: str
    field: str
    least: int | None = None


class Interval(NamedTuple):
    """A key with the interval of a task: its field of UpkeepConfig."""

    key: str
    field: str


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
    RecordsKey("num.recovery.threads.per.data.dir", "upkeep", "recovery_threads"),
    RecordsKey("producer.id.expiration.ms", "upkeep", "producer_expiration_ms"),
)
INTERVALS: Final = (
    Interval("log.retention.check.interval.ms", "retention_check_ms"),
    Interval("log.flush.scheduler.interval.ms", "flush_check_ms"),
    Interval("log.flush.offset.checkpoint.interval.ms", "recovery_point_ms"),
    Interval("log.flush.start.offset.checkpoint.interval.ms", "log_start_ms"),
    Interval("replica.high.watermark.checkpoint.interval.ms", "high_watermark_ms"),
)
RECORDS_KEYS: Final = frozenset(number.key for number in (*NUMBERS, *INTERVALS))
"""Keys that a node with records acts on, beside those of topics (`broker/topic_settings.py`)."""


def records_config(config: NodeConfig, directory_ids: Mapping[str, DirectoryId]) -> RecordsConfig:
    """Return the settings of the records of a broker with these settings.

    Args:
        config: of a node with the broker role.
        directory_ids: id of every log directory, by path.

    Raises:
        ConfigError: a value is refused.
    """
    given = dict(config.properties)
    listener = inter_broker_listener(
        given, config.advertised_listeners, config.controller_listener_names, ("broker",)
    )
    assert listener is not None, "a broker has an inter-broker listener"
    groups: dict[str, dict[str, Any]] = {"records": {}, "replica_fetch": {}, "upkeep": {}}
    for number in NUMBERS:
        if number.key in given:
            value = _whole(given[number.key], number.key)
            used = value if number.least is None else max(number.least, value)
            groups[number.group][number.field] = used
    for interval in INTERVALS:
        if interval.key in given:
            value = _whole(given[interval.key], interval.key)
            groups["upkeep"][interval.field] = value if value > 0 else LONG_MAX
    if groups["records"].get("queued_bytes_max", 1) <= 0:
        del groups["records"]["queued_bytes_max"]
    found = RecordsConfig(
        node_id=config.node_id,
        log_dirs=config.log_dirs,
        directory_ids=dict(directory_ids),
        inter_broker_listener=listener,
        properties=config.properties,
        access=config.access,
        rack=config.broker.rack,
        request_bytes_max=config.connection_limits.request_bytes_max,
        idle_ms_max=config.connection_limits.idle_ms_max,
        replica_fetch=ReplicaFetchConfig(**groups["replica_fetch"]),
        upkeep=UpkeepConfig(**groups["upkeep"]),
        **groups["records"],
    )
    _check(found)
    return found


def _whole(text: str, key: str) -> int:
    value, message = parse_value(broker_configs()[key], text)
    if message is not None:
        raise ConfigError(message.replace(text, shortened(text)) if text else message)
    assert isinstance(value, int), f"{key=} {value=}"
    return value


def _check(config: RecordsConfig) -> None:
    """Refuse values that do not fit each other, as KafkaConfig.validateValues does."""
    wait_ms = config.replica_fetch.wait_ms_max
    if wait_ms > config.replica_fetch.socket_timeout_ms:
        raise ConfigError(
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to "
            "prevent unnecessary socket timeouts"
        )
    if wait_ms > config.replica_lag_ms_max:
        raise ConfigError(
            "replica.fetch.wait.max.ms should always be less than or equal to "
            "replica.lag.time.max.ms to prevent frequent changes in ISR"
        )
