"""The settings of topics on this broker, as its logs and partitions take them.

A config of a topic counts, else its default at this broker (`metadata.node_configs`). What a log
does with it is a field of `TopicSettings` or `PartitionSettings`; configs without any are in
`NO_EFFECT`.

apache/kafka: storage/.../log/LogConfig.java
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from metadata.config_schema import broker_configs, topic_configs
from metadata.config_values import parse_value
from metadata.delta import MetadataDelta
from metadata.image import CONFIG_BROKER, CONFIG_TOPIC, EMPTY, Image
from metadata.node_configs import NodeConfigs
from replication.roles import PartitionSettings
from storage.cleaner.compaction_rules import CompactionRules
from storage.logs.log_directory import TopicSettings
from storage.logs.log_validator import AppendRules, TimestampType
from storage.logs.retention import RetentionRules
from wire.batches.compression import Codec

_REMOTE: Final = "there is no remote storage"
_THROTTLE: Final = "throttles are of the broker (replication/throttle.py)"
NO_EFFECT: Final[Mapping[str, str]] = {
    "remote.storage.enable": _REMOTE,
    "remote.log.copy.disable": _REMOTE,
    "remote.log.delete.on.disable": _REMOTE,
    "local.retention.ms": _REMOTE,
    "local.retention.bytes": _REMOTE,
    "leader.replication.throttled.replicas": _THROTTLE,
    "follower.replication.throttled.replicas": _THROTTLE,
    "unclean.leader.election.enable": "it is the controller that elects",
    "preallocate": "files grow with what is written to them",
}
"""Configs of topics that change nothing at a log, and why."""
ACTED_ON_ELSEWHERE: Final = frozenset(
    {
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "unclean.leader.election.enable",
    }
)
"""Those of them that throttles or the controller act on."""
VALIDATION_KEY: Final = "produce.validation"
"""Key of the broker, of ours: what of a produced batch is looked at."""
VERIFICATION_KEY: Final = "transaction.partition.verification.enable"
"""Key of the broker: is the coordinator asked before a transaction begins at a partition?"""
VALIDATES_RECORDS: Final = "records"
VALIDATIONS: Final = ("headers", VALIDATES_RECORDS)
_CODECS: Final[Mapping[str, Codec | None]] = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class Settings(msgspec.Struct, frozen=True):
    """All settings of one topic."""

    log: TopicSettings
    partition: PartitionSettings


class TopicSettingsOf:
    """The settings of the topics of the newest image.

    Args:
        node_id: of the broker, for its dynamic configs.
        properties: its server.properties.
    """

    def __init__(self, node_id: int, properties: Mapping[str, str]) -> None:
        self._node_id = node_id
        self._properties = properties
        self._image = EMPTY
        self._defaults = self._defaults_at(EMPTY)
        self._default = _settings(self._defaults)
        self._by_name: dict[str, Settings] = {}
        """Of the topics that were asked for; a deleted topic leaves it."""

    def publish(self, image: Image, delta: MetadataDelta) -> list[str]:
        """Take the next image; the topics asked for that `is_changed` has to look at, in order."""
        self._image = image
        is_for_all = not delta.configs.isdisjoint(
            [(CONFIG_BROKER, ""), (CONFIG_BROKER, str(self._node_id))]
        )
        if is_for_all:
            self._defaults = self._defaults_at(image)
            self._default = _settings(self._defaults)
            return list(self._by_name)
        touched = {name for kind, name in delta.configs if kind == CONFIG_TOPIC}
        return sorted(touched.intersection(self._by_name))

    def is_changed(self, topic: str) -> bool:
        """Take the settings of a topic from the image; True if they are others, and it is there."""
        before = self._by_name.pop(topic, None)
        return topic in self._image.topic_id_by_name and self._of(topic) != before

    def log(self, topic: str) -> TopicSettings:
        """The settings of the logs of a topic; of a topic that is not in the image the defaults."""
        return self._of(topic).log

    def partition(self, topic: str) -> PartitionSettings:
        """The settings of the partitions of a topic."""
        return self._of(topic).partition

    def _of(self, topic: str) -> Settings:
        known = self._by_name.get(topic)
        if known is None:
            known = self._settings_of(topic)
            if topic in self._image.topic_id_by_name:
                self._by_name[topic] = known
        return known

    def _settings_of(self, topic: str) -> Settings:
        own = self._image.config(CONFIG_TOPIC, topic)
        values: dict[str, Any] = {}
        for name, text in own.items():
            definition = topic_configs().get(name)
            if definition is not None:
                value, error = parse_value(definition, text)
                if error is None:
                    values[name] = value
        return _settings({**self._defaults, **values}) if values else self._default

    def _defaults_at(self, image: Image) -> dict[str, Any]:
        configs = NodeConfigs(image, self._node_id, self._properties)
        values: dict[str, Any] = {VALIDATION_KEY: self._properties.get(VALIDATION_KEY)}
        values[VERIFICATION_KEY] = _verifies(configs)
        for name, definition in topic_configs().items():
            text = configs.topic_value(definition)
            if text is None:
                values[name] = None
                continue
            value, error = parse_value(definition, text)
            if error is not None:  # a broker may have what no topic may: `log.roll.ms=-1`
                assert definition.default is not None, error
                value, error = parse_value(definition, definition.default)
                assert error is None, error
            values[name] = value
        return values


def _settings(values: Mapping[str, Any]) -> Settings:
    return Settings(
        _log_settings(values),
        PartitionSettings(
            min_insync_replicas=values["min.insync.replicas"],
            deletes="delete" in values["cleanup.policy"],
        ),
    )


def _log_settings(values: Mapping[str, Any]) -> TopicSettings:
    policy = values["cleanup.policy"]
    is_compacted = "compact" in policy
    segment_ms = values["segment.ms"]
    if is_compacted and values["max.compaction.lag.ms"] > 0:
        segment_ms = min(segment_ms, values["max.compaction.lag.ms"])
    internal_bytes = values["internal.segment.bytes"]
    return TopicSettings(
        log=msgspec.structs.replace(
            TopicSettings().log,
            segment_bytes=values["segment.bytes"] if internal_bytes is None else internal_bytes,
            segment_ms=segment_ms,
            segment_jitter_ms=values["segment.jitter.ms"],
            segment_index_bytes=values["segment.index.bytes"],
            index_interval_bytes=values["index.interval.bytes"],
        ),
        append=AppendRules(
            batch_bytes_max=values["max.message.bytes"],
            timestamp_type=TimestampType(values["message.timestamp.type"]),
            before_ms_max=values["message.timestamp.before.max.ms"],
            after_ms_max=values["message.timestamp.after.max.ms"],
            codec=_CODECS[values["compression.type"]],
            level=_level(values),
            is_compacted=is_compacted,
            validates_records=values[VALIDATION_KEY] == VALIDATES_RECORDS,
            verifies_transactions=values[VERIFICATION_KEY],
        ),
        compaction=CompactionRules(
            is_compacted=is_compacted,
            dirty_ratio_min=values["min.cleanable.dirty.ratio"],
            lag_ms_min=values["min.compaction.lag.ms"],
            lag_ms_max=values["max.compaction.lag.ms"],
            delete_retention_ms=values["delete.retention.ms"],
        ),
        retention=RetentionRules(
            is_deleted="delete" in policy,
            retention_bytes=values["retention.bytes"],
            retention_ms=values["retention.ms"],
        ),
        flush_messages=values["flush.messages"],
        flush_ms=values["flush.ms"],
        file_delete_delay_ms=values["file.delete.delay.ms"],
    )


def _verifies(configs: NodeConfigs) -> bool:
    text = configs.value(VERIFICATION_KEY)
    assert text is not None, "it has a default"
    value, error = parse_value(broker_configs()[VERIFICATION_KEY], text)
    assert error is None, error
    return bool(value)


def _level(values: Mapping[str, Any]) -> int | None:
    """The level of the codec that batches are compressed with again; None for its default."""
    key = f"compression.{values['compression.type']}.level"
    default = topic_configs()[key].default if key in values else None
    return None if default is None or values[key] == int(default) else values[key]
