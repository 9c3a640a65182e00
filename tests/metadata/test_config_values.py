"""Values of configs against what Kafka 4.3.1's own ConfigDef says: one config per kind of limit.

The golden file holds, by resource and config, the answers of ConfigDef to 50 values: the value as
Kafka writes it back, or its error text.
"""

import gzip
import json
from pathlib import Path

import pytest

from metadata.config_schema import (
    ConfigType,
    broker_configs,
    broker_quota_configs,
    client_metrics_configs,
    definitions_of,
    group_configs,
    topic_configs,
)
from metadata.config_values import parse_value, value_text, whole_number

GOLDEN = Path(__file__).parent.parent / "golden" / "metadata" / "config_values.json.gz"
SAMPLES = json.loads(gzip.decompress(GOLDEN.read_bytes()))
KINDS = {
    "topic": topic_configs(),
    "broker": broker_configs(),
    "group": group_configs(),
    "client_metrics": client_metrics_configs(),
}
CONFIGS = [(kind, name) for kind, configs in SAMPLES.items() for name in configs]


@pytest.mark.parametrize(("kind", "name"), CONFIGS)
def test_values_are_read_and_refused_as_kafka_does(kind, name):
    definition = KINDS[kind][name]
    found = {}
    for text in SAMPLES[kind][name]:
        value, error = parse_value(definition, text)
        if definition.type is ConfigType.PASSWORD and error is None:
            found[text] = {"value": "[hidden]"}
        else:
            found[text] = {"value": value_text(value)} if error is None else {"error": error}
    assert found == SAMPLES[kind][name]


def test_every_default_keeps_its_own_rule():
    for definitions in KINDS.values():
        for definition in definitions.values():
            if definition.default is not None:
                value, error = parse_value(definition, definition.default)
                assert error is None, definition.name
                assert value_text(value) == definition.default


@pytest.mark.parametrize(
    ("level", "is_taken"), [(-2, False), (-1, True), (0, False), (1, True), (9, True), (10, False)]
)
def test_levels_of_gzip(level, is_taken):
    _, error = parse_value(KINDS["topic"]["compression.gzip.level"], str(level))
    assert (error is None) is is_taken


def test_how_many_configs_there_are():
    assert {kind: len(definitions) for kind, definitions in KINDS.items()} == {
        "topic": 34,
        "broker": 360,
        "group": 17,
        "client_metrics": 3,
    }
    dynamic = [d for d in (broker_configs() | broker_quota_configs()).values() if d.update_mode]
    assert len(dynamic) == 102


def test_synonyms_are_broker_configs():
    brokers = broker_configs()
    for definitions in (topic_configs(), group_configs()):
        for definition in definitions.values():
            assert all(synonym.name in brokers for synonym in definition.synonyms)


def test_every_resource_type_with_configs_has_definitions():
    assert [t for t in range(64) if definitions_of(t)] == [2, 4, 16, 32]


@pytest.mark.parametrize(("text", "number"), [
    ("0", 0), ("+7", 7), ("-7", -7), ("-0", 0), ("007", 7), ("0" * 6000 + "1", 1), ("000", 0),
    ("9" * 19, 10**19 - 1), ("9" * 20, None), ("9" * 5000, None), ("-" + "9" * 5000, None),
    ("", None), ("-", None), ("1_0", None), (" 1", None), ("1.0", None), ("0x1", None),
    ("\u0661\u0662", 12),
])  # fmt: skip
def test_whole_numbers_are_those_of_java(text, number):
    """`int` takes blanks and underscores, and raises for more than 4300 digits."""
    assert whole_number(text) == number


@pytest.mark.parametrize("configs", [*KINDS.values(), broker_quota_configs()])
@pytest.mark.parametrize("text", ["9" * 5000, "-" + "9" * 5000, "1e" + "9" * 5000, "x" * 100_000])
def test_a_huge_value_is_a_value_or_a_refusal(configs, text):
    for definition in configs.values():
        value, error = parse_value(definition, text)
        assert (value is not None) or error
        if definition.type in (ConfigType.SHORT, ConfigType.INT, ConfigType.LONG):
            assert "Not a number of type" in error


@pytest.mark.parametrize(
    ("config", "text", "is_valid"),
    [
        ("min.cleanable.dirty.ratio", "1" * 200_000 + "x", False),
        ("cleanup.policy", "delete" + " " * 500_000 + ", compact", True),
        ("cleanup.policy", "delete" + " " * 500_000 + "x", False),
    ],
    ids=["digits", "list", "blanks"],
)
def test_the_time_of_a_check_is_linear(config, text, is_valid):
    """A controller answers nothing else meanwhile: 32,000 digits took 40 seconds."""
    _, error = parse_value(topic_configs()[config], text)
    assert (error is None) is is_valid


def test_a_list_has_javas_blanks_around_its_commas():
    value, _ = parse_value(
        topic_configs()["leader.replication.throttled.replicas"], "a \t,\n b,\u2003c"
    )
    assert value == ["a", "b", "\u2003c"]
