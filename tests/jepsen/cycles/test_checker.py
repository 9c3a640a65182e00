"""Each anomaly in a history as small as it can be, beside the same history without it."""

import pytest

from jepsen.cycles.checker import judged
from jepsen.cycles.graphs import Edge, Graph
from jepsen.linearizability import HistoryError
from tests.jepsen.cycles.lists import Made


def one(*transactions, finals=()):
    """Kinds of a history of transactions one after the other, each of another process."""
    made = Made()
    for process, words in enumerate(transactions):
        kind = words[-1] if words[-1] in ("fail", "info") else "ok"
        made.txn(process, *(word for word in words if word != kind), kind=kind)
    for key, values in finals:
        made.read(key, values)
    return made.kinds()[0]


def test_nothing_is_wrong():
    made = Made()
    made.txn(0, "a+1", "b+2", offsets=[0, 0])
    made.txn(1, "a=1", "a+3", offsets=[None, 2])
    made.txn(0, "a=13", "b=2")
    made.read("a", "13", offsets=[0, 2])
    made.read("a", "13", node=2, offsets=[0, 2])
    made.read("b", "2", offsets=[0])
    assert made.kinds() == ([], {})
    assert judged(Made().history()).findings == ()


def test_g1a_an_aborted_value_is_read():
    assert one(["a+1", "fail"], ["a="]) == []
    assert one(["a+1", "fail"], ["a=1"]) == ["G1a"]
    assert one(["a+1", "fail"], finals=[("a", "1")]) == ["G1a"]
    assert one(["a+1", "info"], ["a=1"]) == []
    assert one(["a+1", "fail"], ["a=1", "fail"]) == ["G1a"], "readers that abort are readers"


def test_g1a_is_told_once_for_each_value():
    assert one(["a+1", "fail"], ["a=1"], ["a=1"]) == ["G1a"]
    assert one(["a+1", "a+2", "fail"], ["a=12"]) == ["G1a", "G1a"]


@pytest.mark.parametrize(
    ("values", "found"), [("", []), ("1", ["G1b"]), ("12", ["G1b"]), ("123", [])]
)
def test_g1b_a_part_of_a_transaction_is_read(values, found):
    made = Made()
    made.together(["a+1", "a+2", "a+3"], ["b+4"], [f"a={values}"])
    made.read("a", "123")
    assert made.kinds()[0] == found


@pytest.mark.parametrize(("values", "found"), [("1", []), ("12", ["G1b"])])
def test_a_transaction_that_is_open_between_two_values_holds_a_read_back(values, found):
    made = Made()
    made.together(["a+1", "a+3"], ["a+2"], [f"a={values}"])
    made.read("a", "123")
    assert made.kinds()[0] == found


def test_a_transaction_that_reads_a_part_of_its_own_is_no_g1b():
    assert one(["a+1", "a=1", "a+2"], finals=[("a", "12")]) == ["own read"]


def test_own_read():
    assert one(["a+1", "a="]) == []
    assert one(["a+1", "a=1"]) == ["own read"]
    assert one(["a=1", "a+1"]) == ["own read"]
    assert one(["a+1", "b=1"]) == ["never written"], "of another list"


def test_never_written():
    assert one(["a+1"], ["a=12"]) == ["never written"]
    assert one(["a+1"], ["b=1"]) == ["never written"], "it was appended to another list"


def test_duplicated():
    assert one(["a+1"], ["a+2"], finals=[("a", "121")]) == ["duplicated"]


def test_other_order():
    assert one(["a+1", "a+2"], ["a=12"], ["a=21"]) == ["other order"]
    assert one(["a+1", "a+2"], ["a=12"], finals=[("a", "12")]) == []
    found = one(["a+1", "a+2"], ["a=12"], finals=[("a", "1")])
    assert found == ["other order", "lost"], "the end decides"


def test_back_in_time():
    made = Made()
    made.txn(0, "a+1")
    made.txn(1, "a=1")
    made.txn(2, "a=")
    assert made.kinds()[0] == [], "another session"
    made.txn(1, "b=")
    made.txn(1, "a=")
    assert made.kinds()[0] == ["back in time"]


def test_sessions_outlive_processes():
    made = Made()
    made.txn(0, "a+1")
    made.txn(1, "a=1", kind="fail", session=7)
    made.txn(2, "a=", session=8)
    assert made.kinds()[0] == []
    made.txn(3, "a=", session=7)
    assert made.kinds()[0] == ["back in time"]


def test_lost():
    assert one(["a+1"], finals=[("a", "")]) == ["lost"]
    assert one(["a+1"], ["a="]) == [], "it is read in good time"
    assert one(["a+1", "info"], finals=[("a", "")]) == []
    assert one(["a+1", "fail"], finals=[("a", "")]) == []


def test_torn():
    parts = ["a+1", "b+2", "info"]
    assert one(parts, finals=[("a", "1"), ("b", "2")]) == []
    assert one(parts, finals=[("a", ""), ("b", "")]) == []
    assert one(parts, finals=[("a", ""), ("b", "2")]) == ["torn"]
    assert one(parts, ["b="], finals=[("a", "1")]) == [], "nobody knows the end of b"


def test_moved():
    made = Made()
    made.txn(0, "a+1", offsets=[3])
    made.read("a", "1", offsets=[3])
    assert made.kinds()[0] == []
    made.read("a", "1", node=2, offsets=[4])
    assert made.kinds()[0] == ["nodes differ"]
    moved = Made()
    moved.txn(0, "a+1", offsets=[3])
    moved.read("a", "1", offsets=[4])
    assert moved.kinds()[0] == ["moved"]
    silent = Made()
    silent.txn(0, "a+1", offsets=[3])
    silent.read("a", "1")
    assert silent.kinds()[0] == []


def test_one_offset():
    made = Made()
    made.txn(0, "a+1", "b+2", offsets=[3, 3])
    assert made.kinds()[0] == []
    made.txn(1, "a+4", kind="fail", offsets=[3])
    assert made.kinds()[0] == ["one offset"]


def test_out_of_order():
    made = Made()
    made.txn(0, "a+1")
    made.txn(1, "a+2")
    made.read("a", "21")
    assert made.kinds()[0] == ["out of order"]
    together = Made()
    together.together(["a+1"], ["a+2"])
    together.read("a", "21")
    assert together.kinds()[0] == []
    unknown = Made()
    unknown.txn(0, "a+1", kind="info")
    unknown.txn(1, "a+2")
    unknown.read("a", "21")
    assert unknown.kinds()[0] == [], "nobody knows when it was committed"
    far = Made()
    far.txn(0, "a+1")
    at = far.call(1, "a+2")
    far.txn(2, "a+3")
    far.end(at, "ok")
    far.read("a", "321")
    assert far.kinds()[0] == ["out of order"] * 2


def test_equal_times_are_concurrent():
    from msgspec.structs import replace

    from jepsen.linearizability import History

    for words, found in ((("a+1", "a+2"), ["out of order"]), (("a=2", "a+2"), ["G1c-realtime"])):
        made = Made()
        made.txn(0, words[0])
        made.txn(1, words[1])
        if found == ["out of order"]:
            made.read("a", "21")
        assert made.kinds()[0] == found
        made.events[2] = replace(made.events[2], time=made.events[1].time)
        assert judged(History(made.events)).findings == ()


def test_back_to_front():
    made = Made()
    made.txn(0, "a+1", "a+2", offsets=[0, 1])
    made.txn(0, "a+3", offsets=[5])
    made.txn(0, "a+6", offsets=[None])
    made.txn(1, "a+4", offsets=[2])
    assert made.kinds()[0] == []
    made.txn(0, "a+5", offsets=[4])
    assert made.kinds()[0] == ["back to front"]


def test_nodes_differ():
    made = Made()
    made.txn(0, "a+1")
    made.read("a", "1")
    made.read("a", "1", node=2)
    assert made.kinds()[0] == []
    made.read("a", "", node=3)
    assert made.kinds()[0] == ["nodes differ"]


# ---- cycles --------------------------------------------------------------------------------------


def test_g1c_a_cycle_of_reads():
    made = Made()
    made.together(["a+1", "b=2"], ["b+2", "a=1"])
    found = judged(made.history())
    assert [finding.kind for finding in found.findings] == ["G1c"]
    assert found.findings[0].text == "T0 -wr a: 1-> T1 -wr b: 2-> T0"
    assert found.permitted == {}, "it has no ww"
    good = Made()
    good.together(["a+1", "b="], ["b+2", "a=1"])
    assert good.kinds() == ([], {})


def test_g1c_through_a_value_that_is_not_the_last():
    """The writer of every value that is read was committed, whatever stands behind."""
    made = Made()
    made.together(["a+1", "b=2"], ["b+2", "a=13"], ["a+3"])
    assert made.kinds()[0] == ["G1c"]


def test_g1c_of_three():
    made = Made()
    made.together(["a+1", "c=3"], ["b+2", "a=1"], ["c+3", "b=2"])
    text = judged(made.history()).findings[0].text
    assert text == "T0 -wr a: 1-> T1 -wr b: 2-> T2 -wr c: 3-> T0"


def test_an_aborted_reader_is_no_part_of_a_cycle():
    made = Made()
    at = made.call(0, "a+1", "b?")
    made.txn(1, "b+2", "a=")
    made.end(at, "fail", "a+1", "b=2")
    assert made.kinds() == ([], {})


def test_g1c_realtime_what_is_read_before_it_was_there():
    made = Made()
    made.txn(0, "a=1")
    made.txn(1, "a+1")
    found = judged(made.history())
    assert [finding.kind for finding in found.findings] == ["G1c-realtime"]
    assert found.findings[0].text == "T0 -before-> T1 -wr a: 1-> T0"
    good = Made()
    good.together(["a=1"], ["a+1"])
    assert good.kinds()[0] == []


def test_real_time_goes_through_others():
    """T0 ended before T1 began, which ended before T2 began."""
    made = Made()
    made.txn(0, "a=1")
    made.txn(1, "b=")
    made.txn(2, "a+1")
    assert made.kinds()[0] == ["G1c-realtime"]
    beside = Made()
    at = beside.call(1, "b?")
    beside.txn(0, "a=1")
    beside.end(at, "ok", "b=")
    beside.txn(2, "a+1")
    assert beside.kinds()[0] == ["G1c-realtime"], "the last to end was concurrent with the first"
    unknown = Made()
    unknown.txn(0, "a=1", kind="info")
    unknown.txn(2, "a+1")
    assert unknown.kinds()[0] == [], "an end that nobody saw"


def test_g0_is_permitted():
    made = Made()
    made.together(["a+1", "b+2"], ["a+3", "b+4"])
    made.read("a", "13")
    made.read("b", "42")
    assert made.kinds() == ([], {"G0": 1})
    assert made.kinds(frozenset()) == (["G0"], {})
    assert judged(made.history()).examples["G0"] == "T0 -ww a: 1, 3-> T1 -ww b: 4, 2-> T0"
    good = Made()
    good.together(["a+1", "b+2"], ["a+3", "b+4"])
    good.read("a", "13")
    good.read("b", "24")
    assert good.kinds() == ([], {})


def test_g1c_with_writes_is_permitted():
    """T0 appends to a before T1, which commits first; T0 reads what it committed to b."""
    made = Made()
    made.together(["a+1", "b=4"], ["a+3", "b+4"])
    made.read("a", "13")
    assert made.kinds() == ([], {"G1c-ww": 1})
    good = Made()
    good.together(["a+1", "b=4"], ["a+3", "b+4"])
    good.read("a", "31")
    assert good.kinds() == ([], {})


def test_g_single_is_permitted():
    """Of T0's commit one partition is read before the marker, the other after."""
    made = Made()
    made.together(["a+1", "b+2"], ["a=1", "b="])
    made.read("b", "2")
    assert made.kinds() == ([], {"G-single": 1})
    good = Made()
    good.together(["a+1", "b+2"], ["a=", "b="])
    good.read("b", "2")
    assert good.kinds() == ([], {})


def test_g2_is_permitted():
    """Write skew."""
    made = Made()
    made.together(["a=", "b+2"], ["b=", "a+1"])
    made.read("a", "1")
    made.read("b", "2")
    assert made.kinds() == ([], {"G2": 1})
    aborted = Made()
    aborted.together(["a=", "b+2"], ["b=", "a+1"], kind="fail")
    assert aborted.kinds() == ([], {})


def test_paths_are_the_cheapest():
    graph = Graph([Edge(1, 2, "x"), Edge(2, 3, "x"), Edge(1, "u", "y"), Edge("u", "v", "y")])
    graph.add(Edge("v", 3, "y"))
    graph.add(Edge(3, 3, "x"))
    everything = {1, 2, 3, "u", "v"}

    def way(cost):
        return [edge.end for edge in graph.path(1, 3, everything, cost)]

    assert way(lambda _: 1) == [2, 3]
    assert way(lambda node: int(isinstance(node, int))) == ["u", "v", 3]
    assert graph.path(3, 1, everything, lambda _: 1) is None
    assert graph.path(1, 3, {1, 3}, lambda _: 1) is None
    assert graph.cycle(Edge(3, 1, "z"), everything, lambda _: 1)[0].kind == "z"
    assert graph.components() == []


def test_components_of_a_graph():
    graph = Graph(Edge(start, end, "x") for start, end in ((1, 2), (2, 3), (3, 1), (3, 4), (4, 5)))
    graph.add(Edge(5, 4, "x"))
    assert sorted(sorted(component) for component in graph.components()) == [[1, 2, 3], [4, 5]]
    long = Graph(Edge(at, (at + 1) % 5000, "x") for at in range(5000))
    assert [len(component) for component in long.components()] == [5000]


# ---- what is no history of lists -----------------------------------------------------------------


def broken(event, **changes):
    made = Made()
    made.txn(0, "a+1", "b=")
    made.read("a", "1", offsets=[0])
    from msgspec.structs import replace

    made.events[event] = replace(made.events[event], **changes)
    return made.history()


@pytest.mark.parametrize(
    ("event", "changes", "said"),
    [
        (0, {"value": 7}, "no list of micro-operations"),
        (0, {"value": [["append", "a"]]}, "neither"),
        (0, {"value": [["write", "a", 1]]}, "neither"),
        (0, {"value": [["append", "a", 2], ["r", "b", None]]}, "completes with 1"),
        (1, {"value": [["append", "a", 1]]}, "other micro-operations"),
        (1, {"value": [["append", "a", 1], ["r", "b", 3]]}, "no list"),
        (1, {"extra": {"offsets": [1]}}, "offsets"),
        (1, {"extra": {"offsets": [1, "x"]}}, "offsets"),
        (2, {"extra": {}}, "has no key"),
        (3, {"value": 1}, "no list"),
        (3, {"extra": {"offsets": [None]}}, "offsets"),
        (3, {"extra": {"offsets": [1, 2]}}, "offsets"),
    ],
)
def test_other_histories_are_refused(event, changes, said):
    with pytest.raises(HistoryError, match=said):
        judged(broken(event, **changes))


def test_values_are_unique_and_operations_known():
    made = Made()
    made.txn(0, "a+1", "b+1")
    assert made.kinds()[0] == []
    made.txn(0, "a+1")
    with pytest.raises(HistoryError, match="history:3: 1 is appended twice to a"):
        made.kinds()
    other = Made()
    other._event(0, "invoke", "fetch", 0, {})
    with pytest.raises(HistoryError, match="'fetch' is none of lists"):
        other.kinds()


def test_events_without_times_are_in_the_order_of_their_places():
    from msgspec.structs import replace

    from jepsen.linearizability import History

    made = Made()
    made.txn(0, "a=1")
    made.txn(1, "a+1")
    events = [replace(event, time=None, index=None) for event in made.events]
    (finding,) = judged(History(events)).findings
    assert finding.kind == "G1c-realtime"


# ---- texts ---------------------------------------------------------------------------------------


def test_texts_name_places_and_nodes():
    made = Made()
    made.txn(0, "a+1", "a+2", "a+3")
    made.txn(1, "a=132")
    made.read("a", "123", node=2)
    made.read("a", "12", node=3)
    assert [finding.text for finding in judged(made.history()).findings] == [
        "a: value 1 is 2 and 3, read by T1",
        "a: 2 values, a part of T0's, read by T3 at node 3",
        "a: 3 and 2 values, at node 2 and at node 3",
    ]


def test_transactions_that_are_named_are_described():
    made = Made()
    made.txn(0, "a+1", "b+7", kind="fail", offsets=[4, None])
    made.txn(1, "a=1", "b=")
    made.txn(2, "c+1", kind="info", session="thread 2")
    made.txn(5, "c+2", "c=1", kind="ok")
    found = judged(made.history())
    assert found.named == {
        "T0": "fail, 0, 0.000 to 0.000 s: append a 1 at 4; append b 7",
        "T1": "ok, 1, 0.000 to 0.000 s: read a [1]; read b []",
    }
    assert found.findings[0].text.startswith("a: value 1 of T0")
    made.txn(3, "d=1")
    made.read("c", "")
    described = judged(made.history()).named
    assert described["T4"] == "ok, 3, 0.000 to 0.000 s: read d [1]"


def test_long_lists_are_shown_by_their_ends():
    made = Made()
    made.txn(0, *(f"a+{at}" for at in range(1, 10)))
    made.txn(1, "a=123456789", "b=1")
    made.txn(2, "a=12345678", "b=1")
    named = judged(made.history()).named
    assert named["T1"].endswith("read a [..., 2, 3, 4, 5, 6, 7, 8, 9]; read b [1]")
    assert named["T2"].endswith("read a [1, 2, 3, 4, 5, 6, 7, 8]; read b [1]")


def test_a_transaction_without_an_end_is_described():
    made = Made()
    made.txn(0, "b=1", kind="info")
    assert judged(made.history()).named["T0"] == "info, 0, 0.000 to ? s: read b [1]"
