"""Limits of connections: unanswered requests, bytes held, and the notes to the kernel."""

import pytest

from broker.clients.call import Call
from broker.clients.front import CALLS_MAX, SMALL_BYTES_MAX
from broker.effects import UsedAtKernel
from network.clock import Now
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


# ---- bytes held ------------------------------------------------------------------------------


def test_requests_above_the_limit_of_bytes_wait_and_are_not_read() -> None:
    fronts = Fronts()
    for connection_id in (1, 2, 3):
        fronts.open(connection_id)
    fronts.receive(produce(400))
    fronts.receive(produce(600), connection_id=2)
    assert len(fronts.calls) == 2
    assert fronts.front.queued_bytes == QUEUED_BYTES_MAX
    fronts.receive(produce(20), connection_id=3)
    assert len(fronts.calls) == 2
    assert (fronts.reading(), fronts.reading(2), fronts.reading(3)) == ([], [], [False])
    fronts.end(fronts.calls[0])
    assert len(fronts.calls) == 3
    assert fronts.reading(3) == [False, True]
    assert fronts.front.queued_bytes == 620


def test_connections_that_wait_for_room_get_it_in_the_order_in_which_they_came() -> None:
    fronts = Fronts()
    for connection_id in (1, 2, 3, 4):
        fronts.open(connection_id)
    fronts.receive(produce(1_000))
    fronts.receive(produce(900), connection_id=2)
    fronts.receive(produce(101), produce(11), connection_id=3)
    fronts.receive(produce(100), connection_id=4)
    fronts.end(fronts.calls[0])
    assert [len(call.frame) for call in fronts.calls[1:]] == [900], "the third fits no more"
    fronts.receive(produce(10))
    assert len(fronts.calls) == 2, "one that would fit does not overtake"
    fronts.end(fronts.calls[1])
    sizes = [len(call.frame) for call in fronts.calls[2:]]
    assert sizes == [101, 100, 10, 11], "the second of a connection comes after those that wait"


def test_a_request_above_the_limit_is_served_alone() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.open(2)
    fronts.receive(produce(5_000))
    assert len(fronts.calls) == 1
    fronts.receive(produce(5_000), connection_id=2)
    fronts.receive(produce(10))
    assert len(fronts.calls) == 1
    fronts.end(fronts.calls[0])
    assert len(fronts.calls) == 2
    fronts.end(fronts.calls[1])
    assert len(fronts.calls) == 3
    fronts.end(fronts.calls[2])
    assert fronts.front.queued_bytes == 0


def test_a_follower_that_fetches_does_not_wait_for_the_produce_that_waits_for_it() -> None:
    fronts = Fronts()
    for connection_id in (1, 2, 3):
        fronts.open(connection_id)
    fronts.receive(produce(5_000))
    fronts.receive(produce(100), connection_id=3)
    fronts.receive(request(FETCH, SMALL_BYTES_MAX, 11), connection_id=2)
    assert len(fronts.calls) == 2
    assert fronts.front.queued_bytes == 5_000
    fronts.receive(request(FETCH, SMALL_BYTES_MAX + 1, 11), connection_id=2)
    assert len(fronts.calls) == 2
    fronts.end(fronts.calls[0])
    fronts.end(fronts.calls[2])
    assert fronts.front.queued_bytes == SMALL_BYTES_MAX + 1


def test_a_connection_that_is_closing_does_not_hold_up_the_queue() -> None:
    fronts = Fronts()
    for connection_id in (1, 2, 3):
        fronts.open(connection_id)
    fronts.receive(produce(1_000), connection_id=3)
    fronts.receive(list_offsets(), list_offsets(), produce(500))
    fronts.receive(produce(300), connection_id=2)
    holding, first, _ = fronts.calls
    fronts.end(first, "ends behind the second")
    fronts.end(holding)
    assert [len(call.frame) for call in fronts.calls[3:]] == [300]


def test_a_connection_that_ends_leaves_the_queue() -> None:
    fronts = Fronts()
    fronts.open()
    fronts.open(2)
    fronts.receive(list_offsets(), produce(1_000))
    fronts.receive(produce(500))
    fronts.receive(produce(300), connection_id=2)
    fronts.end(fronts.calls[0], "ends")
    fronts.end(fronts.calls[1])
    assert [len(call.frame) for call in fronts.calls[2:]] == [300]


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
    assert fronts.front.queued_bytes == 0
    for call in fronts.calls:
        fronts.end(call)
    assert fronts.front.queued_bytes == 0
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
