"""Requests of clients go to handlers or to the kernel, and answers leave in their order."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.clients.client_quotas import ClientQuotas
from broker.clients.front import CALLS_MAX, Front
from broker.clients.request_metrics import RequestMetrics
from broker.effects import (
    CloseConnection,
    Effect,
    OpenAtKernel,
    SendParts,
    SendToKernel,
    SetReading,
)
from network.clock import Clock, Now
from network.memory_pool import MemoryPool
from network.sampled_rate import QuotaWindow
from network.turn_budget import TurnBudget
from quorum_controller.security.authorization import Caller
from simulator.cluster.memory_vfs import MemoryVfs
from tests.broker.fronts import (
    LISTENER,
    Fronts,
    api_versions,
    content,
    file_slice,
    is_open,
    list_offsets,
    request,
    services_of,
    unmeasured,
)
from wire.api_keys import INIT_PRODUCER_ID, LIST_OFFSETS, METADATA, PRODUCE
from wire.connections.framing import FrameReader, frame

NO_ID: Final = b"\0\0\0\0\0"
"""Header of a flexible response to the correlation id 0."""


# ---- where requests go -----------------------------------------------------------------------


def test_a_connection_is_opened_at_the_kernel() -> None:
    fronts = Fronts()
    fronts.front.opened(1, LISTENER, "10.0.0.1")
    assert fronts.taken() == [OpenAtKernel(1, LISTENER, "10.0.0.1")]
    assert len(fronts.front) == 1


def test_a_request_about_records_goes_to_its_handler() -> None:
    fronts = Fronts()
    fronts.open(host="::1")
    fronts.receive(list_offsets(7))
    (call,) = fronts.calls
    assert (call.header.api_key, call.header.correlation_id) == (LIST_OFFSETS, 7)
    assert call.body().isolation_level == 1, "the body is behind the tagged fields of the header"
    assert call.caller == Caller(host="0:0:0:0:0:0:0:1")
    assert call.listener == LISTENER
    assert fronts.taken() == []


@pytest.mark.parametrize(
    "other",
    [
        api_versions(),
        bytearray(b"nonsense"),
        bytearray(),
        request(METADATA, 20),
        request(LIST_OFFSETS, 20, 12),
        request(INIT_PRODUCER_ID, 10, 6) + bytes(10),
        request(LIST_OFFSETS, 20, 0),
        request(LIST_OFFSETS, 20, -1),
        request(PRODUCE, 20, 2),
        request(99, 20),
        list_offsets()[:16] + b"\xff\xff\xff\xff\xff\xff",
    ],
    ids=[
        "not about records", "no header", "empty", "a kernel's", "too new",
        "newer than offered", "too old",
        "negative", "offered without a schema", "unknown", "malformed tagged fields",
    ],
)  # fmt: skip
def test_every_other_frame_goes_to_the_kernel_as_it_came(other: bytearray) -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(other)
    assert fronts.calls == []
    assert fronts.taken() == [SendToKernel(1, frame(bytes(other)))]


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(LIST_OFFSETS, 1), (LIST_OFFSETS, 11), (INIT_PRODUCER_ID, 0), (INIT_PRODUCER_ID, 5)],
)
def test_versions_at_the_ends_of_the_range_are_served(api_key: int, version: int) -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(request(api_key, 10, version) + bytearray(10))
    (call,) = fronts.calls
    assert (call.header.api_key, call.header.api_version) == (api_key, version)


def test_frames_for_the_kernel_that_came_together_go_together() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(api_versions(1), list_offsets(2), api_versions(3))
    both = frame(bytes(api_versions(1))) + frame(bytes(api_versions(3)))
    assert fronts.taken() == [SendToKernel(1, both)]


# ---- the order of answers --------------------------------------------------------------------


def test_an_answer_has_its_length_with_slices() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(list_offsets())
    part = file_slice(MemoryVfs())
    fronts.answer(fronts.calls[0], b"ab", part)
    (sent,) = fronts.of(SendParts)
    assert unmeasured(sent) == SendParts(1, (b"\0\0\0\x0c" + NO_ID + b"ab", part))
    assert content(sent.parts) == b"\0\0\0\x0c" + NO_ID + b"ab23456"
    assert is_open(part), "the driver closes what it is to send"


def test_answers_of_both_kinds_leave_in_the_order_of_requests() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(list_offsets(1), api_versions(2), list_offsets(3), api_versions(4))
    first, third = fronts.calls
    fronts.kernel_answers(b"second", b"fourth")
    fronts.answer(third, b"third")
    assert fronts.sent() == b""
    fronts.answer(first, b"first")
    answers = [b"\0\0\0\1\0first", b"second", b"\0\0\0\3\0third", b"fourth"]
    assert fronts.sent() == b"".join(map(frame, answers))


@given(
    kinds=st.lists(st.booleans(), min_size=1, max_size=CALLS_MAX),
    cuts=st.lists(st.integers(1, 12), max_size=30),
    data=st.data(),
)
def test_any_order_of_answers_and_cut_of_the_kernel_gives_the_order_of_requests(
    kinds: list[bool], cuts: list[int], data: st.DataObject
) -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(*(list_offsets(i) if here else api_versions(i) for i, here in enumerate(kinds)))
    stream = b"".join(frame(b"%d" % i) for i, here in enumerate(kinds) if not here)
    calls = list(data.draw(st.permutations(fronts.calls)))
    while calls or stream:
        if stream and (not calls or data.draw(st.booleans())):
            size = cuts.pop() if cuts else len(stream)
            fronts.front.kernel_bytes(1, stream[:size])
            stream = stream[size:]
        else:
            call = calls.pop()
            fronts.answer(call, b"%d" % call.header.correlation_id)
    reader = FrameReader(100)
    reader.feed(fronts.sent())
    for i, here in enumerate(kinds):
        assert reader.next_frame() == (i.to_bytes(4, "big") + b"\0" if here else b"") + b"%d" % i
    assert reader.buffered_bytes == 0


def test_a_request_without_a_response_only_gives_its_place_away() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(list_offsets(1), list_offsets(2))
    fronts.answer(fronts.calls[1], b"second")
    fronts.end(fronts.calls[0])
    assert fronts.taken() == [SendParts(1, (b"\0\0\0\x0b\0\0\0\2\0second",))]
    fronts.receive(list_offsets(3))
    fronts.end(fronts.calls[2])
    assert fronts.taken() == []


def test_a_handler_that_answers_at_once() -> None:
    effects: list[Effect] = []
    clock = Clock(Now(0, 0))
    front = Front(
        {LIST_OFFSETS: lambda call: call.answer_parts((b"now",))},
        MemoryPool(1),
        services_of(clock, effects, TurnBudget(1 << 20)),
        quotas=ClientQuotas(clock, QuotaWindow(), lambda: 0),
        metrics=RequestMetrics(lambda: 0),
    )
    front.serve()
    front.opened(1, LISTENER, "")
    front.received(1, [list_offsets(i) for i in range(2 * CALLS_MAX)])
    front.go_on()
    assert sum(isinstance(effect, SendParts) for effect in effects) == 2 * CALLS_MAX
    assert not any(isinstance(effect, SetReading) for effect in effects)


def test_calls_before_the_broker_serves_wait_in_order() -> None:
    fronts = Fronts(is_serving=False)
    fronts.open()
    fronts.open(2)
    fronts.receive(api_versions(1), list_offsets(2), api_versions(3))
    fronts.receive(list_offsets(4), connection_id=2)
    assert fronts.calls == []
    assert fronts.to_kernel() == frame(bytes(api_versions(1)))
    assert (fronts.reading(), fronts.reading(2)) == ([False], [False])
    fronts.taken()
    fronts.front.serve()
    fronts.front.go_on()
    assert [call.header.correlation_id for call in fronts.calls] == [2, 4]
    assert fronts.to_kernel() == frame(bytes(api_versions(3)))
    assert (fronts.reading(), fronts.reading(2)) == ([True], [True])


def test_an_answer_that_ends_its_connection_long_after_its_request_ends_it_at_once() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(list_offsets())
    fronts.taken()
    fronts.end(fronts.calls[0], "that is enough")
    closes = [each for each in fronts.taken() if isinstance(each, CloseConnection)]
    assert closes == [CloseConnection(1, "that is enough")]
