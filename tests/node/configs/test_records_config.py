"""Kafka's keys about records as settings: defaults, values, ranges, values that do not fit."""

from functools import reduce

import msgspec
import pytest

from broker.config import RecordsConfig, UpkeepConfig
from coordinator.transaction.config import TransactionsConfig
from metadata.config_schema import broker_configs
from metadata.config_values import parse_value
from network.sampled_rate import QuotaWindow
from node.configs.config import node_config
from node.configs.record_keys import INTERVALS, LONG_MAX, NUMBERS, RECORDS_KEYS
from node.configs.records_config import RACK_SELECTOR, records_config
from node.errors import ConfigError
from replication.follower.follower_broker import ReplicaFetchConfig
from tests.node.configs.test_config import BROKER, COMBINED
from wire.batches.compression import Codec
from wire.types import DirectoryId

IDS = {"/data/a": DirectoryId(bytes(15) + b"\1"), "/data/b": DirectoryId(bytes(15) + b"\2")}
KEYS = (*NUMBERS, *INTERVALS)
LEAST = {key.key: key.least for key in NUMBERS if key.least is not None}
ROOM = {
    "replica.lag.time.max.ms": "1000000",
    "replica.socket.timeout.ms": "1000000",
    "socket.request.max.bytes": "1",
}
"""So much that other values fit."""


def records_of(properties, base=COMBINED):
    return records_config(node_config({**base, **properties}), IDS)


def value_of(config, key):
    group = getattr(key, "group", "upkeep")
    path = [] if group == "records" else group.split(".")
    return reduce(getattr, [*path, key.field], config)


def defined(key):
    return broker_configs()[key]


def test_a_node_without_keys_about_records_has_the_defaults():
    config = records_of({})
    assert config == RecordsConfig(
        node_id=1,
        log_dirs=("/data/a", "/data/b"),
        directory_ids=IDS,
        inter_broker_listener="PLAINTEXT",
        properties=node_config(COMBINED).properties,
    )


def test_settings_of_the_node_are_taken_over():
    given = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "broker.rack": "r",
        "socket.request.max.bytes": "1000",
        "connections.max.idle.ms": "2000",
        "quota.window.num": "3",
        "quota.window.size.seconds": "5",
        "listeners": "A://:1,B://:2",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "B",
    }
    config = records_of(given, BROKER)
    assert config.node_id == 9
    assert config.access is not None
    assert (config.rack, config.request_bytes_max) == ("r", 1000)
    assert config.idle_ms_max == 2000
    assert config.quota_window == QuotaWindow(3, 5)
    assert config.inter_broker_listener == "B"
    assert config.properties == node_config({**BROKER, **given}).properties


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.key)
def test_a_key_that_is_not_set_has_kafkas_default(key):
    default = defined(key.key).default
    unset = records_of({})
    if default is None:
        assert value_of(unset, key) is None
        return
    explicit = records_of({key.key: default})
    assert msgspec.structs.replace(explicit, properties=unset.properties) == unset
    if key.key != "queued.max.request.bytes":  # where it means no bound, which here is one
        assert value_of(unset, key) == int(default)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.key)
def test_a_value_is_that_of_its_field_and_of_no_other(key):
    value = 1234
    changed = records_of({**ROOM, key.key: str(value)})
    assert value_of(changed, key) == value
    before = records_of({**ROOM})
    for other in KEYS:
        if other != key:
            assert value_of(changed, other) == value_of(before, other)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.key)
@pytest.mark.parametrize("value", [-(2**63), -(2**31), -1, 0, 1, 2**31 - 1, 2**63 - 1])
def test_ranges_are_kafkas(key, value):
    room = {**ROOM, "replica.lag.time.max.ms": str(LONG_MAX)}
    room["replica.socket.timeout.ms"] = str(2**31 - 1)
    if key.key in ("replica.lag.time.max.ms", "replica.socket.timeout.ms"):
        room["replica.fetch.wait.max.ms"] = "0"
    _, refusal = parse_value(defined(key.key), str(value))
    if refusal is not None:
        with pytest.raises(ConfigError):
            records_of({**room, key.key: str(value)})
        return
    used = value_of(records_of({**room, key.key: str(value)}), key)
    if key in INTERVALS:
        assert used == (value if value > 0 else LONG_MAX)
    elif key.key == "queued.max.request.bytes":
        assert used == (value if value > 0 else records_of({}).queued_bytes_max)
    else:
        assert used == max(value, LEAST.get(key.key, value))


@pytest.mark.parametrize("value", ["x", "", "1.5", str(2**63)])
def test_what_is_no_number_is_refused(value):
    config = node_config(COMBINED)
    given = {**dict(config.properties), "replica.lag.time.max.ms": value}
    changed = msgspec.structs.replace(config, properties=tuple(sorted(given.items())))
    with pytest.raises(ConfigError, match=r"replica\.lag\.time\.max\.ms"):
        records_config(changed, IDS)


@pytest.mark.parametrize(
    ("key", "bound"),
    [("replica.socket.timeout.ms", 600), ("replica.lag.time.max.ms", 600)],
)
def test_a_follower_never_waits_longer_than_what_ends_its_wait(key, bound):
    wait = "replica.fetch.wait.max.ms"
    assert records_of({**ROOM, key: str(bound), wait: str(bound)}).replica_fetch.wait_ms_max == 600
    with pytest.raises(ConfigError, match=key):
        records_of({**ROOM, key: str(bound), wait: str(bound + 1)})


def test_consumers_read_in_their_rack_by_the_name_of_a_class_alone():
    assert not records_of({}).reads_in_rack
    assert records_of({"replica.selector.class": RACK_SELECTOR}).reads_in_rack
    for name in ("", "x", RACK_SELECTOR.lower(), "org.apache.kafka.common.replica.ReplicaSelector"):
        with pytest.raises(ConfigError, match=r"replica\.selector\.class.*RackAware"):
            node_config({**COMBINED, "replica.selector.class": name})


def test_what_of_a_produced_batch_is_looked_at_is_one_of_two_words():
    for word in ("headers", "records"):
        assert (
            dict(records_of({"produce.validation": word}).properties)["produce.validation"] == word
        )
    for word in ("", "Records", "batches"):
        with pytest.raises(ConfigError, match=r"produce\.validation: String .* headers, records"):
            node_config({**COMBINED, "produce.validation": word})


def test_every_field_with_a_key_is_set_by_one():
    fields = {(getattr(key, "group", "upkeep"), key.field) for key in KEYS}
    assert len(fields) == len(KEYS) == len(RECORDS_KEYS)
    for group, kind in (
        ("replica_fetch", ReplicaFetchConfig),
        ("replication_window", QuotaWindow),
        ("upkeep", UpkeepConfig),
        ("transactions", TransactionsConfig),
    ):
        assert {name for found, name in fields if found == group} == set(kind.__struct_fields__)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms must be greater than or equal to 0"),
        ({"log.retention.ms": "0"}, "log.retention.ms must be unlimited"),
        ({"log.retention.minutes": "0"}, "log.retention.ms must be unlimited"),
        ({"log.retention.hours": "0"}, "log.retention.ms must be unlimited"),
        (
            {"queued.max.request.bytes": "999", "socket.request.max.bytes": "1000"},
            "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
        ),
    ],
)
def test_what_kafka_does_not_start_with_is_refused_with_its_text(given, text):
    with pytest.raises(ConfigError, match=text):
        node_config({**COMBINED, **given})


@pytest.mark.parametrize(
    "given",
    [
        {"log.roll.ms": "1", "log.roll.jitter.ms": "0"},
        {"log.retention.ms": "1", "log.retention.minutes": "0"},
        {"log.retention.ms": "-1"},
        {"log.retention.hours": "-3"},
        {"queued.max.request.bytes": "1000", "socket.request.max.bytes": "1000"},
        {"queued.max.request.bytes": "0"},
    ],
)
def test_what_kafka_starts_with_is_taken(given):
    assert set(given) & set(node_config({**COMBINED, **given}).unknown_keys) == set()


@pytest.mark.parametrize("codec", Codec)
def test_the_codec_of_committed_offsets(codec):
    assert records_of({"offsets.topic.compression.codec": str(int(codec))}).groups.codec is codec


@pytest.mark.parametrize("value", ["5", "-1", "x"])
def test_a_codec_that_does_not_exist(value):
    with pytest.raises(ConfigError, match=r"offsets\.topic\.compression\.codec"):
        records_of({"offsets.topic.compression.codec": value})
