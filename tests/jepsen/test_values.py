"""Values of histories: what equals what, and what is kept on the way through a format."""

import itertools
from decimal import Decimal

import pytest

from jepsen.linearizability import ILLEGAL, OK, check, parse_history
from jepsen.linearizability.formats import edn
from jepsen.linearizability.values import (
    Keyword,
    Symbol,
    Tagged,
    from_plain,
    frozen,
    thawed,
    to_plain,
)

DIFFERENT = (
    "nil", "false", "0", "0.0", "0M", "true", "1", "1.0", "1M", '"1"', '"nil"', '"a"', ":a", "a",
    "\\a", "##NaN", "[]", "#{}", "{}", "[1]", "[true]", "[1.0]", "#{1}", "#{true}", "{1 2}",
    "{1.0 2}", "#{[1 2]}", "{:a 1}", '{"a" 1}', '#x "a"', "#x :a", '#bytes "61"',
)  # fmt: skip


def held(text):
    return frozen(edn.loads(text))


def test_values_that_the_histories_tell_apart():
    for one, other in itertools.combinations(DIFFERENT, 2):
        assert held(one) != held(other), (one, other)
        assert len({held(one), held(other)}) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *((text, text) for text in DIFFERENT),
        ("[1 2]", "(1 2)"),
        ("#{1 2}", "#{2 1}"),
        ("{:a 1 :b [2]}", "{:b (2) :a 1}"),
        ("1", "1N"),
        ("{:a 1 :a 2}", "{:a 2}"),
    ],
)
def test_values_that_are_equal(one, other):
    assert held(one) == held(other)
    assert hash(held(one)) == hash(held(other))


@pytest.mark.parametrize("text", DIFFERENT)
def test_a_frozen_value_has_a_plain_form(text):
    assert frozen(from_plain(to_plain(thawed(held(text))))) == held(text)


@pytest.mark.parametrize("text", ["{1 :a, true :b, 1.0 :c}", '{:a 1, "a" [2]}', "#{1 true}"])
def test_no_key_is_lost_on_the_way_through_a_format(text):
    value = edn.loads(text)
    assert edn.dumps(value) == text
    again = from_plain(to_plain(value))
    assert edn.dumps(again) == text


@pytest.mark.parametrize(
    "plain",
    [
        {"#char": "\U0001f600"},
        {"#char": "\u00e9"},
        {"#keyword": "1"},
        {"#keyword": "\u00e9t\u00e9"},
        {"#keyword": "a@b"},
        {"#keyword": "a/b/c"},
        {"#symbol": "-"},
        {"#symbol": "+a"},
        {"#symbol": "a@b"},
        {"#tag": "bytes", "#value": "no bytes"},
        {"#tag": "bytes", "#value": {"#bytes": "00"}},
        {"#decimal": "-0"},
        {"#decimal": "1E+3"},
        {"#decimal": "1" * 4000},
        {"#map": [[[1], {"#map": [[1, 2]]}]]},
        10**3999,
        "\ud800",
        "\U0001f600",
    ],
)
def test_odd_values_are_the_same_behind_edn(plain):
    value = from_plain(plain)
    again = edn.loads(edn.dumps(value))
    assert (type(again), repr(again)) == (type(value), repr(value))
    assert repr(from_plain(to_plain(again))) == repr(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Symbol("-1"), "'-1' is no symbol in EDN"),
        (Symbol("nil"), "'nil' is no symbol in EDN"),
        (Symbol("a b"), "'a b' is no symbol in EDN"),
        (Keyword(""), "'' is no keyword in EDN"),
        (Keyword("\ud800"), "is no keyword in EDN"),
        (Tagged("a b", 1), "tag 'a b' before 1 is not kept by EDN"),
        (Tagged("bytes", "00"), "tag 'bytes' before '00' is not kept by EDN"),
        (Decimal("NaN"), "the decimal NaN is not finite"),
        (Decimal("-Infinity"), "the decimal -Infinity is not finite"),
        (10**4000, "a number of 4001 digits, more than 4000"),
    ],
)
def test_what_edn_would_change_is_refused(value, text):
    with pytest.raises(ValueError, match=text):
        edn.dumps(value)


@pytest.mark.parametrize(
    ("plain", "text"),
    [
        ({"#decimal": "NaN"}, "'NaN' cannot be read: the decimal NaN is not finite"),
        ({"#map": [[{"#decimal": "sNaN"}, 1]]}, "the decimal sNaN is not finite"),
        ({"#decimal": "1e9999999999999999999"}, "is no decimal number, or one of too large an"),
        ({"#decimal": "x"}, "x is no decimal number"),
        ({"#decimal": "1" * 4001}, r"'1{40}\.\.\.' cannot be read: a number of 4001 digits"),
        ({"#int": "1" * 4001}, "a number of 4001 digits, more than 4000"),
    ],
)
def test_numbers_that_no_format_holds_are_refused(plain, text):
    with pytest.raises(ValueError, match=text):
        from_plain(plain)


def test_maps_of_any_keys_may_be_nested_as_deep_as_others():
    value = 1
    for _ in range(100):
        value = {1: value}
    assert from_plain(to_plain(value)) == value
    with pytest.raises(ValueError, match="nested deeper than 100"):
        to_plain({1: value})


def test_two_escapes_of_one_character():
    assert edn.loads(r'"\ud83d\ude00"') == "\U0001f600"
    assert edn.loads(r'"\ude00\ud83d"') == "\ude00\ud83d"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("true", "true"), ("1.0", "1.0"), (":a", ":a"), ("\\a", "\\a"), ("1M", "1M"),
        ("{:a true}", "{:a: true}"), ("[1 :a]", "(1, :a)"), ("##NaN", "NaN"),
    ],
)  # fmt: skip
def test_how_a_counterexample_shows_them(value, shown):
    assert str(held(value)) == shown


def jsonl(*lines):
    return "".join(f"{line}\n" for line in lines).encode()


def written_then_read_json(written, read, *, written_key="", read_key=""):
    return jsonl(
        f'{{"process":0,"type":"invoke","f":"write","value":{written}{written_key}}}',
        f'{{"process":0,"type":"ok","f":"write","value":{written}{written_key}}}',
        f'{{"process":0,"type":"invoke","f":"read","value":null{read_key}}}',
        f'{{"process":0,"type":"ok","f":"read","value":{read}{read_key}}}',
    )


def written_then_read_edn(written, read):
    return jsonl(
        f"{{:process 0, :type :invoke, :f :write, :value {written}}}",
        f"{{:process 0, :type :ok, :f :write, :value {written}}}",
        "{:process 0, :type :invoke, :f :read, :value nil}",
        f"{{:process 0, :type :ok, :f :read, :value {read}}}",
    )


@pytest.mark.parametrize("model", ["register", "cas-register"])
@pytest.mark.parametrize(
    ("data", "verdict"),
    [
        (written_then_read_json("true", "1"), ILLEGAL),
        (written_then_read_json("true", "true"), OK),
        (written_then_read_json("0", "false"), ILLEGAL),
        (written_then_read_json("1", "1.0"), ILLEGAL),
        (written_then_read_json("[1]", "[true]"), ILLEGAL),
        (written_then_read_json('{"a":1}', '{"a":true}'), ILLEGAL),
        (written_then_read_json('"a"', '{"#keyword":"a"}'), ILLEGAL),
        (written_then_read_edn("1", "1.0"), ILLEGAL),
        (written_then_read_edn('"a"', ":a"), ILLEGAL),
        (written_then_read_edn(":a", ":a"), OK),
        (written_then_read_edn("##NaN", "##NaN"), OK),
        # nil is what a register tells while it is absent, and only that
        (written_then_read_edn("nil", "nil"), OK),
        (written_then_read_edn("false", "nil"), ILLEGAL),
        (written_then_read_edn('"nil"', "nil"), ILLEGAL),
        (written_then_read_edn("[]", "nil"), ILLEGAL),
        # keys that Python takes for one
        (written_then_read_json(5, "null", written_key=',"key":true', read_key=',"key":1'), OK),
        (written_then_read_json(5, "null", written_key=',"key":1', read_key=',"key":1.0'), OK),
        (written_then_read_json(5, "null", written_key=',"key":1', read_key=',"key":1'), ILLEGAL),
        # a key that is nil is none
        (written_then_read_json(5, "null", read_key=',"key":null'), ILLEGAL),
        (written_then_read_json(5, "null", read_key=',"key":false'), OK),
    ],
)
def test_registers_tell_types_apart(model, data, verdict):
    history = parse_history(data)
    assert check(history, model, clock=None).verdict == verdict
    assert check(history, model, clock=None, split=False, prune=False).verdict == verdict


def test_a_set_or_a_map_is_no_pair_of_key_and_value():
    history = parse_history(written_then_read_edn("#{1 2}", "#{2 1}"))
    assert check(history, "register", clock=None).verdict == OK
    history = parse_history(written_then_read_edn("#{1 2}", "#{1 3}"))
    assert check(history, "register", clock=None).verdict == ILLEGAL


def test_decimals_that_are_no_numbers_equal_themselves():
    assert frozen(Decimal("sNaN")) == frozen(Decimal("sNaN"))
    assert frozen(Decimal("sNaN")) != frozen(Decimal("NaN"))
