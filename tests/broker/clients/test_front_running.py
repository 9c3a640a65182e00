"""Requests that are done in pieces: one at each look, before what the connection sent later."""

import gc

import pytest

from broker.clients.call import Call
from broker.clients.costs import CALL_UNITS
from broker.clients.reply import Reply
from broker.clients.running import Running
from broker.effects import CloseAtKernel, CloseConnection, Lane, RunWork
from network.memory_pool import counted_bytes_of
from network.turn_budget import TurnBudget
from tests.broker.fronts import Fronts, api_versions, list_offsets, produce
from wire.api_keys import PRODUCE
from wire.errors import RemoteProtocolError
from wire.steps import Aside, Steps

PIECE_UNITS = CALL_UNITS
UNITS = 3 * CALL_UNITS


class InPieces(Fronts):
    """A front with turns of three pieces, whose Produce has three; others are answered at once."""

    def __init__(self, units_max: int = UNITS) -> None:
        super().__init__(budget=TurnBudget(units_max), handle=self._handle)
        self.done: list[int | str] = []
        self.piece_count = 3

    def _handle(self, call: Call) -> None:
        if call.header.api_key == PRODUCE:
            call.go_on(self.steps(call))
        else:
            self.done.append("call")
            call.answer_parts([b"call"])

    def steps(self, call: Call) -> Steps[None]:
        for number in range(self.piece_count):
            self.done.append(number)
            self.now_ns += 1_000
            yield PIECE_UNITS
        self.done.append("end")
        call.answer_parts([b"pieces"])

    def put(self, *frames: bytearray, connection_id: int = 1) -> None:
        self.memory.used_bytes += sum(map(counted_bytes_of, frames))
        self.front.received(connection_id, frames)

    def turn(self) -> list[int | str]:
        """One turn; what it did."""
        before = len(self.done)
        self.budget.begin()
        self.front.go_on()
        self.front.pause()
        assert self.budget.spent < UNITS + PIECE_UNITS
        return self.done[before:]


def opened(*connection_ids: int) -> InPieces:
    front = InPieces()
    for connection_id in connection_ids:
        front.open(connection_id)
    return front


def test_pieces_are_done_over_turns_before_later_requests() -> None:
    front = opened(1)
    front.put(produce(50), list_offsets(1))
    assert front.turn() == [0, 1]
    assert front.front.is_busy
    assert front.reading() == [False], "muted, as in Kafka"
    assert front.turn() == [2, "end", "call"]
    assert front.sent().index(b"pieces") < front.sent().index(b"call")
    assert front.reading() == [False, True]
    front.turn()
    assert not front.front.is_busy


def test_a_connection_is_muted_while_a_request_is_done_in_pieces() -> None:
    front = opened(1)
    front.put(produce(50))
    front.turn()
    assert front.reading() == [False]
    front.put(list_offsets(1))
    assert front.turn() == [2, "end", "call"]
    assert front.reading() == [False, True]


def test_other_connections_have_their_turn_between_two_pieces() -> None:
    front = opened(1, 2)
    front.put(produce(50))
    front.put(list_offsets(1), connection_id=2)
    assert front.turn() == ["call", 0]
    assert front.sent(2)


def test_several_requests_in_pieces_of_connections_take_turns() -> None:
    front = opened(1, 2)
    front.put(produce(50))
    front.put(produce(50), connection_id=2)
    done = []
    while front.front.is_busy:
        done += front.turn()
    assert done == [0, 0, 1, 1, 2, 2, "end", "end"]


def test_a_connection_that_closes_between_two_pieces_is_forgotten_behind_all_that_it_sent() -> None:
    front = opened(1)
    front.put(produce(50))
    front.turn()
    front.front.closed(1)
    assert len(front.front) == 1
    assert front.turn() == [2, "end"]
    assert (len(front.front), front.front.is_busy) == (0, False)
    front.open(2)
    front.put(produce(50), list_offsets(1), connection_id=2)
    front.turn()
    front.front.closed(2)
    assert front.turn() == [2, "end", "call"]
    assert (len(front.front), front.front.is_busy) == (0, False)
    assert front.taken()[-1] == CloseAtKernel(2)


def test_the_kernel_closes_a_connection_behind_the_last_piece() -> None:
    front = opened(1)
    front.put(api_versions(), produce(50))
    front.turn()
    front.front.kernel_closed(1, "refused")
    assert front.of(CloseConnection) == []
    while front.front.is_busy:
        front.turn()
    assert front.done == [0, 1, 2, "end"]
    assert front.of(CloseConnection) == [CloseConnection(1, "refused")]
    assert front.sent() == b"", "the answer is behind the refused request"


def test_bytes_that_cannot_be_read_close_the_connection_in_any_piece() -> None:
    front = opened(1)

    def steps(_: Call) -> Steps[None]:
        yield 1
        raise RemoteProtocolError("cut")

    front.steps = steps  # type: ignore[method-assign]
    front.put(produce(50))
    front.turn()
    assert front.of(CloseConnection) == [CloseConnection(1, "cut")]
    assert len(front.front) == 0


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_request_in_pieces_leaves_nothing_for_the_search_for_garbage(is_cut: bool) -> None:
    front = opened(1)

    def cut(_: Call) -> Steps[None]:
        yield 1
        raise RemoteProtocolError("cut")

    if is_cut:
        front.steps = cut  # type: ignore[method-assign]
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        front.put(produce(50))
        while front.front.is_busy:
            front.turn()
        front.calls.clear()
        front.deliver()
        front.effects.clear()
        left = [each for each in gc.get_objects() if isinstance(each, Call | Reply | Running)]
    finally:
        gc.enable()
        gc.unfreeze()
    assert left == []


def test_a_request_in_pieces_is_local_up_to_its_last_piece() -> None:
    front = opened(1)
    front.now_ns = 5
    front.metrics.step()
    front.put(produce(100))
    front.turn()
    assert PRODUCE not in front.metrics.kinds()
    front.now_ns += 20_000
    front.turn()
    front.deliver()
    (times,) = front.metrics.kinds()[PRODUCE].newest
    assert (times.queue_ns, times.local_ns, times.remote_ns) == (0, 23_000, 0)
    assert times.size_bytes == 100


def test_the_pauses_between_pieces_are_not_of_the_request_for_its_quota() -> None:
    front, spent = opened(1), []
    front.quotas.is_enabled = True
    front.put(produce(100))
    front.turn()
    throttle = front.calls[0].throttle
    assert throttle is not None
    spent.append(throttle._spent_ns)
    front.now_ns += 20_000
    front.turn()
    spent.append(throttle._spent_ns)
    assert spent == [2_000, 3_000]


def test_a_call_that_waits_goes_on_in_pieces() -> None:
    front = opened(1)
    in_pieces, withdrawn = front.steps, []

    def park(call: Call) -> Steps[None]:
        call.park(lambda: withdrawn.append(1))
        yield from ()

    front.steps = park  # type: ignore[method-assign]
    front.put(produce(50))
    front.turn()
    call = front.calls[0]
    call.go_on(in_pieces(call))
    front.put(list_offsets(1))
    assert front.turn() == [0, 1, 2]
    assert front.turn() == ["end", "call"]
    front.deliver()
    (times,) = front.metrics.kinds()[PRODUCE].newest
    assert (times.local_ns, times.remote_ns, withdrawn) == (0, 3_000, [])


@pytest.mark.parametrize("is_parked", [True, False])
def test_a_call_that_parks_in_its_last_piece_ends_with_its_connection(is_parked: bool) -> None:
    front, withdrawn = opened(1), []

    def steps(call: Call) -> Steps[None]:
        yield 1
        if is_parked:
            call.park(lambda: withdrawn.append(1))

    front.steps = steps  # type: ignore[method-assign]
    front.put(produce(50))
    front.turn()
    front.front.closed(1)
    assert (withdrawn == [1], len(front.front)) == (is_parked, 0)


class WithWork(InPieces):
    """A front whose Produce has work aside between two pieces."""

    def steps(self, call: Call) -> Steps[None]:
        self.done.append(0)
        yield 1
        aside = Aside(lambda: 7)
        yield aside
        self.done.append(aside.result)
        yield 1
        call.answer_parts([b"pieces"])

    def work(self) -> RunWork:
        (effect,) = (each for each in self.taken() if isinstance(each, RunWork))
        assert (effect.lane, effect.name) == (Lane.CODEC, "")
        return effect


def held() -> tuple[WithWork, RunWork]:
    front = WithWork()
    front.open(1)
    front.put(produce(50), list_offsets(1))
    assert front.turn() == [0]
    assert not front.front.is_busy, "nothing is to be done before the work has ended"
    return front, front.work()


def test_a_call_with_work_aside_goes_on_behind_it() -> None:
    front, work = held()
    front.put(list_offsets(2))
    assert front.turn() == [], "other frames wake the connection, not the call"
    work.work()
    front.services.work.on_done(work.token, None)
    assert front.turn() == [7, "call", "call"]
    assert front.sent().index(b"pieces") < front.sent().index(b"call")


@pytest.mark.parametrize("is_woken", [False, True])
def test_a_connection_that_closes_is_kept_until_work_aside_has_ended(*, is_woken: bool) -> None:
    front, work = held()
    if is_woken:
        front.put(list_offsets(2))
    front.front.closed(1)
    assert front.turn() == []
    assert len(front.front) == 1
    work.work()
    front.services.work.on_done(work.token, None)
    assert front.turn()[0] == 7
    front.turn()
    assert len(front.front) == 0
    assert front.memory.used_bytes == 0


def test_work_aside_that_raises_ends_the_node() -> None:
    front, work = held()
    with pytest.raises(MemoryError):
        front.services.work.on_done(work.token, MemoryError())
