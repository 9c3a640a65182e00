"""Every property in every wrong form: one clear line that names the key, or a value that holds.

The keys are those that the node declares and those of Kafka's own schema, so a new one is walked
without a change here.
"""

import pytest

from kernel.config import NodeConfig
from metadata.config_schema import broker_configs
from metadata.config_values import parse_value
from node.configs.config import ConfigError, node_config
from node.configs.config_keys import ACTED_ON, FLAGS, NUMBERS, STATIC_DEFAULTS, Flag, Whole
from tests.node.configs.test_config import COMBINED

KEYS = sorted(ACTED_ON | set(broker_configs()))
TEXTS = {
    "empty": "",
    "word": "x",
    "list": "x,y,,z",
    "negative": "-1",
    "zero": "0",
    "fraction": "1.5",
    "huge number": "9" * 50,
    "other digits": "\u0661\u0662",
    "lines": "x\ny\r\u2028z",
    "nul": "x\x00y",
    "long": "x" * 100_000,
    "address": "h:1:2:3://@",
    "not a character": "\ud800",
}
LINE_CHARACTERS_MAX = 500


def refusal_of(key: str, text: str) -> str | None:
    """Error line for a value, None if it is accepted; any other outcome fails."""
    try:
        config = node_config({**COMBINED, key: text})
    except ConfigError as error:
        return str(error)
    assert isinstance(config, NodeConfig)
    return None


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_refusal_is_one_line_that_names_the_key(text: str) -> None:
    for key in KEYS:
        said = refusal_of(key, text)
        if said is not None:
            assert len(said.splitlines()) == 1, key
            assert said.isprintable(), (key, said)
            assert len(said) <= LINE_CHARACTERS_MAX, key
            assert key in said or key.replace(".", " ") in said, (key, said)


def test_what_is_no_text_is_refused_wherever_it_stands() -> None:
    for key in KEYS:
        expected = f"Invalid value \\ud800 for configuration {key}: not UTF-8"
        assert refusal_of(key, "\ud800") == expected


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.key)
def test_numbers_out_of_range_and_other_things_are_refused(number: Whole) -> None:
    key, minimum, maximum = number.key, number.minimum, number.maximum
    for text in ("", " ", "x", "1.5", "1e3", "0x10", "1 2", "9" * 50, "true", "\u0661"):
        assert "Not a number of type" in str(refusal_of(key, text)), (key, text)
    assert (
        f"must be at least {minimum}" in str(refusal_of(key, str(minimum - 1))) or minimum < -9e18
    )
    too_large = str(refusal_of(key, str(maximum + 1)))
    assert f"must be no more than {maximum}" in too_large


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.key)
def test_flags_are_true_or_false(flag: Flag) -> None:
    for text in ("", "yes", "1", "truee", "true,false", "t" * 1000):
        assert "either true or false" in str(refusal_of(flag.key, text)), (flag.key, text)


def test_what_only_kafka_uses_is_checked_as_kafka_does() -> None:
    """A file that Kafka would not start with does not start a node either."""
    checked = 0
    for key, definition in broker_configs().items():
        if key in ACTED_ON - STATIC_DEFAULTS:
            continue
        for text in ("x", "-99", "1.5", "9" * 50):
            _, error = parse_value(definition, text)
            assert (refusal_of(key, text) is None) is (error is None), (key, text, error)
            checked += error is not None
    assert checked > 100


def test_an_unknown_key_is_no_refusal() -> None:
    for key in ("nonsense", "x" * 10_000, "a b", "\u00e9"):
        assert node_config({**COMBINED, key: "1"}).unknown_keys == (key,)
