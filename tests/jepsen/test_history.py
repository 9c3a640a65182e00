"""Joining of events into operations, and what is refused instead of misread."""

import pytest

from jepsen.linearizability import Event, History, HistoryError, Operation, check, history_of


def event(process, kind, f="write", value=None, **more):
    return Event(process=process, type=kind, f=f, value=value, **more)


def test_an_operation_is_an_invocation_and_its_completion():
    history = History(
        [event(0, "invoke", "read"), event(1, "invoke", value=3), event(0, "ok", "read", 3)]
    )
    read, write = history.operations
    assert (read.call, read.end, read.type, read.output) == (0, 2, "ok", 3)
    assert (write.call, write.end, write.type, write.output) == (1, None, "info", None)


def test_times_are_used_only_when_every_client_event_has_one():
    events = [
        event(0, "invoke", time=50),
        event("nemesis", "info", "kill"),
        event(0, "ok", time=70),
    ]
    (operation,) = History(events).operations
    assert (operation.call, operation.end) == (50, 70)
    untimed = [events[0], events[1], event(0, "ok")]
    (operation,) = History(untimed).operations
    assert (operation.call, operation.end) == (0, 2)


def test_the_nemesis_may_complete_without_invoking():
    events = [event("nemesis", "info", "kill"), event("nemesis", "info", "start")]
    assert History(events).operations == ()


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([event(0, "invoke"), event(0, "invoke")], "run:2: process 0 invokes write while"),
        (
            [event(0, "invoke"), event(0, "info"), event(0, "invoke")],
            "run:3: process 0 goes on after an info",
        ),
        ([event(0, "ok")], "run:1: process 0 completes write (ok) but has no open operation"),
        (
            [event(0, "invoke"), event(0, "ok", "read")],
            "run:2: process 0 completes read, but invoked",
        ),
        (
            [event(0, "invoke", time=9), event(0, "ok", time=8)],
            "run:2: process 0 completes write at 8, before its call at 9",
        ),
        (
            [event(0, "invoke", time=1), event(0, "ok", time=8), event(0, "invoke", time=7)],
            "run:3: process 0 invokes write at 7, before its last operation ended at 8",
        ),
        ([event(0, "done")], "run:1: type 'done' is not one of invoke, ok, fail, info"),
    ],
)
def test_a_history_that_breaks_the_rules_is_refused(events, text):
    with pytest.raises(HistoryError) as refused:
        _ = History(events, source="run").operations
    assert str(refused.value).startswith(text)


def test_one_info_stays_one_operation_whatever_is_seen_later():
    events = [
        event(0, "invoke", value=7),
        event(0, "info", value=7),
        event(5, "invoke", "read"),
        event(5, "ok", "read", 7),
    ]
    history = History(events)
    assert [each.end for each in history.operations] == [None, 3]
    assert check(history, "register").verdict == "ok"


def test_operations_become_events_and_come_back():
    operations = [
        Operation(process=0, f="write", value=1, call=10, end=20, output=1),
        Operation(process=0, f="read", value=None, call=20, end=20, output=1),
        Operation(process=1, f="write", value=2, call=20, end=None, type="info"),
    ]
    back = history_of(operations).operations
    assert [(each.process, each.call, each.end, each.output) for each in back] == [
        (0, 10, 20, 1),
        (1, 20, None, None),
        (0, 20, 20, 1),
    ]


def test_operations_of_one_process_that_overlap_are_refused():
    operations = [
        Operation(process=0, f="write", value=1, call=0, end=9),
        Operation(process=0, f="write", value=2, call=5, end=12),
    ]
    with pytest.raises(HistoryError):
        check(operations, "register")
