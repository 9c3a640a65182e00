import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.configs.properties import PropertiesError, format_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("# comment\n  ! another\n\n", {}),
        ("a=1\nb:2\nc 3\n", {"a": "1", "b": "2", "c": "3"}),
        ("a = 1 \nb\t:\t2", {"a": "1 ", "b": "2"}),
        ("a==1\nb=:2", {"a": "=1", "b": ":2"}),
        ("a=1,\\\n   2,\\\r\n\t3", {"a": "1,2,3"}),
        ("a=x\\\\\nb=2", {"a": "x\\", "b": "2"}),
        ("a=1\\\n# no comment here", {"a": "1# no comment here"}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("a=\\t\\n\\u0041\\q", {"a": "\t\nAq"}),
        ("a=\\ud83d\\ude00 \\u00e9", {"a": "\U0001f600 \u00e9"}),
        ("\\ud83d\\ude00=\U0001f600", {"\U0001f600": "\U0001f600"}),
        ("a=1\na=2", {"a": "2"}),
        ("key", {"key": ""}),
        ("a=1\\", {"a": "1"}),
        ("a=b\x85c", {"a": "b\x85c"}),
    ],
)
def test_parse(text, expected):
    assert parse_properties(text) == expected


def test_half_unicode_escape_is_an_error():
    with pytest.raises(PropertiesError, match=r"^a\.b: malformed \\uxxxx"):
        parse_properties("a.b=\\u00g1")


def test_of_a_long_key_80_characters_are_shown():
    for length in (79, 80, 81):
        with pytest.raises(PropertiesError) as refused:
            parse_properties(f"{'k' * length}=\\u00g1")
        assert str(refused.value).startswith(f"{'k' * min(length, 80)}: malformed")


@pytest.mark.parametrize(
    "text", ["\\ud800", "x\\udfffy", "\\ude00\\ud83d", "\\ud83d\\ud83d\\ude00"]
)
def test_half_of_a_pair_is_an_error_that_names_the_key(text):
    with pytest.raises(PropertiesError, match=r"^log.dirs: \\u\w{4} is half of a pair"):
        parse_properties(f"a=1\nlog.dirs = {text}\n")
    with pytest.raises(PropertiesError, match="is half of a pair"):
        parse_properties(f"{text}=1")


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_what_is_written_is_read_back(properties):
    assert parse_properties(format_properties(properties)) == properties
