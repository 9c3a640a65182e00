"""Configuration by environment, as the apache/kafka image takes it."""

import pytest

from node.configs.config import node_config
from node.configs.environment import DEFAULTS, effective, properties_of, property_key


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("KAFKA_NODE_ID", "node.id"),
        ("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "listener.security.protocol.map"),
        ("KAFKA_A__B", "a_b"),
        ("KAFKA_A___B_C", "a-b.c"),
        ("KAFKA_LOG_DIRS", "log.dirs"),
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
