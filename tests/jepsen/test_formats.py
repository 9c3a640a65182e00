"""Every format of histories, both ways, without loss; what is no history is refused by place."""

import contextlib
import gzip
import math
import random
import re
import tracemalloc
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jepsen.linearizability import Event, Format, HistoryError, parse_history, written_history
from jepsen.linearizability.formats import codecs, edn, files
from jepsen.linearizability.formats.files import format_of, read_history, write_history
from jepsen.linearizability.values import (
    Character,
    Keyword,
    SetValue,
    Symbol,
    Tagged,
    Vector,
    from_plain,
    to_plain,
)
from tests.selection import examples

LOG = """\
INFO  jepsen.util - 0\t:invoke\t:read\tnil
INFO  jepsen.util - 3   :invoke :write  4
2014-05-01 12:00:00 WARN  jepsen.core - something else
INFO  jepsen.util - 0\t:ok\t:read\tnil
INFO  jepsen.util - 1\t:invoke\t:cas\t[4 0]
INFO  jepsen.util - 1\t:fail\t:cas\t[4 0]
INFO  jepsen.util - 2\t:invoke\t:read\tnil
INFO  jepsen.util - 2\t:fail\t:read\t:timed-out
INFO  jepsen.util - :nemesis\t:info\t:kill\t"n1 n2"
INFO  jepsen.util - 3\t:info\t:write\t:timed-out
"""

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.text("abc-*", min_size=1).filter(edn.is_name).map(Keyword)
    | st.text("xyz", min_size=1).map(Symbol)
    | st.characters(min_codepoint=32, exclude_categories=["Cs"]).map(Character)
    | st.decimals(allow_nan=False, allow_infinity=False).map(lambda d: Decimal(format(d, "f")))
    | st.binary(max_size=4)
)
keys = st.text(max_size=4) | st.integers() | st.text("k", min_size=1).map(Keyword)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=3)
        | st.lists(st.integers() | st.text(max_size=3), max_size=3).map(SetValue)
        | st.builds(Tagged, st.sampled_from(["inst", "my/tag"]), inner)
    ),
    max_leaves=8,
)
events = st.builds(
    Event,
    process=st.integers(0, 2**40) | st.just("nemesis"),
    type=st.sampled_from(["invoke", "ok", "fail", "info"]),
    f=st.sampled_from(["read", "read-from", "set-many", "odd name"]),
    value=values,
    index=st.none() | st.integers(0, 2**62),
    time=st.none() | st.integers(0, 2**62),
    error=st.none() | values,
    extra=st.dictionaries(st.sampled_from(["key", "node", "pair", "a b"]), values, max_size=3),
)
SELF_DESCRIBING = (Format.JSONL, Format.MSGPACK, Format.EDN, Format.JSONL)


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(st.lists(events, max_size=4))
def test_nothing_is_lost_from_json_lines_through_msgpack_and_edn_to_json_lines(original):
    first = current = written_history(original, Format.JSONL)
    for kind in SELF_DESCRIBING:
        current = written_history(parse_history(current).events, kind)
        assert not original or format_of(current) is kind
    assert current == first


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(values)
def test_values_survive_edn_and_the_plain_form(value):
    assert_same(edn.loads(edn.dumps(value)), value)
    assert_same(from_plain(to_plain(value)), value)


def assert_same(found, value):
    """Equal and of the same types: 1 and True, a list and a tuple are equal enough to hide loss."""
    assert repr(found) == repr(value)


def test_special_floats():
    for value in (math.inf, -math.inf):
        assert edn.loads(edn.dumps(value)) == value
        assert from_plain(to_plain(value)) == value
    assert math.isnan(edn.loads("##NaN"))
    assert edn.dumps(math.nan) == "##NaN"


def test_edn_forms():
    text = r"""
    ; a comment, and commas are space
    [nil true, false 1 -2N 1.5 2.5M 1e3 "a\tb\u0041\"" \a \newline \u0042 :k :ns/k sym
     (1 2) {:a 1, "b" [2]} #{1 2} #inst "2020" #_ ignored #_ #_ 1 2 [] ##Inf] ; end
    """
    assert edn.loads(text) == [
        None, True, False, 1, -2, 1.5, Decimal("2.5"), 1000.0, 'a\tbA"',
        Character("a"), Character("\n"), Character("B"), Keyword("k"), Keyword("ns/k"),
        Symbol("sym"),
        (1, 2), {Keyword("a"): 1, "b": [2]}, SetValue((1, 2)), Tagged("inst", "2020"), [], math.inf,
    ]  # fmt: skip
    assert edn.loads("{[1 2] 3}") == {Vector((1, 2)): 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1 2", "[ is not closed"),
        ("(1]", "] where ) is due"),
        ("]", "] closes nothing"),
        ("{:a}", "a map has a key without a value"),
        ('"open', "cannot be read"),
        ("1/2", "1/2 is no number"),
        ("12x", "12x is no number"),
        (r"\nope", r"\nope is no character"),
        ("#tag", "nothing stands behind #tag"),
        ("1 2", "2 forms where one is due"),
        ("##Foo", "##Foo is not one of"),
        ("[" * 200, "nested deeper than 100"),
        ("9" * 5000, "a number of 5000 digits"),
    ],
)
def test_text_that_is_no_edn(text, message):
    with pytest.raises(edn.EdnError) as refused:
        edn.loads(text)
    assert message in str(refused.value)


def test_log_lines_of_jepsen():
    history = parse_history(LOG.encode(), "etcd.log")
    read, write, cas, lost_read = history.operations
    assert (read.type, read.output, read.end) == ("ok", None, 2)
    assert (write.type, write.end, write.value) == ("info", None, 4)
    assert (cas.type, cas.output, cas.error) == ("fail", [4, 0], None)
    assert (lost_read.type, lost_read.end, lost_read.error) == ("fail", 6, "timed-out")
    assert history.place(3) == "etcd.log:5"  # the line of another logger counts
    again = parse_history(written_history(history.events, Format.JEPSEN_LOG))
    assert again.events == history.events


def test_log_lines_refuse_what_they_cannot_carry():
    with pytest.raises(HistoryError, match=r"event 0 holds more than process, type, f, value"):
        written_history([Event(process=0, type="invoke", f="read", time=5)], Format.JEPSEN_LOG)


def test_edn_of_a_modern_jepsen():
    text = """\
{:index 0, :time 10, :process 0, :type :invoke, :f :write, :value [7 3]}
{:index 1, :time 11, :process :nemesis, :type :info, :f :start, :value #{"n1"}}
{:index 2, :time 12, :process 0, :type :info, :f :write, :value [7 3], :error [:timeout "x"]}
"""
    history = parse_history(text.encode())
    assert history.events[1].process == "nemesis"
    assert history.events[2].error == [Keyword("timeout"), "x"]
    assert history.operations[0].call == 10
    as_vector = "[" + text + "]"
    assert parse_history(as_vector.encode()).events == history.events


def test_a_key_in_front_of_every_value_splits_the_history():
    text = """\
{:process 0, :type :invoke, :f :cas, :value ["k" [1 2]]}
{:process 0, :type :fail, :f :cas, :value ["k" [1 2]]}
{:process 0, :type :invoke, :f :read, :value ["k2" nil]}
{:process 0, :type :ok, :f :read, :value ["k2" nil]}
"""
    from jepsen.linearizability import check

    result = check(parse_history(text.encode()), "cas-register")
    assert sorted(each.keys for each in result.partitions) == [("k",), ("k2",)]


def test_a_torn_end_is_left_out_and_damage_before_it_is_not():
    events = [Event(process=n, type="invoke", f="read") for n in range(3)]
    for kind, what in ((Format.JSONL, "line"), (Format.EDN, "line"), (Format.MSGPACK, "object")):
        whole = written_history(events, kind)
        torn = parse_history(whole[:-3])
        assert torn.events == tuple(events[:2]), kind
        assert torn.left_out == f"{what} 3 breaks off: left out"
        assert parse_history(whole).left_out is None
    lines = written_history(events, Format.JSONL).split(b"\n")
    damaged = b"\n".join([lines[0], lines[1][:-4], lines[2], b""])
    with pytest.raises(HistoryError, match=r"^run:2: no JSON object"):
        parse_history(damaged, "run")
    lines = written_history(events, Format.EDN).split(b"\n")
    with pytest.raises(HistoryError, match=r"^run:2: \] where \} is due"):
        parse_history(b"\n".join([lines[0], lines[1][:-1] + b"]", lines[2], b""]), "run")


RICH = Event(
    process=7, type="ok", f="read", time=12,
    value=[-1.5, 1e-9, True, None, 'a\\"\u20ac\n', {"k": [{}, []]}, Keyword("x"), Character("\n"),
           Tagged("inst", "x"), math.inf, (1,), SetValue((1, "b")), Decimal("1.5E+7"), "\ud800"],
)  # fmt: skip


@pytest.mark.parametrize("kind", [Format.JSONL, Format.EDN, Format.MSGPACK])
@pytest.mark.parametrize(
    "value", [RICH.value, {"process": {"process": 3}}, [{"index": 1, "process": 2}, "process"]]
)
def test_every_cut_of_the_last_line_is_torn_and_said(kind, value):
    first = Event(process=0, type="invoke", f="read")
    last = msgspec.structs.replace(RICH, value=value)
    whole = written_history([first, last], kind)
    start = len(written_history([first], kind))
    end = len(whole) - (kind is not Format.MSGPACK)  # a last line need not be ended
    for cut in range(start + 1, end):
        history = parse_history(whole[:cut])
        assert history.events == (first,), whole[start:cut]
        assert history.left_out, whole[start:cut]
    assert len(parse_history(whole[:end]).events) == 2


EVENT = '{"process":0,"type":"invoke","f":"read"}'
EDN_EVENT = "{:process 0 :type :invoke :f :read}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"[{EVENT}, {EVENT}]", "run:1: a JSON array is no history: one object per line"),
        (f"[\n{EVENT},\n{EVENT}\n]\n", "run:1: a JSON array is no history: one object per line"),
        ("{this is no history at all", "run:1: { is not closed"),
        ('{"a": nonsense', "run:1: no JSON object: Expecting value"),
        ('{"process":0,"type":"inv', "run:1: no JSON object: "),  # nothing whole stands before it
        (f"{EVENT}\n{EVENT[:-1]}]", "run:2: no JSON object: "),
        (f"{EVENT}\n{EVENT} x", "run:2: no JSON object: Extra data"),
        (f'{EVENT}\n{{"process":nil', "run:2: no JSON object: "),
        (f'{EVENT}\n[{{"process":', "run:2: no JSON object: "),
        (f'{EVENT}\n{{"n":{"9" * 5000}}}', "run:2: no JSON object: a number of 5000 digits"),
        (f"{EDN_EVENT} {{:process 08x}} {EDN_EVENT}", "run:1: 08x is no number"),
        (f"{EDN_EVENT} {{:process 1 :ty", "run:1: { is not closed"),  # no line of its own
        (f"{EDN_EVENT}\n{{:process 1 :value 08x", "run:2: 08x is no number"),
        (f'{EDN_EVENT}\n{{:process 1 :value "\\q', "run:2: cannot be read: "),
        (f"{EDN_EVENT}\n{{:process 1\n :ty", "run:2: { is not closed"),
        (f"[{EDN_EVENT} {{:a \\foo}}]", "run:1: \\foo is no character"),
        (f"{EDN_EVENT}\n{EDN_EVENT} {{", "run:2: { is not closed"),
        ('{"process":"0","type":"ok","f":"x"}\n', "run:1: process '0' is a string; the number"),
        ("{:process 0 :type :ok :f :x 5 6}", "run:1: field name 5 is no string"),
        (
            "{:process 0 :type :ok :f :x :value 1e9999999999999999999M}",
            "run:1: 1e9999999999999999999 ",
        ),
        ('{"value":{"#map":[[{"#decimal":"sNaN"},1]]}}\n', "run:1: #decimal 'sNaN' cannot be read"),
    ],
)
def test_damage_is_no_torn_end(text, message):
    with pytest.raises(HistoryError) as refused:
        parse_history(text.encode(), "run")
    assert str(refused.value).startswith(message)


def test_damage_of_messagepack_that_swallows_events_is_no_torn_end():
    events = [Event(process=n, type="invoke", f="read") for n in range(4)]
    data = written_history(events, Format.MSGPACK)
    cut = len(written_history(events[:1], Format.MSGPACK))
    swallowing = data[:cut] + bytes([data[cut] + 9]) + data[cut + 1 :]  # a map of more fields
    in_bytes = data[:cut] + b"\xc4\xff" + data[cut:]  # 255 bytes, of which the events are some
    for damaged in (swallowing[: 3 * cut], in_bytes):
        with pytest.raises(HistoryError, match="run: object 2: no MessagePack: it goes beyond"):
            parse_history(damaged, "run")


def test_events_as_jepsen_prints_its_records():
    text = "#jepsen.history.Op{:index 0, :type :invoke, :process 0, :f :write, :value 1}\n"
    history = parse_history(text.encode())
    assert history.events == (Event(process=0, type="invoke", f="write", value=1, index=0),)
    assert parse_history(f"[{text}]".encode()).events == history.events


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"hello\n", "run:1: begins with 'hello"),
        (b'{"process":0,"type":"invoke"}\n', "run:1: an event without 'f'"),
        (b'{"process":true,"type":"ok","f":"x"}\n', "run:1: process True is neither"),
        (b'{"process":0,"type":"begin","f":"x"}\n', "run:1: type 'begin' is not one of"),
        (b'{"process":0,"type":"ok","f":5}\n', "run:1: f 5 is not a name"),
        (b'{"process":0,"type":"ok","f":"x","time":1.5}\n', "run:1: time 1.5 is not a whole"),
        (b'{"process":0,"type":"ok","f":"x","value":NaN}\n', "run:1: no JSON object: NaN"),
        (b'{"process":0,"type":"ok","f":"x","value":{"#new":1}}\n', "run:1: #new is not one of"),
        (b'{"process":0}\n[1]\n', "run:1: an event without 'type'"),
        (b'{"process":0,"type":"ok","f":"\xff"}\n', "run:1: not UTF-8"),
        (b"{:process 0 :type :ok}\n", "run:1: an event without 'f'"),
        (b"\x81\xa1a\xc1", "run: object 1: no MessagePack"),
        (b"\x81\xa1a\x01", "run: object 1: an event without 'process'"),
        (b"INFO  jepsen.util - 0 :ok\n", "run:1: not 'PROCESS :TYPE :F VALUE'"),
        (b"INFO  jepsen.util - 0 :ok :read [\n", "run:1: [ is not closed"),
        (b"\x1f\x8bnonsense", "run: cannot be unzipped"),
        (b'{"value":' + b"[" * 5000 + b"\n\n", "run:1: "),
    ],
)
def test_what_is_no_history_is_refused_with_its_place(data, text):
    with pytest.raises(HistoryError) as refused:
        parse_history(data, "run")
    assert str(refused.value).startswith(text)


@given(st.binary(max_size=60))
@settings(max_examples=examples(500), deadline=None, derandomize=True)
def test_any_bytes_are_a_history_or_a_declared_error(data):
    for prefix in (b"", b'{"', b"{:", b"\x82", b"INFO  jepsen.util - "):
        with contextlib.suppress(HistoryError):
            parse_history(prefix + data)


def test_files_may_be_zipped(tmp_path):
    events = (Event(process=0, type="invoke", f="read"),)
    path = tmp_path / "history.edn.gz"
    write_history(path, events, Format.EDN)
    assert gzip.decompress(path.read_bytes()).startswith(b"{:process 0")
    assert read_history(path).events == events


def test_all_members_of_a_zipped_file_are_read_and_a_cut_one_is_refused():
    events = [Event(process=n, type="invoke", f="read") for n in range(2)]
    one, two = (gzip.compress(written_history([event], Format.JSONL)) for event in events)
    assert parse_history(one + two).events == tuple(events)
    assert parse_history(one + two + bytes(512)).events == tuple(events)
    for cut in (one[:-9], one + two[:-1], one + two[:20]):
        with pytest.raises(HistoryError, match="cannot be unzipped: the file ends before its data"):
            parse_history(cut)
    with pytest.raises(HistoryError, match="cannot be unzipped: "):
        parse_history(one + b"behind it")


def test_members_of_every_length_are_read_up_to_a_bound(monkeypatch):
    rng = random.Random(8)
    parts = [rng.randbytes(rng.choice((0, 1, 50, 5_000, 8_150, 8_192, 30_000))) for _ in range(60)]
    events = [
        Event(process=n, type="invoke", f="write", value=part) for n, part in enumerate(parts)
    ]
    members = [gzip.compress(written_history([event], Format.MSGPACK)) for event in events]
    data = b"".join(member + bytes(rng.choice((0, 0, 9_000))) for member in members)
    assert parse_history(data).events == tuple(events)
    monkeypatch.setattr(files, "MEMBERS_MAX", 60)
    assert len(parse_history(data).events) == 60
    monkeypatch.setattr(files, "MEMBERS_MAX", 59)
    with pytest.raises(HistoryError, match=r"^run: more than 59 gzip members$"):
        parse_history(data, "run")


PATTERNS = [edn.TOKEN, edn.BROKEN_OFF, codecs.BLANK, codecs.JSON_ARRAY, codecs.JSON_STRING]


@pytest.mark.parametrize(
    "text", ['"' + "(" * 5_000, '"' + r"\n" * 2_500, ";\n" * 2_500, '[{"' + "(" * 5_000,
             '[{"' + r"\n" * 2_500], ids=["string", "escapes", "comments", "name", "name-escapes"],
)  # fmt: skip
def test_a_pattern_takes_no_memory_for_each_character(text: str) -> None:
    def peak(pattern: re.Pattern[str]) -> int:
        tracemalloc.start()
        try:
            pattern.match(text)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert max(map(peak, PATTERNS)) < 20_000
