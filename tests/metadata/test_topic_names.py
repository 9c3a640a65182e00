"""The rule about topic names, with the texts of Kafka 4.3.1's CreateTopics."""

import pytest

from broker_publisher.partition_view import missing_topic_error
from metadata.topic_names import illegal_topic_name
from wire.errors import ErrorCode

CHARACTERS = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
LENGTH = "is longer than the max allowed length 249"
ASTRAL = "\U0001f600"
"""Two UTF-16 units."""
PRIVATE = "\ue000"
"""One unit, three bytes in UTF-8."""


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "a..b", "b" * 249])
def test_legal(name):
    assert illegal_topic_name(name) is None
    assert missing_topic_error(name) is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a b", f"'a b' {CHARACTERS}"),
        ("a\n", f"'a\n' {CHARACTERS}"),
        ("\u00e9", f"'\u00e9' {CHARACTERS}"),
        ("b" * 250, f"the length of '{'b' * 250}' {LENGTH}"),
        (ASTRAL * 124, f"'{ASTRAL * 124}' {CHARACTERS}"),
        (ASTRAL * 125, f"the length of '{ASTRAL * 125}' {LENGTH}"),
        (PRIVATE * 249, f"'{PRIVATE * 249}' {CHARACTERS}"),
    ],
)
def test_illegal(name, reason):
    assert illegal_topic_name(name) == reason
    assert missing_topic_error(name) is ErrorCode.invalid_topic_exception
