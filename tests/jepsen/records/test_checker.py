"""Final reads against what was acknowledged: every mutated history is refused."""

import pytest

from jepsen.linearizability import HistoryError, check
from jepsen.records.checker import FINDINGS_SHOWN, check_records, findings
from tests.jepsen.records.histories import KEY, Made, changed, good


def found(history, *, is_idempotent=True):
    return [
        (each.kind, each.value, each.offset, each.epoch)
        for each in findings(history, is_idempotent=is_idempotent)
    ]


def kinds(history, **words):
    return {kind for kind, *_ in found(history, **words)}


def without(value):
    return lambda values: [each for each in values if each != value]


def test_a_good_history_is_valid_by_both_checkers():
    assert check_records(good().history(), is_idempotent=True)[0].verdict == "valid"
    assert check_records(good().history(), is_idempotent=False)[0].verdict == "valid"
    assert check(good().history(), "append-log").verdict == "ok"


def test_one_acknowledged_value_removed():
    history = changed(good(), lambda values: values[:5])
    assert found(history) == [("lost", 5, 5, 2)]
    (finding,) = findings(history, is_idempotent=True)
    told = "log-a-0: value 5 acknowledged at offset 5 in epoch 2"
    assert finding.partition == KEY
    assert finding.text == f"{told}, is not there: the log ends at 5 at node 1"
    assert found(history, is_idempotent=False) == [("lost", 5, 5, 2)]


def test_a_value_removed_in_the_middle_moves_the_rest():
    history = changed(good(), without(2))
    assert found(history)[:3] == [("lost", 2, 2, 1), ("moved", 3, 3, 1), ("moved", 4, 4, 2)]
    first = findings(history, is_idempotent=True)[0]
    assert "offset 2 has value 3 of epoch 1 at node 1" in first.text


def test_a_value_removed_at_one_node_alone():
    history = changed(good(), lambda values: values[:5], node=2)
    assert found(history) == [("lost", 5, 5, 2), ("nodes differ", None, 5, 2)]
    texts = [each.text for each in findings(history, is_idempotent=True)]
    assert "the log ends at 5 at node 2" in texts[0]
    assert "value 5 of epoch 2 at node 1 and None of epoch None at node 2" in texts[1]


def test_one_value_duplicated():
    history = changed(good(), lambda values: [*values, 3])
    assert found(history) == [("duplicated", 3, 6, 2)]
    assert "is at the offsets 3, 6 at node 1" in findings(history, is_idempotent=True)[0].text
    assert found(history, is_idempotent=False) == [], "at least once"


def test_two_values_swapped():
    def swap(values):
        values[1], values[2] = values[2], values[1]
        return values

    assert found(changed(good(), swap))[:3] == [
        ("moved", 1, 1, 1),
        ("moved", 2, 2, 1),
        ("unsettled", 1, 1, 1),
    ]
    assert check(changed(good(), swap), "append-log").verdict == "illegal"


def test_a_value_that_nobody_wrote():
    for value in (77, "3 bytes: 787878", 100):  # 100 belongs to another partition
        history = changed(good(), lambda values, value=value: [*values, value])
        assert found(history) == [("never written", value, 6, 2)]


def test_a_value_whose_append_certainly_failed():
    made = good()
    made.events = made.events[:-8]
    made.end(made.call(3, "append", 6), "fail", 6, "refused: not_enough_replicas")
    made.read(range(6))
    assert found(made.history()) == []
    made.read([*range(6), 6])
    assert ("refused", 6, 6, 1) in found(made.history())


@pytest.mark.parametrize("kind", ["info", None])
def test_an_append_of_unknown_outcome_may_be_there_or_not(kind):
    made = good()
    made.events = made.events[:-8]
    at = made.call(3, "append", 6)
    if kind:
        made.end(at, kind, 6, "timeout")
    made.read(range(6))
    assert found(made.history()) == []
    made.events[-1] = made.events[-1].__class__(
        process=99, type="ok", f="read", value=[*range(7)], extra=made.events[-1].extra,
        time=made.events[-1].time,
    )  # fmt: skip
    assert found(made.history()) == []


def test_a_duplicate_is_acknowledged_without_its_offset():
    made = Made()
    made.append(0, 0, None)
    made.read([0])
    assert found(made.history()) == []
    assert found(changed(made, lambda _: [])) == [("lost", 0, None, 1)]


def test_appends_one_after_the_other_stand_in_that_order():
    made = Made()
    made.end(made.call(0, "append", 0), "info", 0, "timeout")
    made.append(1, 1, 1)
    made.append(2, 2, 2)
    made.end(made.call(3, "append", 3), "info", 3, "timeout")
    made.read([0, 1, 2, 3])
    assert found(made.history()) == []
    late = changed(made, lambda _: [3, 1, 2, 0])
    assert found(late) == [("out of order", 3, 0, 1)], "0 may have been appended last, 3 not first"
    assert "stands before value 1, acknowledged at offset 1 in epoch 1 before its append" in (
        findings(late, is_idempotent=True)[0].text
    )


def test_concurrent_appends_stand_in_any_order():
    made = Made()
    first, second = made.call(0, "append", 0), made.call(1, "append", 1)
    made.end(first, "ok", [0, 1], epoch=1)
    made.end(second, "ok", [1, 0], epoch=1)
    made.read([1, 0])
    assert found(made.history()) == []


def test_an_offset_without_a_record():
    made = Made()
    made.append(0, 0, 0)
    made.append(0, 1, 2)
    made.read([0, 1], offsets=[0, 2])
    assert found(made.history()) == [("gap", None, 1, None)]
    begins_late = Made()
    begins_late.append(0, 0, 1)
    begins_late.read([0], offsets=[1], epochs=[(1, 1)])
    assert found(begins_late.history()) == [("gap", None, 0, None)]


def test_a_leader_epoch_that_falls():
    made = Made()
    made.append(0, 0, 0, epoch=2)
    made.append(0, 1, 1, epoch=1)
    made.read([0, 1], epochs=[(0, 2), (1, 1)])
    assert found(made.history()) == [("epoch", 1, 1, 1)]


def test_what_a_consumer_was_given_stays():
    other = changed(good(), lambda values: [values[0], 9, values[2]], f="fetch", node=2)
    assert found(other) == [("unsettled", 9, 3, 1)]
    beyond = changed(good(), lambda values: [*values, 5, 9], f="fetch", node=2)
    assert found(beyond) == [("unsettled", 9, 6, 2)]
    text = findings(beyond, is_idempotent=True)[0].text
    assert "was given at offset 6 of epoch 2 at node 2, at the end the log ends at 6" in text


def test_a_sequence_that_is_refused():
    made = Made()
    made.append(0, 0, 0)
    reason = "refused: out_of_order_sequence_number, attempt 1"
    made.end(made.call(0, "append", 1), "fail", 1, reason)
    made.read([0])
    assert found(made.history()) == [("sequence", 1, None, None)]
    assert found(made.history(), is_idempotent=False) == []


def test_partitions_that_were_not_read_are_not_judged():
    made = Made()
    made.append(0, 0, 0)
    made.end(made.call(9, "read", None, node=1), "fail", None, "timeout")
    assert found(made.history()) == []


def test_the_check_counts_and_shows_some():
    made = Made()
    for value in range(FINDINGS_SHOWN + 5):
        made.append(0, value, value)
    made.read([77])
    check_, shown = check_records(made.history(), is_idempotent=True)
    assert check_.verdict == "invalid"
    assert check_.reason.startswith("25 lost, 1 never written; first: log-a-0: value 0 ack")
    assert len(shown) == FINDINGS_SHOWN
    assert shown[1] == {
        "kind": "lost", "partition": KEY, "value": 1, "offset": 1, "epoch": 1,
        "text": "log-a-0: value 1 acknowledged at offset 1 in epoch 1, is not there: the log ends "
        "at 1 at node 1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("f", "value", "told", "extra", "said"),
    [
        ("create", 1, 1, {}, "operation 'create' is not one of append-log: append, fetch, read"),
        ("append", "x", "x", {}, "value of append is 'x', not a whole number"),
        ("append", 1, 1, {}, "append of 1 gave 1"),
        ("append", 1, [2, 0], {}, "append of 1 gave [2, 0]"),
        ("append", 1, [1, "a"], {}, "offset of append is 'a'"),
        ("append", 1, [1, 0], {"key": 5}, "append has no key"),
        ("fetch", None, [], {}, "fetch from None gave []"),
        ("read", None, 5, {}, "read from 0 gave 5"),
        ("read", None, [1], {"offsets": []}, "1 records of read at []"),
        ("read", None, [1], {"offsets": ["a"]}, "1 records of read at ['a']"),
        ("read", None, [1], {"offsets": 7}, "offsets or epochs of read are no numbers"),
        ("read", None, [1], {"epochs": [[1]]}, "offsets or epochs of read are no numbers"),
    ],
)
def test_what_is_no_history(f, value, told, extra, said):
    made = Made()
    made.end(made.call(0, f, value, **extra), "ok", told, **extra)
    with pytest.raises(HistoryError, match="history:1: ") as refused:
        findings(made.history(), is_idempotent=True)
    assert said in str(refused.value)


def test_a_value_is_appended_once():
    made = Made()
    made.append(0, 1, 0)
    made.append(0, 1, 1)
    with pytest.raises(HistoryError, match="value 1 is appended twice"):
        findings(made.history(), is_idempotent=True)
