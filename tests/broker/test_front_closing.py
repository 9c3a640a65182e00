"""The end of a connection: what was asked before its reason is answered, nothing behind it."""

import pytest

from broker.clients.call import Call
from broker.clients.client_quotas import ClientQuotas
from broker.clients.front import CALLS_MAX, Front
from broker.clients.request_metrics import RequestMetrics
from broker.effects import (
    CloseAtKernel,
    CloseConnection,
    Effect,
    Log,
    LogLevel,
    SendParts,
    SetReading,
)
from network.clock import Clock, Now
from network.memory_pool import MemoryPool
from network.sampled_rate import QuotaWindow
from network.turn_budget import TurnBudget
from simulator.cluster.memory_vfs import MemoryVfs
from tests.broker.fronts import (
    LISTENER,
    Fronts,
    api_versions,
    file_slice,
    is_open,
    list_offsets,
    services_of,
    unmeasured,
)
from wire.api_keys import LIST_OFFSETS
from wire.connections.framing import frame
from wire.errors import RemoteProtocolError


def closed_for(reason: str) -> list[Effect]:
    fields = {"listener": LISTENER, "client": "127.0.0.1", "reason": reason}
    return [
        Log(LogLevel.WARN, "connection_closed", fields),
        CloseConnection(1, reason),
        CloseAtKernel(1),
    ]


# ---- by a bad length -------------------------------------------------------------------------


def test_a_bad_length_closes_behind_the_answers_before_it() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(list_offsets(), api_versions())
    fronts.front.broken(1, "frame length -1")
    fronts.front.go_on()
    assert fronts.reading() == [False]
    fronts.answer(fronts.calls[0], b"first")
    fronts.taken()
    fronts.kernel_answers(b"second")
    assert fronts.taken() == [
        SendParts(1, (b"\0\0\0\6second",)),
        *closed_for("frame length -1"),
    ]
    assert len(fronts.front) == 0


def test_a_bad_length_waits_for_the_frames_before_it() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(*(list_offsets(i) for i in range(CALLS_MAX + 1)))
    fronts.front.broken(1, "bad")
    fronts.front.go_on()
    for call in fronts.calls[:CALLS_MAX]:
        fronts.answer(call)
    assert len(fronts.calls) == CALLS_MAX + 1
    fronts.taken()
    fronts.answer(fronts.calls[-1])
    assert fronts.taken()[1:] == closed_for("bad")


def test_a_bad_length_at_once_closes_at_once() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.front.broken(1, "bad")
    fronts.front.go_on()
    assert fronts.taken() == closed_for("bad")
    fronts.front.broken(1, "again")
    fronts.front.go_on()
    assert fronts.taken() == []


# ---- by a handler ----------------------------------------------------------------------------


def test_a_handler_ends_the_connection_and_what_it_has_taken_is_answered() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(list_offsets(1), list_offsets(2), list_offsets(3))
    first, second, third = fronts.calls
    fronts.end(second, "acks=0")
    assert fronts.taken() == [SetReading(1, is_wanted=False)]
    fronts.receive(list_offsets(4), api_versions())
    assert len(fronts.calls) == 3, "nothing more is taken"
    assert fronts.taken() == []
    fronts.answer(third)
    fronts.answer(first)
    assert fronts.sent() == frame(b"\0\0\0\1\0") + frame(b"\0\0\0\3\0")
    assert fronts.taken()[1:] == closed_for("acks=0")


def test_the_first_reason_stands() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(list_offsets(), list_offsets())
    fronts.end(fronts.calls[1], "first")
    fronts.front.broken(1, "second")
    fronts.front.go_on()
    fronts.end(fronts.calls[0], "third")
    assert fronts.taken()[1:] == closed_for("first")


def test_a_body_that_cannot_be_read_closes_behind_the_answers_before_it() -> None:
    calls: list[Call] = []
    effects: list[Effect] = []

    def read(call: Call) -> None:
        if len(calls) == 1:
            raise RemoteProtocolError("the body ends early")
        calls.append(call)

    clock = Clock(Now(0, 0))
    quotas = ClientQuotas(clock, QuotaWindow(), lambda: 0)
    metrics = RequestMetrics(lambda: 0)
    budget = TurnBudget()
    front = Front(
        {LIST_OFFSETS: read},
        MemoryPool(1),
        services_of(clock, effects, budget),
        quotas=quotas,
        metrics=metrics,
    )
    front.serve()
    front.opened(1, LISTENER, "127.0.0.1")
    front.received(1, [list_offsets(1), list_offsets(2), list_offsets(3)])
    front.go_on()
    calls[0].answer_parts(())
    front.go_on()
    sent = SendParts(1, (b"\0\0\0\5\0\0\0\1\0",))
    closed = closed_for("the body ends early")
    found = list(map(unmeasured, effects[1:]))
    assert found == [SetReading(1, is_wanted=False), sent, *closed]


# ---- by the kernel ---------------------------------------------------------------------------


def test_the_kernel_closes_behind_its_bytes_without_a_second_log_line() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(api_versions(1), api_versions(2))
    fronts.kernel_answers(b"first")
    fronts.taken()
    fronts.front.kernel_closed(1, "not served")
    assert fronts.taken() == [CloseConnection(1, "not served")]
    fronts.front.closed(1)
    assert fronts.taken() == []


def test_the_kernel_refuses_a_new_connection() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.front.kernel_closed(1, "too many")
    assert fronts.taken() == [CloseConnection(1, "too many")]
    assert len(fronts.front) == 0


def test_answers_before_the_request_that_the_kernel_refused_are_sent_first() -> None:
    fronts = Fronts()
    fronts.open()
    vfs = MemoryVfs()
    fronts.receive(list_offsets(1), api_versions(2), list_offsets(3))
    part = file_slice(vfs)
    fronts.answer(fronts.calls[1], part)
    fronts.taken()
    fronts.front.kernel_closed(1, "not served")
    assert fronts.taken() == [SetReading(1, is_wanted=False)]
    fronts.answer(fronts.calls[0], b"first")
    sent = SendParts(1, (b"\0\0\0\x0a\0\0\0\1\0first",))
    assert fronts.taken() == [sent, CloseConnection(1, "not served")]
    assert not is_open(part), "an answer behind the refused request is dropped"


def test_the_kernel_closes_what_is_closing_at_the_earlier_place() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(list_offsets(1), api_versions(2), list_offsets(3))
    fronts.front.broken(1, "bad")
    fronts.front.go_on()
    fronts.front.kernel_closed(1, "not served")
    fronts.taken()
    fronts.answer(fronts.calls[0])
    assert fronts.taken()[1:] == [CloseConnection(1, "bad")]


def test_the_kernel_closes_a_connection_that_has_only_calls_behind_their_answers() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(list_offsets(1))
    fronts.front.kernel_closed(1, "makes room")
    fronts.taken()
    fronts.answer(fronts.calls[0])
    assert fronts.sent() == frame(b"\0\0\0\1\0")
    assert fronts.taken()[1:] == [CloseConnection(1, "makes room")]


# ---- by the client ---------------------------------------------------------------------------


def test_a_closed_connection_is_closed_at_the_kernel() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(api_versions())
    fronts.taken()
    fronts.front.closed(1)
    assert fronts.taken() == [CloseAtKernel(1)]
    fronts.front.closed(1)
    fronts.kernel_answers(b"late")
    fronts.front.kernel_closed(1, "late")
    fronts.receive(list_offsets())
    assert fronts.taken() == []
    assert fronts.calls == []


def test_the_slices_of_answers_to_a_closed_connection_are_closed() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(list_offsets(1), list_offsets(2), list_offsets(3))
    vfs = MemoryVfs()
    ready, late = file_slice(vfs), file_slice(vfs)
    fronts.answer(fronts.calls[1], b"bytes", ready)
    fronts.front.closed(1)
    fronts.taken()
    assert not is_open(ready), "one that waited for an earlier answer"
    assert is_open(late)
    fronts.answer(fronts.calls[0], b"bytes", late)
    fronts.end(fronts.calls[2], "too late")
    assert not is_open(late)
    assert fronts.taken() == []


def test_an_answer_to_a_connection_that_ends_with_it_is_no_longer_taken() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(*(list_offsets() for _ in range(CALLS_MAX)))
    fronts.calls[0].answer_parts(())
    fronts.front.closed(1)
    fronts.taken()
    fronts.front.go_on()
    assert fronts.taken() == [], "as it would be read again"


def test_a_request_is_answered_once() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(list_offsets(), list_offsets())
    fronts.answer(fronts.calls[0])
    with pytest.raises(AssertionError):
        fronts.calls[0].answer_parts(())


def test_the_kernel_answers_only_what_it_was_asked() -> None:
    fronts = Fronts()
    fronts.open()
    with pytest.raises(AssertionError, match="once"):
        fronts.kernel_answers(b"unasked")
