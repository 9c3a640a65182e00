"""Requests that a fault meets, and those behind them."""

from dataclasses import replace
from functools import partial
from typing import Final

import pytest

from broker.clients.call import Call
from broker.clients.faults import Action, Fault, Faults
from broker.clients.faulty_front import REASON, FaultyFront
from broker.effects import CloseConnection, SendToKernel, UsedAtKernel
from network.memory_pool import SMALL_BYTES_MAX
from simulator.cluster.memory_vfs import MemoryVfs
from tests.broker.fronts import Fronts, api_versions, file_slice, is_open, list_offsets
from wire.api_keys import API_VERSIONS, LIST_OFFSETS, PRODUCE
from wire.connections.framing import frame
from wire.errors import ErrorCode
from wire.messages import codec

ANSWER: Final = frame(b"\0\0\0\1\0answer")


USED_INTERVAL_MS: Final = 2_000


def answered(call: Call) -> None:
    call.answer_parts((b"answer",))


class Faulty(Fronts):
    """A front with faults; each request about records is answered at once."""

    def __init__(self, *faults: Fault, is_serving: bool = True) -> None:
        self.faults = Faults()
        kind = partial(FaultyFront, self.faults, lambda _: "t")
        super().__init__(
            handle=answered, kind=kind, is_serving=is_serving, used_interval_ms=USED_INTERVAL_MS
        )
        for fault in faults:
            self.faults.add(fault)
        self.open()

    def later(self, milliseconds: int) -> None:
        """Let time pass, and do what is due."""
        self.clock.now_ms += milliseconds
        due_ms = self.front.next_ms()
        assert due_ms is not None
        if due_ms <= self.clock.now_ms:
            self.front.tick()
        self.front.go_on()


def fault(action: Action, api_key: int | None = LIST_OFFSETS, **more: object) -> Fault:
    return Fault(action=action, api_key=api_key, **more)  # type: ignore[arg-type]


def produce(acks: int) -> bytearray:
    body = replace(codec.default_request(PRODUCE), acks=acks)
    return bytearray(codec.encode_request(PRODUCE, 12, 1, "client", body))


def test_without_faults_it_is_a_front() -> None:
    fronts = Faulty()
    fronts.receive(list_offsets(1), api_versions(2))
    assert fronts.sent() == ANSWER
    assert fronts.to_kernel() == frame(bytes(api_versions(2)))


def test_without_faults_requests_of_the_kernel_do_not_wait_for_the_records() -> None:
    fronts = Faulty(is_serving=False)
    fronts.receive(api_versions(2))
    assert fronts.to_kernel() == frame(bytes(api_versions(2)))


def test_timers_of_a_front_are_its_own_too() -> None:
    fronts = Faulty(fault(Action.DELAY, delay_ms=USED_INTERVAL_MS + 9))
    used_ms = fronts.clock.now_ms + USED_INTERVAL_MS
    fronts.receive(list_offsets(1))
    assert fronts.front.next_ms() == used_ms
    fronts.later(USED_INTERVAL_MS)
    assert fronts.front.next_ms() == used_ms + 9
    fronts.later(9)
    fronts.later(USED_INTERVAL_MS)
    assert UsedAtKernel(1) in fronts.of(UsedAtKernel)


def test_a_refusal_does_nothing() -> None:
    fronts = Faulty(fault(Action.REFUSE, PRODUCE, error=ErrorCode.not_leader_or_follower, times=1))
    fronts.receive(list_offsets(1))
    assert fronts.sent() == ANSWER
    fronts.taken()
    fronts.receive(produce(1))
    assert fronts.sent()[4:9] == b"\0\0\0\1\0"
    assert len(fronts.calls) == 1, "it did not come to the handler"
    fronts.receive(produce(1))
    assert len(fronts.calls) == 2, "it is over"


def test_a_refusal_says_the_error() -> None:
    error = ErrorCode.broker_not_available
    fronts = Faulty(fault(Action.REFUSE, API_VERSIONS, error=error))
    fronts.receive(list_offsets(1), api_versions(2))
    answer = fronts.sent().removeprefix(ANSWER)
    assert codec.decode_response(API_VERSIONS, 4, answer[4:])[1].error_code is error
    assert fronts.to_kernel() == b"", "the kernel does not see it"
    fronts.deliver()
    assert fronts.metrics.errors[API_VERSIONS, int(error)] == 1


def test_a_refused_produce_without_answer_closes_its_connection() -> None:
    fronts = Faulty(fault(Action.REFUSE, PRODUCE, error=ErrorCode.not_leader_or_follower))
    fronts.receive(produce(0))
    assert fronts.sent() == b""
    assert fronts.of(CloseConnection) == [CloseConnection(1, REASON)]


@pytest.mark.parametrize("sent", [list_offsets(2), api_versions(2)])
def test_a_drop_closes_behind_earlier_answers(sent: bytearray) -> None:
    key = int.from_bytes(sent[:2], "big")
    fronts = Faulty(fault(Action.DROP, key))
    fronts.faults.end(1)
    fronts.receive(list_offsets(1))
    fronts.faults.add(fault(Action.DROP, key))
    fronts.receive(sent, list_offsets(3))
    assert fronts.sent() == ANSWER
    assert fronts.of(CloseConnection) == [CloseConnection(1, REASON)]
    assert len(fronts.calls) == 1
    assert fronts.to_kernel() == b""
    assert fronts.memory.used_bytes == 0


def test_an_answer_that_is_lost_was_given() -> None:
    vfs = MemoryVfs()
    fronts = Faulty(fault(Action.LOSE))
    kept = []

    def handle(call: Call) -> None:
        kept.append(file_slice(vfs))
        call.answer_parts((kept[0],))

    fronts.front._handlers = {LIST_OFFSETS: handle}
    fronts.receive(list_offsets(1))
    assert len(kept) == 1
    assert fronts.sent() == b""
    assert fronts.of(CloseConnection) == [CloseConnection(1, REASON)]
    assert not is_open(kept[0])


def test_what_the_kernel_does_is_not_lost() -> None:
    fronts = Faulty(fault(Action.LOSE, API_VERSIONS))
    fronts.receive(api_versions(1))
    assert fronts.to_kernel() == frame(bytes(api_versions(1)))


def test_an_answer_that_is_late_was_given_at_once() -> None:
    fronts = Faulty(fault(Action.DELAY, delay_ms=50, times=1))
    fronts.receive(list_offsets(1), list_offsets(1))
    assert len(fronts.calls) == 2
    fronts.later(49)
    assert fronts.sent() == b""
    fronts.later(1)
    assert fronts.sent() == 2 * ANSWER
    fronts.taken()
    fronts.later(1000)
    assert fronts.sent() == b""


def test_answers_are_late_in_their_order() -> None:
    fronts = Faulty(fault(Action.DELAY, delay_ms=50, times=1), fault(Action.DELAY, delay_ms=20))
    fronts.receive(list_offsets(1))
    fronts.open(2)
    fronts.receive(list_offsets(1), connection_id=2)
    assert fronts.front.next_ms() == fronts.clock.now_ms + 20
    fronts.later(20)
    assert (fronts.sent(1), fronts.sent(2)) == (b"", ANSWER)
    fronts.later(30)
    assert fronts.sent(1) == ANSWER


def test_answers_that_are_due_together() -> None:
    fronts = Faulty(fault(Action.DELAY, delay_ms=50))
    fronts.receive(list_offsets(1), list_offsets(1))
    fronts.later(50)
    assert fronts.sent() == 2 * ANSWER


def test_a_late_answer_to_a_client_that_has_gone() -> None:
    fronts = Faulty(fault(Action.DELAY, delay_ms=50))
    fronts.receive(list_offsets(1))
    fronts.front.closed(1)
    fronts.open(2)
    fronts.later(50)
    assert fronts.sent() == b""
    assert fronts.memory.used_bytes == 0


def test_a_late_request_of_the_kernel_holds_those_behind_it() -> None:
    fronts = Faulty(fault(Action.DELAY, API_VERSIONS, delay_ms=50, times=1))
    first = api_versions(1) + bytes(SMALL_BYTES_MAX)
    fronts.receive(first, list_offsets(1), api_versions(3))
    assert fronts.to_kernel() == b""
    assert fronts.calls == []
    fronts.later(50)
    assert fronts.of(SendToKernel) == [
        SendToKernel(1, frame(bytes(first))),
        SendToKernel(1, frame(bytes(api_versions(3)))),
    ]
    fronts.kernel_answers(b"first")
    assert fronts.sent() == frame(b"first") + ANSWER
    assert fronts.memory.used_bytes == 0


def test_a_late_request_of_a_client_that_has_gone() -> None:
    fronts = Faulty(fault(Action.DELAY, API_VERSIONS, delay_ms=50))
    fronts.receive(api_versions(1) + bytes(SMALL_BYTES_MAX))
    fronts.front.closed(1)
    assert fronts.memory.used_bytes > 0
    fronts.open(2)
    fronts.later(50)
    assert fronts.to_kernel() == b""
    assert fronts.memory.used_bytes == 0


def test_with_faults_for_others_requests_go_their_way() -> None:
    fronts = Faulty(fault(Action.DROP, PRODUCE))
    fronts.receive(api_versions(1), list_offsets(1), api_versions(3), bytearray(b"nonsense"))
    together = [frame(bytes(each)) for each in (api_versions(1), api_versions(3), b"nonsense")]
    assert fronts.of(SendToKernel) == [SendToKernel(1, b"".join(together))]
    assert len(fronts.calls) == 1
