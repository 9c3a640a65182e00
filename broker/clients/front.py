"""Connections of clients at the broker listeners: frames to calls or to the kernel, answers back.

Each connection has a twin of the same id at the kernel. A request about records, in a version that
is served, becomes a `Call` for its handler; every other frame goes to the kernel unchanged, which
answers it or closes the connection with its own reason. The kernel's responses come as a stream of
bytes and fill the slots of forwarded requests first in, first out; responses of both kinds leave
in the order of requests.

A connection above a quota gets its answer, and then nothing more of it is taken or read until the
throttle time is over (`broker.clients.throttling`); what is taken already goes on.

What is received waits until the budget of the turn has room, and is not read beyond that: a frame
is a piece. A connection takes all that it may before the next one; what a closed one sent before is
taken too, as long as nothing but the budget held it up. A large request is done in pieces
(`Call.go_on`), one at each look at its connection, which as in Kafka is muted until the last.

Limits: unanswered calls and requests of a connection, above which it is not read. A frame comes
with the memory that it has taken of a pool of all connections (`network.memory_pool`), which is
given back here: when it has gone to the kernel, when its call is answered, waits for replicas or
records (`Call.park`: such a call ends with its connection), or is dropped. The driver does not read
a connection with unsent output, or while the pool has no room for its next frame.

As in Kafka, what was asked before the reason to close a connection is answered first.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from broker.clients.answers import Answers
from broker.clients.call import Call, Handler, served_header
from broker.clients.client import Client
from broker.clients.client_quotas import ClientQuotas
from broker.clients.costs import (
    ANSWER_UNITS,
    BYTES_PER_UNIT,
    CALL_UNITS,
    FORWARD_UNITS,
    LOOK_UNITS,
    PARTITION_UNITS,
)
from broker.clients.kernel_answers import KernelAnswer, asked
from broker.clients.muting import MutedClients
from broker.clients.reply import Reply, close_slices, framed
from broker.clients.request_metrics import RequestMetrics
from broker.clients.running import Running, RunningCalls
from broker.clients.throttling import Throttle
from broker.clients.use_notes import USED_INTERVAL_MS, UseNotes
from broker.effects import (
    CloseAtKernel,
    CloseConnection,
    Log,
    LogLevel,
    OpenAtKernel,
    Part,
    SendToKernel,
    SetReading,
)
from broker.services import Services
from network.memory_pool import MemoryPool, counted_bytes_of
from wire.api_table import ListenerKind, apis
from wire.connections.connection import IN_FLIGHT_MAX
from wire.connections.framing import LENGTH_BYTES
from wire.connections.headers import RequestHeader
from wire.errors import RemoteProtocolError
from wire.steps import Steps

CALLS_MAX: Final = 16
"""Unanswered requests about records of a connection."""


class Front:
    """All connections of clients at the broker listeners.

    Args:
        handlers: the handler of each API about records, by key.
        memory: of the frames, as `network.memory_pool.counted_bytes` says.
        services: of the step.
        quotas: of the clients.
        metrics: of the requests.
        used_interval_ms: time between two notes to the kernel that a connection is used.
    """

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        memory: MemoryPool,
        services: Services,
        *,
        quotas: ClientQuotas,
        metrics: RequestMetrics,
        used_interval_ms: int = USED_INTERVAL_MS,
    ) -> None:
        self._handlers = handlers
        offered = apis(ListenerKind.BROKER, handlers.keys())
        self._apis = {key: api for key, api in offered.items() if key in handlers}
        self._memory = memory
        self._clock = services.clock
        self._effects = services.effects
        self._quotas = quotas
        self._metrics = metrics
        self._budget = services.budget
        self._running = RunningCalls(services, self._wake)
        self._answers = Answers(services.effects, metrics)
        self._muted = MutedClients()
        self._uses = UseNotes(used_interval_ms, memory, services.effects)
        self._clients: dict[int, Client] = {}
        self._woken: dict[int, Client] = {}
        """Clients to look at again."""
        self._received: list[Client] = []
        """Those that received frames in this turn."""
        self._forwarded: list[bytes | bytearray] = []
        """For the kernel, of the client that is being looked at."""
        self._is_serving = False
        self.accepted: Counter[str] = Counter()
        """Connections since the start, by listener."""

    def __len__(self) -> int:
        """Return the number of open connections."""
        return len(self._clients)

    def connection_counts(self) -> dict[str, int]:
        """Return the number of open connections by listener."""
        return Counter(client.listener for client in self._clients.values())

    @property
    def queued_count(self) -> int:
        """Frames that are not taken yet."""
        return sum(len(client.waiting) for client in self._clients.values())

    def serve(self) -> None:
        """Begin to serve calls, those that wait first."""
        self._is_serving = True
        self._woken.update(self._clients)

    # ---- events ------------------------------------------------------------------------------

    def opened(self, connection_id: int, listener: str, client_host: str) -> None:
        """Take a new connection, which the kernel may refuse."""
        assert connection_id not in self._clients, f"{connection_id=} is open"
        if not self._clients:
            self._uses.begin(self._clock.now_ms)
        self._clients[connection_id] = Client(connection_id, listener, client_host)
        self.accepted[listener] += 1
        self._effects.append(OpenAtKernel(connection_id, listener, client_host))

    def received(self, connection_id: int, frames: Sequence[bytearray]) -> None:
        """Take whole frames with their memory, to be looked at when the front goes on."""
        client = self._clients.get(connection_id)
        if client is not None and client.closing is None:
            if not client.waiting:
                client.received_ns = self._metrics.step_ns
            client.waiting.extend(frames)
            self._woken[connection_id] = client
            self._received.append(client)
        else:
            self._memory.drop(frames)

    def broken(self, connection_id: int, reason: str) -> None:
        """Close a connection behind the frames received before."""
        client = self._clients.get(connection_id)
        if client is not None:
            client.broken = reason
            self._woken[connection_id] = client

    def closed(self, connection_id: int) -> None:
        """Forget a closed connection, behind what waits for a turn; its answers are dropped."""
        client = self._clients.get(connection_id)
        if client is not None:
            is_woken = (client.waiting or client.running) and connection_id in self._woken
            if is_woken or client.is_held:
                client.has_gone = True
            else:
                self._forget(client)

    def kernel_bytes(self, connection_id: int, content: bytes, spent_ns: int = 0) -> None:
        """Take bytes of the kernel: responses to forwarded requests, in order.

        Their time is charged with the first one that ends in them.
        """
        client = self._clients.get(connection_id)
        if client is None:
            return
        responses = client.responses
        responses.feed(content)
        while (response := responses.next_frame()) is not None:
            assert client.forwarded, "the kernel answers a request once"
            slot, request = client.forwarded.popleft()
            answer = None
            if request is not None:
                now_ns = self._metrics.nanoseconds()
                answer = KernelAnswer(request, spent_ns, now_ns)
                response = answer.charged(self._quotas, client.caller, request, response)
                if answer.throttle_ms:
                    self._mute(client, answer.throttle_ms)
                spent_ns = 0
            self._answers.release(client, slot, framed((response,)), answer)
        self._woken[connection_id] = client

    def kernel_closed(self, connection_id: int, reason: str) -> None:
        """Close a connection with the kernel's reason, behind the answers before the refused one.

        The kernel has written its log line.
        """
        client = self._clients.get(connection_id)
        if client is not None:
            client.is_at_kernel = False
            self._end(client, reason, client.forwarded[0][0] if client.forwarded else None)
            self._settle(client)

    # ---- requests ----------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """True if connections have got frames, an answer, or room."""
        return bool(self._woken)

    def go_on(self) -> None:
        """Take frames of those connections while the budget has room."""
        woken, budget = self._woken, self._budget
        while woken and budget.has_room:
            budget.spend(LOOK_UNITS)
            self._take(woken.pop(next(iter(woken))))

    def pause(self) -> None:
        """Do not read what has frames that wait for the next turn; ends each half of a step."""
        self._answers.end()
        received, self._received = self._received, []
        for client in received:
            if client.connection_id in self._woken:
                self._settle(client)

    def _take(self, client: Client) -> None:
        """Take the waiting frames for which there is room, in order, behind what is running."""
        waiting, slots, budget = client.waiting, client.slots, self._budget
        if client.running:
            self._running.go_on(client)
        while waiting and not (client.muted_until_ms or client.running or client.held):
            if slots.in_flight_count >= IN_FLIGHT_MAX:
                break
            if not budget.has_room:
                self._woken[client.connection_id] = client
                break
            frame = waiting[0]
            call = served_header(frame, self._apis)
            if call is None:
                waiting.popleft()
                self._forward(client, frame)
                continue
            if not self._is_serving or client.calls >= CALLS_MAX:
                break
            waiting.popleft()
            budget.spend(CALL_UNITS + len(frame) // BYTES_PER_UNIT)
            header, position = call
            self._call(client, header, frame, position)
        if self._forwarded:
            self._effects.append(SendToKernel(client.connection_id, b"".join(self._forwarded)))
            self._forwarded.clear()
        if self._clients.get(client.connection_id) is client:
            self._look(client)

    def _forward(self, client: Client, frame: bytearray) -> None:
        """Let the kernel answer a request; `_take` sends those of a client together."""
        self._budget.spend(FORWARD_UNITS + len(frame) // BYTES_PER_UNIT)
        self._memory.release(counted_bytes_of(frame))
        request = asked(frame, client.received_ns, self._metrics)
        client.forwarded.append((client.slots.take(), request))
        self._forwarded += (len(frame).to_bytes(LENGTH_BYTES, "big"), frame)

    def _look(self, client: Client) -> None:
        """End, forget or settle a connection, unless it was closed while a request was held."""
        if client.broken is not None and not client.waiting:
            self._end(client, client.broken)
        if client.has_gone and not (client.is_held or client.connection_id in self._woken):
            self._forget(client)
        else:
            self._settle(client)

    def _call(self, client: Client, header: RequestHeader, frame: bytearray, position: int) -> None:
        client.calls += 1
        throttle, size = None, counted_bytes_of(frame)
        reply = Reply(self._answered, self._begin, self._released, client, size)
        if self._quotas.is_enabled:
            mute = partial(self._throttle, reply)
            throttle = Throttle(self._quotas, client.caller, header.client_id, mute)
        call = Call(
            header,
            frame=frame,
            position=position,
            caller=client.caller,
            listener=client.listener,
            respond=reply,
            throttle=throttle,
            errors=self._metrics.errors,
        )
        call.run, call.hold = reply.run, reply.hold
        started_ns = self._metrics.nanoseconds()
        try:
            self._handlers[header.api_key](call)
        except RemoteProtocolError as error:
            reply(None, str(error))
        if throttle is not None:
            throttle.handled()
        times = (client.received_ns, started_ns, len(frame))
        if reply.running is None:
            self._handled(call, reply, times)
        else:
            self._budget.spend(call.units)
            call.units = 0
            reply.running.throttle = throttle
            reply.running.handled = partial(self._handled, call, reply, times)

    def _handled(self, call: Call, reply: Reply, times: tuple[int, int, int]) -> None:
        """Note the end of a handler, with when its call was received and begun, and the bytes."""
        self._budget.spend(call.partition_count * PARTITION_UNITS + call.units)
        received_ns, started_ns, size_bytes = times
        self._metrics.begun(call.kind, call.header.api_version)
        handled_ns = self._metrics.nanoseconds()
        reply.begun = (call.kind, received_ns, started_ns, handled_ns, size_bytes)
        if reply.is_answered:
            reply.answered_ns = handled_ns
            return
        self._parked(reply, call.take_withdraw())

    def _parked(self, reply: Reply, withdraw: Callable[[], None] | None) -> None:
        if withdraw is not None and not reply.is_answered:
            reply.client.parked[reply.slot] = withdraw
            self._release_bytes(reply)

    def _released(self, reply: Reply, withdraw: Callable[[], None] | None) -> None:
        """Take later requests again; who waits on ends with the connection, also a closed one."""
        client = reply.client
        if self._clients.get(client.connection_id) is client:
            self._parked(reply, withdraw)
            self._woken[client.connection_id] = client
        elif withdraw is not None:
            withdraw()
            self._release_bytes(reply)

    def _begin(self, reply: Reply, steps: Steps[None]) -> None:
        """Go on with a call in pieces, behind those of its connection that are running."""
        reply.running = reply.client.begin(Running(reply, steps))
        self._wake(reply.client)

    def _wake(self, client: Client) -> None:
        self._woken[client.connection_id] = client

    # ---- answers -----------------------------------------------------------------------------

    def _answered(
        self, reply: Reply, parts: Sequence[Part] | None, close_reason: str | None
    ) -> None:
        client = reply.client
        self._release_bytes(reply)
        client.answered(reply.slot)
        if self._clients.get(client.connection_id) is not client:
            close_slices(parts or ())
            return
        if reply.begun is not None:
            self._budget.spend(ANSWER_UNITS)
            reply.answered_ns = self._metrics.nanoseconds()
        if close_reason is not None:
            self._end(client, close_reason)
        content = () if parts is None else framed(parts)
        self._answers.release(client, reply.slot, content, reply)
        if not client.is_settled:  # most clients wait for their answer, and have sent nothing more
            self._woken[client.connection_id] = client

    def _release_bytes(self, reply: Reply) -> None:
        """Give back the bytes of a frame that is not needed any more."""
        self._memory.release(reply.queued_bytes)
        reply.queued_bytes = 0

    # ---- the end of a connection -------------------------------------------------------------

    def _end(self, client: Client, reason: str, end_slot: int | None = None) -> None:
        """Take no further request; `_settle` closes it behind the answers before the slot.

        None for the slot: behind the answers to all that was taken.
        """
        if client.closing is None:
            client.closing = reason
            client.end_slot = client.slots.next_slot
        if end_slot is not None:
            client.end_slot = min(client.end_slot, end_slot)
        self._memory.drop(client.waiting)
        client.waiting.clear()

    def _settle(self, client: Client) -> None:
        """Close a connection that is at its end; read others only while there is room."""
        slots = client.slots
        if client.closing is None:
            is_full = client.calls >= CALLS_MAX or slots.in_flight_count >= IN_FLIGHT_MAX
            is_busy = client.waiting or client.running or client.held
            is_wanted = not (is_busy or is_full or client.muted_until_ms)
        elif slots.oldest >= client.end_slot and not client.running:
            self._close(client, client.closing)
            return
        else:
            is_wanted = False
        if client.is_read != is_wanted:
            client.is_read = is_wanted
            self._effects.append(SetReading(client.connection_id, is_wanted))

    def _close(self, client: Client, reason: str) -> None:
        if client.is_at_kernel:
            fields = {"listener": client.listener, "client": client.host, "reason": reason}
            self._effects.append(Log(LogLevel.WARN, "connection_closed", fields))
        self._effects.append(CloseConnection(client.connection_id, reason))
        self._forget(client)

    def _forget(self, client: Client) -> None:
        del self._clients[client.connection_id]
        self._woken.pop(client.connection_id, None)
        self._memory.drop(client.waiting)
        client.waiting.clear()
        self._answers.drop(client)
        for withdraw in client.parked.values():
            withdraw()
        if client.is_at_kernel:
            self._effects.append(CloseAtKernel(client.connection_id))

    def _throttle(self, reply: Reply, throttle_ms: int) -> None:
        reply.throttle_ms = throttle_ms
        self._mute(reply.client, throttle_ms)

    def _mute(self, client: Client, throttle_ms: int) -> None:
        """Take and read nothing of a connection for a time."""
        self._muted.mute(client, self._clock.now_ms + throttle_ms)

    # ---- time --------------------------------------------------------------------------------

    def next_ms(self) -> int | None:
        """Time of the next `tick`, None for none."""
        unmuted_ms = self._muted.next_ms()
        if unmuted_ms is not None:
            return min(self._uses.next_ms, unmuted_ms)
        return self._uses.next_ms if self._clients else None

    def tick(self) -> None:
        """Go on with connections whose throttle time is over; note to the kernel those in use."""
        now_ms = self._clock.now_ms
        for client in self._muted.over(now_ms, self._clients):
            self._woken[client.connection_id] = client
        if now_ms >= self._uses.next_ms:
            self._uses.note(self._clients, now_ms)
