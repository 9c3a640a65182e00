"""Limits of connections: unanswered requests, bytes held, and the notes to the kernel."""

import pytest

from broker.clients.call import Call
from broker.clients.front import CALLS_MAX
from broker.effects import UsedAtKernel
from network.clock import Now
from network.memory_pool import SMALL_BYTES_MAX
from tests.broker.fronts import (
    QUEUED_BYTES_MAX,
    Fronts,
    api_versions,
    list_offsets,
    produce,
    request,
)
from wire.api_keys import FETCH, PRODUCE
from wire.connections.connection import IN_FLIGHT_MAX
from wire.connections.framing import frame

# ---- unanswered requests ---------------------------------------------------------------------


def test_a_connection_with_too_many_calls_is_not_read() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(*(list_offsets(i) for i in range(CALLS_MAX - 1)))
    assert fronts.reading() == []
    fronts.receive(list_offsets())
    assert fronts.reading() == [False]
    fronts.receive(list_offsets(98), api_versions(99))
    assert (len(fronts.calls), fronts.to_kernel()) == (CALLS_MAX, b"")
    fronts.taken()
    fronts.end(fronts.calls[0])
    assert len(fronts.calls) == CALLS_MAX + 1
    assert fronts.to_kernel() == frame(bytes(api_versions(99)))
    assert fronts.reading() == [], "there is no room yet for another"
    fronts.end(fronts.calls[1])
    assert fronts.reading() == [True]


def test_an_answer_that_waits_for_an_earlier_one_makes_room_for_a_call() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(*(list_offsets(i) for i in range(CALLS_MAX)))
    fronts.end(fronts.calls[-1])
    assert fronts.reading() == [False, True]


def test_requests_for_the_kernel_have_the_limit_of_the_kernel() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(*(api_versions() for _ in range(IN_FLIGHT_MAX - 1)))
    assert fronts.reading() == []
    fronts.receive(api_versions(), api_versions(7))
    assert fronts.to_kernel() == frame(bytes(api_versions())) * IN_FLIGHT_MAX
    assert fronts.reading() == [False]
    fronts.taken()
    fronts.kernel_answers(b"first")
    assert fronts.to_kernel() == frame(bytes(api_versions(7)))
    assert fronts.reading() == []
    fronts.kernel_answers(b"second")
    assert fronts.reading() == [True]


# ---- memory ----------------------------------------------------------------------------------


def test_a_call_holds_the_memory_of_its_frame_until_it_is_answered() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.open(2)
    fronts.receive(produce(400), list_offsets())
    fronts.receive(produce(600), connection_id=2)
    assert fronts.memory.used_bytes == 1_000
    fronts.end(fronts.calls[1])
    assert fronts.memory.used_bytes == 1_000, "that of small requests is not counted"
    fronts.end(fronts.calls[0])
    assert fronts.memory.used_bytes == 600
    fronts.end(fronts.calls[2])
    assert fronts.memory.used_bytes == 0


def test_large_requests_of_any_kind_count() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(request(FETCH, SMALL_BYTES_MAX + 1, 11), request(FETCH, SMALL_BYTES_MAX, 11))
    assert fronts.memory.used_bytes == SMALL_BYTES_MAX + 1
    fronts.end(fronts.calls[0])
    assert fronts.memory.used_bytes == 0


def test_a_request_for_the_kernel_holds_nothing_here() -> None:
    fronts = Fronts()
    fronts.open()
    refused = request(PRODUCE, 500, 2)
    fronts.receive(refused, produce(100))
    assert fronts.to_kernel() == frame(bytes(refused))
    assert fronts.memory.used_bytes == 100


def test_frames_for_a_connection_that_is_not_served_are_dropped() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(list_offsets(), list_offsets())
    fronts.end(fronts.calls[1], "ends")
    fronts.receive(produce(100))
    fronts.receive(produce(200), connection_id=7)
    assert (len(fronts.calls), fronts.memory.used_bytes) == (2, 0)


@pytest.mark.parametrize("end", ["by itself", "by the client"])
def test_frames_that_wait_are_dropped_with_their_connection(end: str) -> None:
    fronts = Fronts(is_serving=False)
    fronts.open()
    fronts.receive(produce(900), produce(200))
    assert fronts.memory.used_bytes == 1_100
    if end == "by itself":
        fronts.front.kernel_closed(1, "ends")
    else:
        fronts.front.closed(1)
    assert fronts.memory.used_bytes == 0
    assert len(fronts.front) == 0


def test_the_call_of_a_closed_connection_holds_its_memory_until_it_is_answered() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.receive(produce(900))
    fronts.front.closed(1)
    assert fronts.memory.used_bytes == 900
    fronts.end(fronts.calls[0])
    assert fronts.memory.used_bytes == 0


# ---- notes to the kernel ---------------------------------------------------------------------


def tick(fronts: Fronts, now_ms: int) -> list[int]:
    fronts.taken()
    fronts.clock.set(Now(now_ms, 0))
    fronts.front.tick()
    return [effect.connection_id for effect in fronts.of(UsedAtKernel)]


def test_connections_used_for_records_are_noted_now_and_then() -> None:
    fronts = Fronts(used_interval_ms=100)
    assert fronts.front.next_ms() is None
    for connection_id in (1, 2, 3):
        fronts.open(connection_id)
    assert fronts.front.next_ms() == 1_100
    fronts.receive(list_offsets())
    fronts.receive(api_versions(), connection_id=2)
    fronts.end(fronts.calls[0])
    assert tick(fronts, 1_099) == []
    assert tick(fronts, 1_100) == [1]
    assert fronts.front.next_ms() == 1_200
    assert tick(fronts, 1_250) == [], "it was not used since"
    assert fronts.front.next_ms() == 1_350


def test_a_connection_that_awaits_an_answer_is_in_use() -> None:
    fronts = Fronts(used_interval_ms=100)
    fronts.open()
    fronts.receive(list_offsets())
    assert tick(fronts, 1_100) == [1]
    assert tick(fronts, 1_200) == [1]
    fronts.end(fronts.calls[0])
    assert tick(fronts, 1_300) == [1], "its answer was a use"
    assert tick(fronts, 1_400) == []


def test_a_connection_that_waits_for_the_broker_is_in_use() -> None:
    fronts = Fronts(is_serving=False, used_interval_ms=100)
    fronts.open()
    fronts.receive(list_offsets())
    assert tick(fronts, 1_100) == [1]


def test_a_connection_that_waits_for_memory_or_begins_a_request_is_in_use() -> None:
    """One that does not end the request it began is not: its memory must come back."""
    fronts = Fronts(used_interval_ms=100)
    for connection_id in (1, 2, 3):
        fronts.open(connection_id)
    assert fronts.memory.take(2, QUEUED_BYTES_MAX)
    assert not fronts.memory.take(3, 1)
    assert tick(fronts, 1_100) == [2, 3]
    assert tick(fronts, 1_200) == [3]
    fronts.memory.leave(3)
    assert tick(fronts, 1_300) == []


def test_a_connection_that_the_kernel_closed_is_not_noted() -> None:
    fronts = Fronts(used_interval_ms=100)
    fronts.open()
    fronts.receive(list_offsets())
    fronts.front.kernel_closed(1, "makes room")
    assert tick(fronts, 1_100) == []


@pytest.mark.parametrize("after_ms", [0, 50])
def test_the_time_of_notes_begins_with_the_first_connection(after_ms: int) -> None:
    fronts = Fronts(used_interval_ms=100)
    fronts.open()
    fronts.front.closed(1)
    assert fronts.front.next_ms() is None
    assert tick(fronts, 5_000 + after_ms) == []
    fronts.open(2)
    assert fronts.front.next_ms() == 5_100 + after_ms
    fronts.open(3)
    assert fronts.front.next_ms() == 5_100 + after_ms


# ---- calls that wait without their frame -----------------------------------------------------


def parking(ended: list[int]) -> Fronts:
    """A front whose handlers park each call."""
    return Fronts(handle=lambda call: call.park(lambda: ended.append(call.header.api_key)))


def test_a_call_that_waits_for_others_gives_its_frame_back() -> None:
    """Else producers with acks=all would hold up all others while a follower is gone."""
    ended: list[int] = []
    fronts = parking(ended)
    fronts.open()
    fronts.receive(produce(QUEUED_BYTES_MAX), produce(QUEUED_BYTES_MAX))
    assert [len(call.frame) for call in fronts.calls] == [0, 0]
    assert fronts.memory.used_bytes == 0
    for call in fronts.calls:
        fronts.end(call)
    assert fronts.memory.used_bytes == 0
    assert ended == []


def test_what_a_closed_connection_waits_for_is_withdrawn_once() -> None:
    ended: list[int] = []
    fronts = parking(ended)
    fronts.open()
    fronts.receive(request(FETCH, 100), produce(100), request(FETCH, 100))
    fronts.answer(fronts.calls[0], b"first")
    fronts.front.closed(1)
    assert ended == [PRODUCE, FETCH]
    fronts.front.closed(1)
    assert len(ended) == 2


def test_a_call_that_was_answered_before_it_is_parked_is_not_withdrawn() -> None:
    """A step may complete what it began to wait for."""
    ended: list[int] = []

    def handle(call: Call) -> None:
        call.answer_nothing()
        call.park(lambda: ended.append(1))

    fronts = Fronts(handle=handle)
    fronts.open()
    fronts.receive(produce(100))
    fronts.front.closed(1)
    assert ended == []
