"""Properties of single models, beyond those that the comparison with brute force covers."""

import itertools

import pytest

from jepsen.linearizability import (
    Event,
    History,
    HistoryError,
    Operation,
    check,
    history_of,
    model_named,
)
from jepsen.linearizability.classification import (
    OBSERVATIONS,
    REFUSALS,
    UNKNOWN_OUTCOMES,
    classify,
)
from jepsen.linearizability.id_allocation import Overlap, overlap_in
from metadata.config_schema import RESOURCE_TOPIC
from quorum_controller.configs.alter_configs import APPEND, SUBTRACT, _changed_list


def sequence(*steps):
    """Operations one after the other: (f, value, output) and optional type or error."""
    return [
        Operation(
            process=n, f=f, value=value, output=output, call=10 * n, end=10 * n + 5, **dict(more)
        )
        for n, (f, value, output, *more) in enumerate(steps)
    ]


def lost(f, value, call=0):
    return Operation(process=900 + call, f=f, value=value, call=call, end=None, type="info")


EXISTS = ("error", "TOPIC_ALREADY_EXISTS")
GONE = ("error", "UNKNOWN_TOPIC_OR_PARTITION")


def test_model_names():
    with pytest.raises(ValueError, match="model 'queue' is not one of cas-register, kv"):
        model_named("queue")


@pytest.mark.parametrize(
    ("model", "operation", "text"),
    [
        (
            "register",
            ("cas", [1, 2], [1, 2]),
            "operation 'cas' is not one of register: read, write",
        ),
        ("cas-register", ("cas", 1, 1), "value of cas is 1, not [from to]"),
        ("kv", ("put", 4, 4), "value of put is 4, not a string"),
        ("append-log", ("read", None, 7), "read gave 7, not a list of records"),
        ("append-log", ("append", "a", ["a", -1]), "offset of append is -1"),
        ("config-map", ("set", ["k", 5], None), "config k of set is 5, not a string"),
        ("config-map", ("append", ["k", "a", 5], None), "default of k is 5, not a string"),
        ("config-map", ("append", ["k", None], None), "value of append is nil, not a string"),
        ("config-map", ("append", ["k"], None), "value of append is ['k'], not [key value]"),
        ("config-map", ("set", ["k", "a", "b"], None), "not [key value]"),
        ("config-map", ("set-many", [["k", "a"], ["k", "b"]], None), "names a key twice"),
        ("topic-set", ("create", "t", "t"), "value of create is 't', not [name id]"),
        ("topic-set", ("create", ["t", None], ["t", None]), "create of t succeeded without an id"),
        ("topic-set", ("delete", [None, "u9"], [None, "u9"]), "which no answer gives a name"),
        ("topic-set", ("exists", ["t", None], ["t", "u1"], GONE), "gave the id 'u1' and the error"),
    ],
)
def test_an_operation_of_a_wrong_form_is_named_with_its_place(model, operation, text):
    history = history_of(sequence(operation), source="run.jsonl")
    with pytest.raises(HistoryError) as refused:
        check(history, model)
    assert str(refused.value).startswith("run.jsonl:1: ")
    assert text in str(refused.value)


def test_a_failed_cas_tells_the_state_unless_it_has_an_error():
    refused = ("cas", [1, 2], [1, 2], ("type", "fail"))
    assert check(sequence(("write", 1, 1), refused), "cas-register").verdict == "illegal"
    unsent = (*refused, ("error", "connection refused"))
    assert check(sequence(("write", 1, 1), unsent), "cas-register").verdict == "ok"


def test_the_value_of_a_failure_that_says_why_is_no_answer():
    """Of a call with its key in front; `not-leader` is no other key."""
    why = ("not-leader", 3)
    failed_write = ("write", [1, 5], why, ("type", "fail"))
    look = ("read", [1, None], [1, None])
    for model in ("register", "cas-register"):
        assert check(sequence(failed_write, look), model).verdict == "ok"
    write = ("write", [1, 0], [1, 0])
    for value in (why, [1, why], None):
        failed = ("cas", [1, [0, 2]], value, ("type", "fail"))
        assert check(sequence(write, failed), "cas-register").verdict == "ok"
    refused = ("cas", [1, [0, 2]], [1, [0, 2]], ("type", "fail"))
    assert check(sequence(write, refused), "cas-register").verdict == "illegal"
    unkeyed = sequence(("write", 0, 0), ("cas", [0, 2], why, ("type", "fail")))
    assert check(unkeyed, "cas-register").verdict == "ok"
    with pytest.raises(HistoryError, match="write of key 1 answered for key 2"):
        check(sequence(("write", [1, 5], [2, 5])), "register")


def test_an_id_is_bound_to_a_lost_create_once():
    look = ("exists", ["t", None], ["t", "u1"])
    gone = ("delete", ["t", None], ["t", None])
    create = lost("create", ["t", None])
    assert check([create, *sequence(look)], "topic-set").verdict == "ok"
    assert check([create, *sequence(look, gone, look)], "topic-set").verdict == "illegal"
    another = lost("create", ["t", None], call=1)
    again = [create, another, *sequence(look, gone, look)]
    assert check(again, "topic-set").verdict == "illegal"  # ids never come back
    new_id = ("exists", ["t", None], ["t", "u2"])
    assert check([create, another, *sequence(look, gone, new_id)], "topic-set").verdict == "ok"


def test_an_id_that_a_create_returned_is_not_that_of_a_lost_one():
    steps = sequence(
        ("create", ["t", None], ["t", "u1"]),
        ("delete", ["t", "u1"], ["t", "u1"]),
        ("exists", ["t", None], ["t", "u1"]),
    )
    assert check([lost("create", ["t", None]), *steps], "topic-set").verdict == "illegal"


def test_a_delete_by_another_id_is_refused_and_remembered():
    refused = ("delete", ["t", "u1"], ["t", "u1"], GONE)
    look = ("exists", ["t", None], ["t", "u1"])
    other = ("exists", ["t", None], ["t", "u2"])
    create = sequence(("exists", ["x", None], ["x", None]))  # another name in the history
    base = [lost("create", ["t", None]), *create]
    shifted = [[("exists", ["x", None], ["x", None]), *steps] for steps in (
        [other, refused], [refused, look],
    )]  # fmt: skip
    assert check([base[0], *sequence(*shifted[0])], "topic-set").verdict == "ok"
    # the refusal may come before the lost create happens
    assert check([base[0], *sequence(*shifted[1])], "topic-set").verdict == "ok"
    created = ("create", ["t", None], ["t", None], EXISTS)
    after = sequence(created, refused, look)
    assert check([base[0], *after], "topic-set").verdict == "illegal"


@pytest.mark.parametrize(
    "absent",
    [
        ("exists", ["t", None], ["t", None]),
        ("exists", ["t", None], ["t", None], GONE),
        ("exists", ["t", None], ["t", None], ("error", "UNKNOWN_TOPIC_ID")),
        ("exists", ["t", None], ["t", "UNKNOWN"]),
        ("exists", ["t", None], ["t", None], GONE, ("type", "fail")),
    ],
)
def test_a_topic_that_is_not_there_is_seen_whatever_form_the_answer_has(absent):
    created = ("create", ["t", None], ["t", "u1"])
    assert check(sequence(created, absent), "topic-set").verdict == "illegal"
    assert check(sequence(absent, created), "topic-set").verdict == "ok"


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (
            [("create", ["t", None], ["t", "u1"]), ("create", ["s", None], ["s", "u1"])],
            "id u1 stands in answers for t and for s (history:1, history:3)",
        ),
        (
            [("create", ["t", None], ["t", "u1"]), ("create", ["t", None], ["t", "u1"])],
            "id u1 was given by two creates (history:1, history:3)",
        ),
    ],
)
def test_an_id_given_twice_is_illegal_without_a_search(steps, text):
    result = check(sequence(*steps), "topic-set")
    assert (result.verdict, result.reason, result.steps) == ("illegal", text, 0)


def test_a_list_sees_all_names_at_one_moment():
    """Each name alone is fine, the two lists together saw the creates in different orders."""

    def operation(process, f, value, output, end=9):
        return Operation(process=process, f=f, value=value, output=output, call=0, end=end)

    operations = [
        operation(0, "create", ["s", None], ["s", "u1"]),
        operation(1, "create", ["t", None], ["t", "u2"]),
        operation(2, "list", None, {"s": "u1"}),
        operation(3, "list", None, [["t", "u2"]]),
    ]
    result = check(operations, "topic-set")
    assert result.verdict == "illegal"
    standings = [(each.standing, each.verdict) for each in result.partitions]
    assert sorted(standings) == [("exact", "illegal"), ("necessary", "ok"), ("necessary", "ok")]


def test_lists_of_a_large_history_are_compared_name_by_name(monkeypatch):
    monkeypatch.setattr("jepsen.linearizability.partition.JOINED_OPERATIONS_MAX", 2)
    operations = sequence(
        ("create", ["s", None], ["s", "u1"]),
        ("create", ["t", None], ["t", "u2"]),
        ("list", None, {"s": "u1", "t": "u2"}),
    )
    result = check(operations, "topic-set")
    assert (result.verdict, result.reason) == ("ok", "lists were compared name by name only")


def test_configs_of_one_request_change_together():
    both = ("set-many", [["a", "1"], ["b", "1"]], None)
    half = ("get-many", [["a", None], ["b", None]], [["a", "1"], ["b", None]])
    assert check(sequence(both, half), "config-map").verdict == "illegal"
    overlapping = [
        Operation(process=0, f="set-many", value=both[1], call=0, end=99),
        Operation(process=1, f="get-many", value=half[1], output=half[2], call=5, end=6),
    ]
    assert check(overlapping, "config-map").verdict == "illegal"


def test_list_configs_as_the_controller_changes_them():
    steps = sequence(
        ("append", [["topic", "t"], "a,b"], None),
        ("append", [["topic", "t"], "b,c"], None),
        ("get", [["topic", "t"], None], [["topic", "t"], "a,b,c"]),
        ("subtract", [["topic", "t"], "a,b,c"], None),
        ("get", [["topic", "t"], None], [["topic", "t"], ""]),
        ("delete", [["topic", "t"], None], None),
        ("get", [["topic", "t"], None], [["topic", "t"], None]),
    )
    assert check(steps, "config-map").verdict == "ok"


def got(value):
    return ("get", ["k", None], ["k", value])


@pytest.mark.parametrize(
    ("steps", "answer"),
    [
        ([("append", ["k", "compact", "delete"], None)], "delete,compact"),
        ([("append", ["k", "delete", "delete"], None)], "delete"),
        ([("subtract", ["k", "delete", "delete"], None)], ""),
        ([("append", ["k", "a", None], None)], "a"),
        ([("subtract", ["k", "a", None], None)], ""),
        ([("append", ["k", "c", "d"], None), ("append", ["k", "e"], None)], "d,c,e"),
        ([("append", ["k", "c", "d"], None), ("delete", ["k", None], None),
          ("append", ["k", "e"], None)], "d,e"),
        ([("set", ["k", "a, b"], None), ("append", ["k", "b", "d"], None)], "a, b,b"),
        ([("set", ["k", "a,,b,"], None), ("append", ["k", "c,,"], None)], "a,b,c"),
        ([("set", ["k", "a"], None), ("append", ["k", ",c"], None)], "a,,c"),
        ([("set", ["k", "a,b,a"], None), ("subtract", ["k", "a"], None)], "b,a"),
    ],
)  # fmt: skip
def test_list_configs_begin_with_their_default_and_are_split_as_by_the_controller(steps, answer):
    assert check(sequence(*steps, got(answer)), "config-map").verdict == "ok"
    assert check(sequence(*steps, got(answer + "x")), "config-map").verdict == "illegal"
    assert check(sequence(*steps, got(None)), "config-map").verdict == "illegal"


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        (["delete,compact", "delete,compact"], "ok"),
        (["compact"], "ok"),
        (["x,y,compact,z"], "ok"),
        (["delete,compact", "compact,delete"], "illegal"),  # one answer tells the value
        (["delete"], "illegal"),  # what was appended is there
        (["compact,gone"], "illegal"),  # what was taken out is not
        ([None], "illegal"),  # it was set by both
    ],
)
def test_a_default_that_no_answer_gave_may_be_any(answers, verdict):
    steps = [("append", ["k", "compact,gone"], None), ("subtract", ["k", "gone"], None)]
    operations = sequence(*steps, *(got(answer) for answer in answers))
    assert check(operations, "config-map").verdict == verdict


def test_a_value_that_an_answer_gave_is_changed_as_any_other():
    steps = [("append", ["k", "c"], None), got("d,c"), ("append", ["k", "e"], None)]
    assert check(sequence(*steps, got("d,c,e")), "config-map").verdict == "ok"
    assert check(sequence(*steps, got("x,c,e")), "config-map").verdict == "illegal"
    lost_read = Operation(process=700, f="get", value=["k", None], call=11, end=12, type="fail")
    assert check([*sequence(*steps), lost_read], "config-map").verdict == "ok"


def test_a_key_has_one_default():
    steps = [("append", ["k", "a", "b"], None), ("subtract", ["k", "a", None], None)]
    with pytest.raises(HistoryError, match="history:3: default of k is None, but 'b' before"):
        check(sequence(*steps), "config-map")
    other = ("subtract", ["j", "a", None], None)
    assert check(sequence(steps[0], other, got("b,a")), "config-map").verdict == "ok"


def test_a_default_that_no_answer_gave_ends_with_a_set():
    steps = [("append", ["k", "a"], None), ("set", ["k", "b"], None), ("append", ["k", "c"], None)]
    assert check(sequence(*steps, got("b,c")), "config-map").verdict == "ok"
    assert check(sequence(*steps, got("x,b,c")), "config-map").verdict == "illegal"


def test_the_list_changes_of_this_controller():
    names = {"append": APPEND, "subtract": SUBTRACT}
    texts = ("", ",", "a", "b", "a,b", "a, b", "a,,b", "b,", ",b", "delete", "a,a")
    for f, before, items in itertools.product(names, (None, *texts), texts):
        expected = _changed_list(RESOURCE_TOPIC, "cleanup.policy", before, names[f], items)
        steps = [] if before is None else [("set", ["k", before], None)]
        steps += [(f, ["k", items, "delete"], None), got(expected)]
        assert check(sequence(*steps), "config-map").verdict == "ok", (f, before, items)


def test_offsets_are_ranks():
    good = [("append", "a", ["a", 0]), ("append", "b", 1), ("read-from", 1, ["b"])]
    assert check(sequence(*good, ("read", None, ["a", "b"])), "append-log").verdict == "ok"
    assert check(sequence(*good, ("read-from", 2, [])), "append-log").verdict == "ok"
    assert check(sequence(*good, ("read-from", 1, ["a"])), "append-log").verdict == "illegal"


def test_records_that_are_pairs_differ_from_keys_by_the_answers():
    records = sequence(("append", [1, 2], [[1, 2], 0]), ("append", [3, 4], [[3, 4], 1]))
    assert check(records, "append-log").verdict == "ok"
    records = sequence(("append", [1, 2], [[1, 2], 0]), ("append", [3, 4], [[3, 4], 0]))
    assert check(records, "append-log").verdict == "illegal"
    keys = [("append", [1, "a"], [1, ["a", 0]]), ("append", [3, "a"], [3, 0])]
    assert check(sequence(*keys), "append-log").verdict == "ok"
    assert check(sequence(*keys, ("append", [1, "b"], [1, 0])), "append-log").verdict == "illegal"
    assert check(sequence(("append", [1, "a"], [1, "a"])), "append-log").verdict == "ok"
    for open_answer in (0, [1, 2]):
        with pytest.raises(HistoryError, match="is the pair a record, or a key with one"):
            check(sequence(("append", [1, 2], open_answer)), "append-log")
    read = ("read", [1, None], [1, [2]])  # only a key stands before nil
    assert check(sequence(("append", [1, 2], 0), read), "append-log").verdict == "ok"


def test_an_answer_for_another_key_is_refused():
    with pytest.raises(HistoryError, match="history:1: read of key 'k' answered for key 'j'"):
        check(sequence(("read", ["k", None], ["j", 1])), "register")


def test_blocks_of_ids_are_disjoint():
    def allocated(*blocks):
        return history_of(sequence(*[("alloc", None, list(block)) for block in blocks]))

    assert overlap_in(allocated((0, 1000), (2000, 1000), (1000, 1000))) is None
    assert overlap_in(allocated((0, 1000), (2000, 10), (999, 5))) == Overlap(0, 2, 999)
    assert overlap_in(history_of([lost("alloc", None)])) is None
    with pytest.raises(HistoryError, match="not \\[start length\\]"):
        overlap_in(history_of(sequence(("alloc", None, 5))))


def test_outcomes_of_a_controller():
    assert classify(0) == ("ok", None)
    assert classify(36) == ("ok", "TOPIC_ALREADY_EXISTS")
    assert classify(38) == ("fail", "INVALID_REPLICATION_FACTOR")
    assert classify(41) == ("info", "NOT_CONTROLLER")
    assert classify(41, is_sent=False).type == "fail"
    assert classify(None).type == "info"
    assert classify(None, is_sent=False).type == "fail"
    assert classify(9999) == ("info", "error 9999")
    assert not set(OBSERVATIONS) & set(REFUSALS)
    assert not set(UNKNOWN_OUTCOMES) & (set(OBSERVATIONS) | set(REFUSALS))


def test_a_history_without_operations_proves_nothing_unless_it_is_empty():
    empty = check(History([]), "kv")
    assert (empty.verdict, empty.reason) == ("ok", "the history is empty")
    faults = check(History([Event(process="nemesis", type="info", f="kill")]), "kv")
    assert faults.verdict == "unknown"
    assert faults.reason == "none of 1 events is of a client: their processes are names"


def test_what_a_reader_left_out_is_in_the_reason_of_every_verdict():
    events = history_of(sequence(("write", 1, 1), ("read", None, 1))).events
    assert check(History(events, left_out="line 5"), "register").reason == "line 5"
    stale = history_of(sequence(("write", 1, 1), ("read", None, 2))).events
    refuted = check(History(stale, left_out="line 5"), "register")
    assert (refuted.verdict, refuted.reason) == ("illegal", "line 5")


def test_a_lost_write_that_only_a_cas_noticed_is_kept():
    steps = sequence(("cas", [1, 2], [1, 2]), ("read", None, 2))
    assert check([lost("write", 1), *steps], "cas-register").verdict == "ok"
    refused = sequence(("write", 2, 2), ("cas", [2, 3], [2, 3], ("type", "fail")))
    assert check([lost("write", 1), *refused], "cas-register").verdict == "ok"
