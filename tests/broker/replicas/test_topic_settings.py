"""Settings of topics: each config and its layers, in the units of logs and partitions."""

import pytest

from broker.replicas.topic_settings import NO_EFFECT, VERIFICATION_KEY, TopicSettingsOf
from metadata.config_schema import topic_configs
from metadata.image import CONFIG_BROKER, CONFIG_TOPIC
from storage.logs.log_directory import TopicSettings
from storage.logs.log_validator import AppendRules, TimestampType
from tests.broker.metadata_log import B, MetadataLog
from wire.batches.compression import Codec

FIELDS = {
    "segment.bytes": ("1048577", lambda log, _: log.log.segment_bytes, 1048577),
    "internal.segment.bytes": ("5", lambda log, _: log.log.segment_bytes, 5),
    "segment.ms": ("7", lambda log, _: log.log.segment_ms, 7),
    "segment.jitter.ms": ("8", lambda log, _: log.log.segment_jitter_ms, 8),
    "segment.index.bytes": ("9", lambda log, _: log.log.segment_index_bytes, 9),
    "index.interval.bytes": ("0", lambda log, _: log.log.index_interval_bytes, 0),
    "max.message.bytes": ("10", lambda log, _: log.append.batch_bytes_max, 10),
    "message.timestamp.type": (
        "LogAppendTime",
        lambda log, _: log.append.timestamp_type,
        TimestampType.LOG_APPEND_TIME,
    ),
    "message.timestamp.before.max.ms": ("11", lambda log, _: log.append.before_ms_max, 11),
    "message.timestamp.after.max.ms": ("12", lambda log, _: log.append.after_ms_max, 12),
    "compression.type": ("zstd", lambda log, _: log.append.codec, Codec.ZSTD),
    "cleanup.policy": (
        "compact",
        lambda log, partition: (
            log.append.is_compacted and log.compaction.is_compacted,
            log.retention.is_deleted,
            partition.deletes,
        ),
        (True, False, False),
    ),
    "min.cleanable.dirty.ratio": ("0.25", lambda log, _: log.compaction.dirty_ratio_min, 0.25),
    "min.compaction.lag.ms": ("18", lambda log, _: log.compaction.lag_ms_min, 18),
    "delete.retention.ms": ("19", lambda log, _: log.compaction.delete_retention_ms, 19),
    "retention.bytes": ("13", lambda log, _: log.retention.retention_bytes, 13),
    "retention.ms": ("14", lambda log, _: log.retention.retention_ms, 14),
    "flush.messages": ("15", lambda log, _: log.flush_messages, 15),
    "flush.ms": ("16", lambda log, _: log.flush_ms, 16),
    "file.delete.delay.ms": ("17", lambda log, _: log.file_delete_delay_ms, 17),
    "min.insync.replicas": ("2", lambda _, partition: partition.min_insync_replicas, 2),
}
LEVELS = {f"compression.{codec}.level" for codec in ("gzip", "lz4", "zstd")}
WITH_OTHERS = {"max.compaction.lag.ms", *LEVELS}


def publish(found: TopicSettingsOf, log: MetadataLog) -> list[str]:
    """The topics with other settings by the changes of the log."""
    return [topic for topic in found.publish(*log.take()) if found.is_changed(topic)]


def settings(log: MetadataLog, **properties: str) -> TopicSettingsOf:
    found = TopicSettingsOf(1, {name.replace("_", "."): text for name, text in properties.items()})
    publish(found, log)
    return found


def test_each_config_of_topics_is_a_field_or_has_a_reason_for_none() -> None:
    acted_on = {*FIELDS, *WITH_OTHERS}
    assert acted_on.isdisjoint(NO_EFFECT)
    assert acted_on | NO_EFFECT.keys() == topic_configs().keys()
    assert all(NO_EFFECT.values())


@pytest.mark.parametrize("name", FIELDS)
def test_a_config_of_a_topic_is_its_field(name: str) -> None:
    text, field, value = FIELDS[name]
    log = MetadataLog()
    log.topic("a")
    log.topic("b")
    found = settings(log)
    assert field(found.log("a"), found.partition("a")) != value
    log.set(CONFIG_TOPIC, "a", name, text)
    assert publish(found, log) == ["a"]
    assert field(found.log("a"), found.partition("a")) == value
    assert found.log("b") == TopicSettings()


@pytest.mark.parametrize(("text", "validates"), [("records", True), ("headers", False)])
def test_what_of_a_produced_batch_is_looked_at(text: str, *, validates: bool) -> None:
    log = MetadataLog()
    log.topic()
    log.config("a", retention_ms="5")
    found = settings(log, produce_validation=text)
    for topic in ("a", "b"):
        assert found.log(topic).append.validates_records is validates


def test_transactions_are_verified_unless_the_cluster_says_otherwise() -> None:
    log = MetadataLog()
    log.topic("a")
    found = settings(log)
    assert found.log("a").append.verifies_transactions
    log.set(CONFIG_BROKER, "", VERIFICATION_KEY, "false")
    assert publish(found, log) == ["a"]
    assert not found.log("a").append.verifies_transactions
    other = settings(MetadataLog(), transaction_partition_verification_enable="false")
    assert not other.log("a").append.verifies_transactions


def test_defaults_are_kafkas_and_those_of_the_logs() -> None:
    log = MetadataLog()
    log.topic("a")
    found = settings(log)
    assert found.log("a") == TopicSettings()
    assert found.log("a").append == AppendRules()
    assert (found.partition("a").min_insync_replicas, found.partition("a").deletes) == (1, True)


def test_a_compacted_topic_rolls_after_its_longest_lag() -> None:
    log = MetadataLog()
    log.topic("a", max_compaction_lag_ms="5", cleanup_policy="compact,delete")
    log.topic("b", max_compaction_lag_ms="5")
    log.config("a", segment_ms="6")
    log.config("b", segment_ms="6")
    found = settings(log)
    assert [found.log(name).log.segment_ms for name in "ab"] == [5, 6]
    log.config("a", segment_ms="4")
    publish(found, log)
    assert found.log("a").log.segment_ms == 4
    assert found.log("a").retention.is_deleted
    assert found.partition("a").deletes


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("producer", None),
        ("uncompressed", Codec.NONE),
        ("gzip", Codec.GZIP),
        ("snappy", Codec.SNAPPY),
        ("lz4", Codec.LZ4),
        ("zstd", Codec.ZSTD),
    ],
)
def test_the_codec_of_a_topic(name: str, codec: Codec | None) -> None:
    log = MetadataLog()
    log.topic("a", compression_type=name)
    assert settings(log).log("a").append.codec is codec


@pytest.mark.parametrize(
    ("name", "level", "expected"),
    [
        ("gzip", "9", 9),
        ("lz4", "17", 17),
        ("zstd", "-5", -5),
        ("gzip", "-1", None),
        ("lz4", "9", None),
        ("zstd", "3", None),
        ("snappy", None, None),
        ("producer", None, None),
    ],
)
def test_the_level_of_the_codec_of_a_topic(
    name: str, level: str | None, expected: int | None
) -> None:
    log = MetadataLog()
    log.topic("a", compression_type=name)
    for codec in ("gzip", "lz4", "zstd"):
        log.set(CONFIG_TOPIC, "a", f"compression.{codec}.level", level if codec == name else "2")
    assert settings(log).log("a").append.level == expected


@pytest.mark.parametrize(
    ("properties", "retention_ms"),
    [
        ({"log_retention_hours": "2"}, 7_200_000),
        ({"log_retention_hours": "2", "log_retention_minutes": "3"}, 180_000),
        ({"log_retention_minutes": "3", "log_retention_ms": "4"}, 4),
        ({"log_retention_ms": "-5"}, -1),
        ({"log_retention_hours": "-1"}, -1),
    ],
)
def test_milliseconds_count_before_minutes_before_hours(
    properties: dict[str, str], retention_ms: int
) -> None:
    log = MetadataLog()
    log.topic("a")
    assert settings(log, **properties).log("a").retention.retention_ms == retention_ms


def test_layers_from_the_topic_down_to_the_default() -> None:
    log = MetadataLog()
    log.topic("a", max_message_bytes="1")
    found = settings(log, message_max_bytes="4")
    log.broker_config("message.max.bytes", "3")
    publish(found, log)
    log.broker_config("message.max.bytes", "2", node="1")
    log.broker_config("message.max.bytes", "9", node="2")
    sizes = []
    for take_away in (
        lambda: None,
        lambda: log.config("a", max_message_bytes=None),
        lambda: log.broker_config("message.max.bytes", None, node="1"),
        lambda: log.broker_config("message.max.bytes", None),
    ):
        take_away()
        changed = publish(found, log)
        sizes.append((changed, found.log("a").append.batch_bytes_max))
    assert sizes == [([], 1), (["a"], 2), (["a"], 3), (["a"], 4)]


def test_changes_name_only_topics_whose_settings_differ() -> None:
    log = MetadataLog()
    log.topic("b")
    log.topic("a")
    found = settings(log)
    for name in "ba":
        found.log(name)
    log.broker_config("message.max.bytes", "3")
    assert publish(found, log) == ["b", "a"], "as they were asked for"
    log.config("a", max_message_bytes="3")
    log.broker_config("message.max.bytes", "3", node="2")
    assert publish(found, log) == []
    log.broker_config("message.max.bytes", "4")
    assert publish(found, log) == ["b"]


def test_a_topic_that_is_gone_leaves_no_settings_behind() -> None:
    log = MetadataLog()
    log.topic("b", flush_ms="3")
    found = settings(log)
    assert found.log("b").flush_ms == 3
    log.remove(B)
    assert publish(found, log) == []
    assert found.log("b") == TopicSettings()
    log.topic("b", bytes(15) + b"\x09", flush_ms="4")
    assert publish(found, log) == []
    assert found.log("b").flush_ms == 4


def test_values_that_do_not_parse_and_unknown_names_are_left_out() -> None:
    log = MetadataLog()
    log.topic("a", flush_ms="-1", flush_messages="x", retention_ms="-2", retention_bytes="-2")
    log.config("a", some_thing="1")
    found = settings(log, log_retention_hours="1", log_roll_ms="-1").log("a")
    assert found.flush_ms == found.flush_messages == (1 << 63) - 1
    assert (found.retention.retention_ms, found.retention.retention_bytes) == (3_600_000, -2)
    assert found.log.segment_ms == 604_800_000
