"""`group.consumer.*` as settings: defaults, values, values that do not fit."""

import pytest

from coordinator.group.consumer.settings import Bounded, ConsumerSettings, MigrationPolicy
from node.configs.consumer_group_config import CONSUMER_GROUP_KEYS
from node.errors import ConfigError
from tests.node.configs.test_records_config import defined, records_of

PREFIX = "group.consumer."


def settings_of(**properties: str) -> ConsumerSettings:
    given = {PREFIX + key.replace("_", "."): value for key, value in properties.items()}
    return records_of(given).groups.consumer


def test_a_node_without_keys_has_the_defaults():
    assert settings_of() == ConsumerSettings()


def test_every_key_is_kafkas():
    assert all(defined(key) is not None for key in CONSUMER_GROUP_KEYS)
    assert len(CONSUMER_GROUP_KEYS) == 15


def test_values_are_taken_over():
    assert settings_of(
        session_timeout_ms="50", min_session_timeout_ms="40", max_session_timeout_ms="60",
        heartbeat_interval_ms="5", min_heartbeat_interval_ms="4", max_heartbeat_interval_ms="6",
        assignment_interval_ms="2", min_assignment_interval_ms="1", max_assignment_interval_ms="3",
        max_size="7", regex_refresh_interval_ms="10001", assignors="range, uniform",
        migration_policy="UPGRADE",
    ) == ConsumerSettings(
        session_timeout_ms=Bounded(default=50, minimum=40, maximum=60),
        heartbeat_interval_ms=Bounded(default=5, minimum=4, maximum=6),
        assignment_interval_ms=Bounded(default=2, minimum=1, maximum=3),
        max_size=7,
        regex_refresh_interval_ms=10_001,
        assignors=("range", "uniform"),
        migration_policy=MigrationPolicy.UPGRADE,
    )  # fmt: skip
    assert records_of({"group.max.size": "9"}).groups.consumer.classic_max_size == 9


@pytest.mark.parametrize(
    ("protocols", "is_enabled"),
    [("classic,consumer,streams", True), ("consumer,classic", True), ("classic", False)],
)
def test_a_broker_may_do_without_the_protocol(protocols, is_enabled):
    given = {"group.coordinator.rebalance.protocols": protocols}
    assert records_of(given).groups.consumer == ConsumerSettings(is_enabled=is_enabled)


@pytest.mark.parametrize(
    ("protocols", "text"),
    [
        ("consumer", "Disabling the 'Classic' protocol is not supported"),
        ("classic,new", "group.coordinator.rebalance.protocols"),
        ("", "group.coordinator.rebalance.protocols"),
    ],
)
def test_protocols_that_are_refused(protocols, text):
    with pytest.raises(ConfigError, match=text):
        records_of({"group.coordinator.rebalance.protocols": protocols})


@pytest.mark.parametrize("name", ["session.timeout.ms", "heartbeat.interval.ms"])
def test_bounds_are_inclusive(name):
    most = {"session.timeout.ms": 60_000, "heartbeat.interval.ms": 15_000}[name]
    key, top, bottom = PREFIX + name, f"{PREFIX}max.{name}", f"{PREFIX}min.{name}"
    records_of({key: str(most)})
    narrow = {top: "50000", bottom: "50000", key: "50000"}
    records_of(
        narrow if name.startswith("s") else {**narrow, f"{PREFIX}session.timeout.ms": "50001"}
    )
    for value, text in (
        (most + 1, f"{key} must be less than or equal to {top}"),
        (1, f"{key} must be greater than or equal to {bottom}"),
    ):
        with pytest.raises(ConfigError, match=text):
            records_of({key: str(value)})
    with pytest.raises(ConfigError, match=f"{top} must be greater than or equal to {bottom}"):
        records_of({top: "4"})


def test_a_heartbeat_comes_within_a_session():
    fields = {"max_heartbeat_interval_ms": "60000", "session_timeout_ms": "45000"}
    settings_of(heartbeat_interval_ms="44999", **fields)
    with pytest.raises(ConfigError, match=r"heartbeat.interval.ms must be less than group"):
        settings_of(heartbeat_interval_ms="45000", **fields)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"assignors": "org.Own"}, "Class org.Own cannot be found"),
        ({"assignors": "range,range"}, "duplicate values"),
        ({"migration_policy": "never"}, "DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL"),
        ({"max_size": "0"}, "Value must be at least 1"),
        ({"max_size": "x"}, "Not a number"),
    ],
)
def test_values_that_are_refused(fields, text):
    with pytest.raises(ConfigError, match=text):
        settings_of(**fields)
