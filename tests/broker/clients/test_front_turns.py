"""Frames are taken as the budget of a turn has room, in order; the rest waits for the next."""

import pytest

from broker.clients.call import Call
from broker.clients.costs import BYTES_PER_UNIT, CALL_UNITS, FORWARD_UNITS, PARTITION_UNITS
from broker.effects import CloseAtKernel, SendToKernel
from network.memory_pool import counted_bytes_of
from network.turn_budget import TurnBudget
from tests.broker.fronts import Fronts, api_versions, list_offsets, produce
from wire.connections.framing import frame

UNITS = 3 * CALL_UNITS


class Turning(Fronts):
    """A front with turns of three small calls, which it answers at once."""

    def __init__(self, *, is_answering: bool = True) -> None:
        super().__init__(budget=TurnBudget(UNITS), handle=self._answer)
        self._is_answering = is_answering
        self.seen: list[int] = []
        self.partition_count = 0

    def _answer(self, call: Call) -> None:
        self.seen.append(call.header.correlation_id)
        call.partition_count = self.partition_count
        if self._is_answering:
            call.answer_parts(())

    def put(self, *frames: bytearray, connection_id: int = 1) -> None:
        """Receive with memory, without a turn."""
        self.memory.used_bytes += sum(map(counted_bytes_of, frames))
        self.front.received(connection_id, frames)

    def turn(self) -> int:
        """Go on for one turn, and take effects; what it spent."""
        self.budget.begin()
        self.front.go_on()
        self.front.pause()
        return self.budget.spent


def all_calls(front: Turning) -> list[list[int]]:
    """Correlation ids by turn, until nothing waits."""
    turns = []
    while front.front.is_busy:
        front.seen = []
        spent = front.turn()
        assert 0 < spent < UNITS + CALL_UNITS + 5
        turns.append(front.seen)
    return turns


def test_a_turn_takes_some_frames_and_later_ones_the_rest_in_order() -> None:
    front = Turning()
    front.open()
    assert not front.front.is_busy
    front.put(*map(list_offsets, range(8)))
    assert (front.calls, front.front.is_busy) == ([], True)
    assert all_calls(front) == [[0, 1, 2], [3, 4, 5], [6, 7]]
    answers = [int.from_bytes(front.sent()[at + 4 : at + 8], "big") for at in range(0, 72, 9)]
    assert answers == list(range(8))


def test_what_waits_for_the_next_turn_is_not_read_until_then() -> None:
    front = Turning()
    front.open()
    front.put(*map(list_offsets, range(4)))
    front.turn()
    assert front.reading() == [False]
    front.turn()
    assert front.reading() == [False, True]
    front.put(list_offsets())
    front.turn()
    assert front.reading() == [False, True], "it is paused only for what waits"


def test_a_connection_that_a_turn_does_not_reach_is_not_read() -> None:
    front = Turning()
    front.open()
    front.open(2)
    front.put(*map(list_offsets, range(4)))
    front.put(list_offsets(9), connection_id=2)
    front.turn()
    assert front.reading(2) == [False]
    front.front.pause()
    assert front.reading(2) == [False]
    assert all_calls(front) == [[9, 3]], "one that has had a turn is behind the others"
    assert front.reading(2) == [False, True]


def test_a_frame_costs_by_its_bytes() -> None:
    front = Turning()
    front.open()
    frames = [produce(BYTES_PER_UNIT * 50), produce(BYTES_PER_UNIT * 90), produce(20), produce(20)]
    front.put(*frames)
    assert front.turn() == 2 + CALL_UNITS + 50 + CALL_UNITS + 90
    assert len(front.calls) == 2
    assert front.turn() == 2 + 2 * CALL_UNITS + 2, "the answers wake it"


def test_a_call_costs_by_the_partitions_that_its_handler_looked_at() -> None:
    front = Turning()
    front.open()
    front.put(list_offsets(0), list_offsets(1))
    front.partition_count = 5
    assert front.turn() == 2 + CALL_UNITS + 5 * PARTITION_UNITS
    assert front.seen == [0], "the second waits"


def test_frames_for_the_kernel_cost_too_and_go_together() -> None:
    front = Turning()
    front.open()
    frames = [api_versions(number) for number in range(UNITS // FORWARD_UNITS + 2)]
    front.put(*frames)
    assert front.turn() == 2 + UNITS // FORWARD_UNITS * FORWARD_UNITS
    assert len(front.of(SendToKernel)) == 1
    assert front.turn() == 2 + 2 * FORWARD_UNITS
    assert front.to_kernel() == b"".join(frame(bytes(each)) for each in frames)
    large = api_versions() + bytearray(4 * BYTES_PER_UNIT)
    front.put(large)
    assert front.turn() == 2 + FORWARD_UNITS + 4


def test_a_look_at_a_connection_without_frames_costs_too() -> None:
    front = Turning(is_answering=False)
    for connection_id in range(UNITS):
        front.open(connection_id)
        front.front.kernel_bytes(connection_id, b"")
    assert front.turn() == UNITS
    assert front.front.is_busy
    assert front.turn() == UNITS
    assert not front.front.is_busy


def test_an_answer_that_has_waited_costs() -> None:
    front = Turning(is_answering=False)
    front.open()
    front.put(list_offsets())
    front.turn()
    front.budget.begin()
    front.calls[0].answer_parts(())
    assert front.budget.spent == 10


# ---- connections that end ----------------------------------------------------------------------


def test_what_a_closed_connection_sent_before_is_taken() -> None:
    front = Turning()
    front.open()
    front.put(*map(list_offsets, range(4)))
    front.front.closed(1)
    assert len(front.front) == 1
    front.turn()
    assert len(front.front) == 1
    front.taken()
    front.turn()
    assert [call.header.correlation_id for call in front.calls] == [0, 1, 2, 3]
    assert (len(front.front), front.front.is_busy) == (0, False)
    assert front.taken()[-1] == CloseAtKernel(1)


def test_a_closed_connection_whose_frames_wait_for_something_else_is_forgotten() -> None:
    front = Turning(is_answering=False)
    front.open()
    front.put(*(list_offsets() for _ in range(17)))
    front.turn()
    front.front.closed(1)
    while front.front.is_busy:
        front.turn()
    assert (len(front.front), len(front.calls)) == (0, 16)
    front.open(2)
    front.put(list_offsets(), connection_id=2)
    front.turn()
    front.front.closed(2)
    assert len(front.front) == 0


@pytest.mark.parametrize(
    "end", ["by the client", "by the kernel", "by both", "bad bytes", "answer"]
)
@pytest.mark.parametrize("turns_before", [0, 1, 2])
@pytest.mark.parametrize("is_answering", [True, False])
def test_a_connection_that_ends_at_any_point_keeps_no_memory(
    end: str, turns_before: int, *, is_answering: bool
) -> None:
    front = Turning(is_answering=is_answering)
    front.open()
    front.put(*(produce(100) for _ in range(20)))
    answered: list[Call] = []
    for _ in range(turns_before):
        front.turn()
    if end in ("by the client", "by both"):
        front.front.closed(1)
    if end in ("by the kernel", "by both"):
        front.front.kernel_closed(1, "refused")
    if end == "bad bytes":
        front.front.broken(1, "bad")
    elif end == "answer" and front.calls and not is_answering:
        answered.append(front.calls[0])
        front.end(front.calls[0], "refused")
    while front.front.is_busy:
        front.turn()
    front.front.closed(1)
    for call in [] if is_answering else front.calls:
        if call not in answered:
            front.end(call)
    assert (len(front.front), front.memory.used_bytes) == (0, 0)


def test_the_reason_to_close_waits_for_the_frames_before_it() -> None:
    front = Turning()
    front.open()
    front.put(*map(list_offsets, range(4)))
    front.front.broken(1, "bad")
    front.turn()
    assert len(front.front) == 1
    front.turn()
    assert (len(front.calls), len(front.front)) == (4, 0)


def test_the_kernel_closes_a_connection_with_frames_that_wait() -> None:
    front = Turning()
    front.open()
    front.put(*map(list_offsets, range(4)))
    front.front.closed(1)
    front.front.kernel_closed(1, "refused")
    assert (len(front.front), front.front.is_busy) == (0, False)
    front.turn()
    assert front.calls == []
