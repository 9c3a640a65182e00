"""Dynamic configs without effect are named once."""

import pytest

from broker.effects import Log, LogLevel
from broker.silent_configs import SilentConfigs
from kernel.serving.dynamic_limits import DYNAMIC_KEYS
from metadata.config_schema import broker_configs
from metadata.records import CONFIG_GROUP
from tests.broker.brokers import Driven
from tests.broker.metadata_log import B, MetadataLog
from wire.types import NodeId

_SECURITY = "listeners are PLAINTEXT and are those of server.properties"
_REMOTE = "there is no remote storage"
_THREADS = "a node has no threads of its kind"
REASONS = {
    "ssl.": _SECURITY,
    "sasl.": _SECURITY,
    "principal.builder.class": _SECURITY,
    "listeners": _SECURITY,
    "listener.security.protocol.map": _SECURITY,
    "remote.": _REMOTE,
    "log.local.": _REMOTE,
    "follower.fetch.last.tiered.offset.enable": _REMOTE,
    "num.io.threads": _THREADS,
    "num.network.threads": _THREADS,
    "background.threads": _THREADS,
    "metric.reporters": "metrics are read from /metrics",
    "config.providers": "values are not looked up elsewhere",
    "log.preallocate": "files grow with what is written to them",
    "group.share.": "there are no share groups",
    "share.": "there are no share groups",
    "group.streams.": "there are no streams groups",
    "group.coordinator.cached.buffer.max.bytes": "no buffer is kept",
}
"""Begins of keys without effect."""


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
        *sorted(DYNAMIC_KEYS),
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
    log.broker_config("background.threads", "9", "1")
    log.broker_config("num.network.threads", "9")
    expected = ["background.threads", "num.network.threads"]
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


def test_configs_of_share_and_streams_groups_are_named() -> None:
    log, silent = MetadataLog(), SilentConfigs(NodeId(1))
    for key in (
        "consumer.session.timeout.ms",
        "share.isolation.level",
        "streams.session.timeout.ms",
    ):
        log.set(CONFIG_GROUP, "g", key, "1")
    expected = ["share.isolation.level", "streams.session.timeout.ms"]
    assert silent.publish(*log.take()) == expected


def test_each_key_that_kafkas_brokers_change_while_they_run_acts_or_is_named() -> None:
    """The reason for which a key is named is that of its family."""
    for key, definition in broker_configs().items():
        if definition.update_mode is None:
            continue
        log = MetadataLog()
        log.broker_config(key, "1")
        named = SilentConfigs(NodeId(1)).publish(*log.take())
        reasons = [why for family, why in REASONS.items() if key.startswith(family)]
        assert bool(named) is bool(reasons), (key, named, reasons)
