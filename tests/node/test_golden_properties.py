"""The server.properties of the nodes of real Kafka that wrote the golden set, read unchanged."""

import json
from pathlib import Path

import pytest

from node.configs.config import node_config
from node.configs.properties import format_properties, parse_properties
from node.errors import ConfigError
from node.process import key_warnings

GOLDEN = Path(__file__).parent.parent / "golden" / "node" / "server_properties.jsonl"
FILES = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
SASL = "listener SASL uses SASL_PLAINTEXT, and only PLAINTEXT is supported"
REFUSED = {("static-3.9.1", "n101"): SASL, ("static-4.3.1", "n101"): SASL}


def name(file: dict[str, str]) -> str:
    return f"{file['scenario']}-{file['node']}"


def refusal(file: dict[str, str]) -> str | None:
    return REFUSED.get((file["scenario"], file["node"]))


def test_all_six_scenarios_are_here() -> None:
    assert len(FILES) == 22
    assert len({file["scenario"] for file in FILES}) == 6


@pytest.mark.parametrize("file", FILES, ids=name)
def test_the_text_survives(file: dict[str, str]) -> None:
    properties = parse_properties(file["text"])
    assert parse_properties(format_properties(properties)) == properties
    assert list(properties) == list(
        dict.fromkeys(line.partition("=")[0] for line in file["text"].splitlines())
    ), "every line is a key; one that comes twice has its last value"


@pytest.mark.parametrize("file", [f for f in FILES if refusal(f) is None], ids=name)
def test_a_node_takes_kafka_s_file(file: dict[str, str]) -> None:
    given = parse_properties(file["text"])
    config = node_config(given)
    assert config.node_id == int(given["node.id"]) == int(file["node"].removeprefix("n"))
    assert config.is_broker == ("broker" in given["process.roles"])
    assert {line.event for line in key_warnings(config.unknown_keys)} <= {
        "configuration_without_effect"
    }


@pytest.mark.parametrize("file", [f for f in FILES if refusal(f) is not None], ids=name)
def test_what_is_not_served_is_refused_with_its_reason(file: dict[str, str]) -> None:
    reason = refusal(file)
    assert reason is not None
    with pytest.raises(ConfigError) as refused:
        node_config(parse_properties(file["text"]))
    assert reason in str(refused.value)
