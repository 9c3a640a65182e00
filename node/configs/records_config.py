"""Kafka's keys about records, as settings of the records of a broker.

Their types and ranges are those of Kafka's definitions. Kafka takes some values that it cannot run
with as others could: `least` is used for lower ones, and an interval of 0 or less is one that never
comes again, as in KafkaScheduler. (apache/kafka: core/.../server/KafkaConfig.scala)
"""

from collections.abc import Mapping
from typing import Any, Final

from broker.cleaning.cleaner_settings import BUFFER, BUFFER_BYTES_MIN, THREADS
from broker.config import RecordsConfig, UpkeepConfig
from broker.replicas.topic_settings import VALIDATION_KEY, VALIDATIONS
from coordinator.group.classic.settings import ClassicSettings
from coordinator.group.config import GroupCoordinatorConfig
from coordinator.group.machine import OffsetsConfig
from coordinator.transaction.config import TransactionsConfig
from kernel.config import NodeConfig
from metadata.config_schema import broker_configs
from metadata.config_values import parse_value
from network.sampled_rate import QuotaWindow
from node.configs.consumer_group_config import consumer_settings
from node.configs.listeners import inter_broker_listener
from node.configs.record_keys import INTERVALS, LONG_MAX, NUMBERS, OFFSETS_CODEC_KEY, SELECTOR_KEY
from node.errors import ConfigError, shortened
from replication.follower.follower_broker import ReplicaFetchConfig
from wire.batches.compression import Codec
from wire.types import DIRECTORY_UNASSIGNED, DirectoryId

RACK_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The only one that Kafka brings, beside none for the leader."""
RETENTION_KEYS: Final = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
"""The first that is given counts."""


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
    groups: dict[str, dict[str, Any]] = {
        name: {}
        for name in (
            "records",
            "replication_window",
            "move_window",
            "replica_fetch",
            "upkeep",
            "transactions",
            "groups.classic",
            "groups.offsets",
            "groups",
        )
    }
    for number in NUMBERS:
        if number.key in given:
            value = _whole(given[number.key], number.key)
            used = value if number.least is None else max(number.least, value)
            groups[number.group][number.field] = used
    for interval in INTERVALS:
        if interval.key in given:
            value = _whole(given[interval.key], interval.key)
            groups["upkeep"][interval.field] = value if value > 0 else LONG_MAX
    queued_bytes_max = groups["records"].pop("queued_bytes_max", 0)
    if queued_bytes_max > 0:
        groups["records"]["queued_bytes_max"] = queued_bytes_max
    if SELECTOR_KEY in given:
        groups["records"]["reads_in_rack"] = _reads_in_rack(given[SELECTOR_KEY])
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
        quota_window=config.connection_limits.quota_window,
        replication_window=QuotaWindow(**groups["replication_window"]),
        move_window=QuotaWindow(**groups["move_window"]),
        replica_fetch=ReplicaFetchConfig(**groups["replica_fetch"]),
        upkeep=UpkeepConfig(**groups["upkeep"]),
        groups=GroupCoordinatorConfig(
            offsets=OffsetsConfig(**groups["groups.offsets"]),
            classic=ClassicSettings(**groups["groups.classic"]),
            consumer=consumer_settings(given, _whole),
            codec=_codec(given),
            **groups["groups"],
        ),
        transactions=TransactionsConfig(**groups["transactions"]),
        **groups["records"],
    )
    _check(found, given)
    return found


def check_records(config: NodeConfig) -> None:
    """Refuse settings that the records of a broker cannot run with, before anything is written.

    Raises:
        ConfigError: a value is refused.
    """
    records_config(config, dict.fromkeys(config.log_dirs, DIRECTORY_UNASSIGNED))


def _reads_in_rack(name: str) -> bool:
    if name != RACK_SELECTOR:
        raise ConfigError.invalid(name, SELECTOR_KEY, f"String must be one of: {RACK_SELECTOR}")
    return True


def _codec(given: Mapping[str, str]) -> Codec:
    """Codec of the batches of the coordinator of groups."""
    number = _whole(given.get(OFFSETS_CODEC_KEY, "0"), OFFSETS_CODEC_KEY)
    if number not in tuple(Codec):
        raise ConfigError(f"Unknown compression type id: {number} ({OFFSETS_CODEC_KEY})")
    return Codec(number)


def _whole(text: str, key: str) -> int:
    value, message = parse_value(broker_configs()[key], text)
    if message is not None:
        raise ConfigError(message.replace(text, shortened(text)) if text else message)
    assert isinstance(value, int), f"{key=} {value=}"
    return value


def _check(config: RecordsConfig, given: Mapping[str, str]) -> None:
    """Refuse values that do not fit, as KafkaConfig.validateValues does."""
    validation = given.get(VALIDATION_KEY, VALIDATIONS[0])
    if validation not in VALIDATIONS:
        reason = f"String must be one of: {', '.join(VALIDATIONS)}"
        raise ConfigError.invalid(validation, VALIDATION_KEY, reason)
    wait_ms = config.replica_fetch.wait_ms_max
    if int(given.get("log.roll.ms") or 1) < 1:
        raise ConfigError("log.roll.ms must be greater than or equal to 1")
    if int(given.get("log.roll.jitter.ms") or 0) < 0:
        raise ConfigError("log.roll.jitter.ms must be greater than or equal to 0")
    retention = next((key for key in RETENTION_KEYS if given.get(key)), None)
    if retention is not None and int(given[retention]) == 0:
        text = "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
        raise ConfigError(text if retention in text else f"{text}: {retention}=0")
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
    defaults = {key: broker_configs()[key].default or "" for key in (BUFFER, THREADS)}
    buffer_bytes, threads = (int(given.get(key) or defaults[key]) for key in (BUFFER, THREADS))
    if threads > 0 and buffer_bytes // threads <= BUFFER_BYTES_MIN:
        raise ConfigError(f"{BUFFER} must be at least 1MB per cleaner thread.")
    if 0 < int(given.get("queued.max.request.bytes", -1)) < config.request_bytes_max:
        text = "queued.max.request.bytes must be larger or equal to socket.request.max.bytes"
        raise ConfigError(text)
