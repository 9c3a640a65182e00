"""The front of a node in a test, which may be asked for faults: refuse, delay, drop or lose.

It takes the place of `Front` where a node is started with the switch (`node.faults`), and of
nothing else: a front without faults knows nothing of them.

While there are faults, a request of the kernel passes here as one about records does, so that it
can be met too. What is delayed of the kernel's waits before it is forwarded, with all behind it.
Metadata always passes here: what it says of new topics may wait (`broker.clients.new_topics`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from heapq import heappop, heappush
from typing import Any, Final
from uuid import UUID

from typing_extensions import override

from broker.clients.call import Call, Handler, Respond
from broker.clients.client import Client
from broker.clients.faults import Action, Fault, Faults, body_of
from broker.clients.front import Front
from broker.clients.new_topics import PatientAnswers
from broker.clients.reply import close_slices
from broker.effects import Part, SendToKernel
from network.memory_pool import counted_bytes_of
from wire.api_keys import METADATA
from wire.api_table import SCHEMAS, Api, ListenerKind, apis
from wire.connections.headers import RequestHeader
from wire.messages.refusals import refusal

REASON: Final = "a fault that the test asked for"
"""Of a close, and the message of an error."""


class FaultyFront(Front):
    """A front with faults.

    Args:
        faults: changed between two steps.
        topic_name: name of the topic of an id.
        arguments: as those of `Front`.
        more: as those of `Front`.
    """

    def __init__(
        self,
        faults: Faults,
        topic_name: Callable[[UUID], str | None],
        *arguments: Any,
        **more: Any,
    ) -> None:
        super().__init__(*arguments, **more)
        self._faults = faults
        self._topic_name = topic_name
        self._served = self._apis
        self._watched = self._apis | {METADATA: _all_apis()[METADATA]}
        self._patient = PatientAnswers(self._later, self._effects, self._metrics)
        self._answers = self._patient
        self._late: list[tuple[int, int, Callable[[], None]]] = []
        """Heap of what is done late: when, a number that keeps the order, and what."""
        self._late_count = 0

    @override
    def go_on(self) -> None:
        """As `Front`; with faults, requests of all APIs pass `_call`."""
        self._apis = _all_apis() if self._faults else self._watched
        super().go_on()

    @override
    def kernel_closed(self, connection_id: int, reason: str) -> None:
        """As `Front`; what was to be asked again is answered as it is."""
        client = self._clients.get(connection_id)
        if client is not None:
            self._patient.give_up(client)
        super().kernel_closed(connection_id, reason)

    @override
    def _call(self, client: Client, header: RequestHeader, frame: bytearray, position: int) -> None:
        body = cache(partial(body_of, header, frame, position))
        fault = self._faults.meet(header, body, self._topic_name) if self._faults else None
        is_served = header.api_key in self._served
        if fault is None or (fault.action is Action.LOSE and not is_served):
            if is_served:
                super()._call(client, header, frame, position)
            else:
                self._forward(client, frame)
                if header.api_key == METADATA:
                    self._patient.note(client, header, frame)
        elif fault.action is Action.DELAY and not is_served:
            client.held += 1
            self._later(fault.delay_ms, partial(self._go_on_late, client, frame))
        else:
            handlers = self._handlers
            self._handlers = {header.api_key: self._handler(fault, handlers, header.api_key)}
            try:
                super()._call(client, header, frame, position)
            finally:
                self._handlers = handlers

    def _handler(self, fault: Fault, handlers: Mapping[int, Handler], api_key: int) -> Handler:
        """The handler of a request that a fault meets."""
        if fault.action is Action.REFUSE:
            return partial(_refuse, fault)
        if fault.action is Action.DROP:
            return _drop
        way = _lose if fault.action is Action.LOSE else partial(self._answer_late, fault.delay_ms)

        def handle(call: Call) -> None:
            call.answer_by(way)
            handlers[api_key](call)

        return handle

    # ---- what is late --------------------------------------------------------------------------

    def _later(self, delay_ms: int, what: Callable[[], None]) -> None:
        self._late_count += 1
        heappush(self._late, (self._clock.now_ms + delay_ms, self._late_count, what))

    def _answer_late(
        self, delay_ms: int, respond: Respond, parts: Sequence[Part] | None, reason: str | None
    ) -> None:
        self._later(delay_ms, partial(respond, parts, reason))

    def _go_on_late(self, client: Client, frame: bytearray) -> None:
        """Forward a request that was held, and go on with those behind it."""
        client.held -= 1
        if self._clients.get(client.connection_id) is not client:
            self._memory.release(counted_bytes_of(frame))
            return
        self._forward(client, frame)
        self._effects.append(SendToKernel(client.connection_id, b"".join(self._forwarded)))
        self._forwarded.clear()
        self._wake(client)

    @override
    def next_ms(self) -> int | None:
        """Time of the next `tick`, None for none."""
        next_ms = super().next_ms()
        if not self._late:
            return next_ms
        late_ms = self._late[0][0]
        return late_ms if next_ms is None else min(next_ms, late_ms)

    @override
    def tick(self) -> None:
        """As `Front`; do what is late and due."""
        super().tick()
        while self._late and self._late[0][0] <= self._clock.now_ms:
            heappop(self._late)[2]()


def _refuse(fault: Fault, call: Call) -> None:
    header = call.header
    body = body_of(header, call.frame, call.position)
    refused = refusal(header.api_key, header.api_version, body, fault.error, REASON)
    if refused is None:
        call.answer_nothing(REASON)  # as Kafka closes a connection whose Produce wants no answer
    else:
        call.answer(refused)


def _drop(call: Call) -> None:
    call.answer_nothing(REASON)


def _lose(respond: Respond, parts: Sequence[Part] | None, reason: str | None) -> None:
    close_slices(parts or ())
    respond(None, reason or REASON)


@cache
def _all_apis() -> dict[int, Api]:
    offered = [key for key, schema in SCHEMAS.items() if schema.broker_range is not None]
    return apis(ListenerKind.BROKER, offered)
