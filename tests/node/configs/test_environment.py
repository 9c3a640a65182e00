"""Configuration by environment, as the apache/kafka image takes it."""

import pytest

from node.configs.config import node_config
from node.configs.environment import (
    DEFAULTS,
    effective,
    properties_of,
    property_key,
    with_listeners,
)
from node.errors import ConfigError


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("KAFKA_NODE_ID", "node.id"),
        ("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "listener.security.protocol.map"),
        ("KAFKA_A__B", "a_b"),
        ("KAFKA_A___B_C", "a-b.c"),
        ("KAFKA_LOG_DIRS", "log.dirs"),
        ("KAFKA_A_KAFKA_B", "a.b"),
    ],
)
def test_underscores_are_dots_and_more_of_them_are_other_signs(variable: str, key: str) -> None:
    assert property_key(variable) == key


def test_only_what_configures_kafka_is_taken() -> None:
    environment = {
        "KAFKA_NODE_ID": "3",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "KAFKA_VERSION": "4.3.1",
        "KAFKA_": "nothing",
        "PATH": "/bin",
        "CLUSTER_ID": "x",
    }
    assert properties_of(environment) == {"node.id": "3"}


def test_variables_are_stronger_than_the_file() -> None:
    file = {"node.id": "1", "log.dirs": "/a"}
    assert effective(file, {"KAFKA_NODE_ID": "2"}) == {"node.id": "2", "log.dirs": "/a"}


def test_one_variable_replaces_all_defaults() -> None:
    assert effective(None, {"KAFKA_NODE_ID": "2"}) == {"node.id": "2"}
    assert effective(None, {"PATH": "/bin"}) == DEFAULTS


def test_the_defaults_are_a_configuration() -> None:
    config = node_config(effective(None, {}))
    assert (config.is_broker, config.is_controller, config.is_voter) == (True, True, True)


ADVERTISED = "PLAINTEXT://kafka-1:19092,HOST://localhost:29092"
ON_ALL = "PLAINTEXT://0.0.0.0:19092,HOST://0.0.0.0:29092"


@pytest.mark.parametrize(
    ("variables", "listeners"),
    [
        ({}, ON_ALL),
        ({"KAFKA_LISTENERS": ""}, ON_ALL),
        ({"KAFKA_PROCESS_ROLES": "broker,controller"}, ON_ALL),
        ({"KAFKA_LISTENERS": "PLAINTEXT://:1"}, "PLAINTEXT://:1"),
    ],
)
def test_a_broker_listens_where_it_advertises(variables: dict[str, str], listeners: str) -> None:
    given = {**variables, "KAFKA_ADVERTISED_LISTENERS": ADVERTISED}
    assert with_listeners(given) == {**given, "KAFKA_LISTENERS": listeners}
    assert properties_of(given)["listeners"] == listeners
    assert given.get("KAFKA_LISTENERS") == variables.get("KAFKA_LISTENERS"), "it is left as it was"


@pytest.mark.parametrize("variables", [{}, {"KAFKA_ADVERTISED_LISTENERS": ""}])
def test_who_advertises_nothing_listens_where_it_says(variables: dict[str, str]) -> None:
    assert with_listeners(variables) == variables


def test_a_mere_controller_advertises_nothing() -> None:
    roles = {"KAFKA_PROCESS_ROLES": "controller"}
    assert with_listeners({**roles, "KAFKA_ADVERTISED_LISTENERS": ""}) == roles
    with pytest.raises(ConfigError) as refused:
        with_listeners({**roles, "KAFKA_ADVERTISED_LISTENERS": ADVERTISED})
    text = "KAFKA_ADVERTISED_LISTENERS is not supported on a KRaft controller."
    assert str(refused.value) == text


def test_variables_are_not_read_from_files() -> None:
    assert properties_of({"KAFKA_NODE_ID_FILE": "/run/id"}) == {"node.id.file": "/run/id"}
