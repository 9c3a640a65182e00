"""Dynamic configs without effect are named once."""

import pytest

from broker.effects import Log, LogLevel
from broker.silent_configs import SilentConfigs
from tests.broker.brokers import Driven
from tests.broker.metadata_log import B, MetadataLog
from wire.types import NodeId


def test_a_key_is_named_when_it_is_first_set_and_then_no_more() -> None:
    log, silent = MetadataLog(), SilentConfigs(NodeId(1))
    log.topic()
    log.topic("b", topic_id=B)
    log.config("a", preallocate="true", local_retention_ms="1", retention_ms="5")
    assert silent.publish(*log.take()) == ["local.retention.ms", "preallocate"]
    log.config("b", preallocate="true")
    assert silent.publish(*log.take()) == []
    log.config("b", local_retention_bytes="1", cleanup_policy="compact")
    assert silent.publish(*log.take()) == ["local.retention.bytes"]


@pytest.mark.parametrize(
    "name",
    [
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "cordoned.log.dirs",
        "unclean.leader.election.enable",
        "log.retention.ms",
        "message.max.bytes",
        "log.cleaner.threads",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.backoff.ms",
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.delete.retention.ms",
    ],
)
def test_what_is_acted_on_is_not_named(name: str) -> None:
    log = MetadataLog()
    log.broker_config(name, "1")
    log.config(
        "a", leader_replication_throttled_replicas="*", follower_replication_throttled_replicas="*"
    )
    assert SilentConfigs(NodeId(1)).publish(*log.take()) == []


def test_configs_of_this_broker_and_of_all_brokers_are_named() -> None:
    log, silent = MetadataLog(), SilentConfigs(NodeId(1))
    log.broker_config("num.io.threads", "9", "2")
    assert silent.publish(*log.take()) == []
    log.broker_config("producer.id.expiration.ms", "9", "1")
    log.broker_config("num.network.threads", "9")
    expected = ["num.network.threads", "producer.id.expiration.ms"]
    assert silent.publish(*log.take()) == expected


def test_a_broker_logs_them() -> None:
    driven = Driven()
    driven.start()
    driven.metadata.broker_config("num.network.threads", "2")
    logged = [each for each in driven.publish() if isinstance(each, Log)]
    fields = {"dynamic_keys": ["num.network.threads"]}
    assert logged == [Log(LogLevel.WARN, "configuration_without_effect", fields)]
    driven.metadata.broker_config("num.network.threads", "3")
    assert [each for each in driven.publish() if isinstance(each, Log)] == []
