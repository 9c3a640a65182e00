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
taken too, as long as nothing but the budget held it up.

Limits: unanswered calls and requests of a connection, above which it is not read; bytes of the
frames of calls over all connections (`queued_bytes_max`), above which the connections that would
hold more wait in the order in which they came and are not read. A call that waits for replicas or
records (`Call.park`) holds no bytes, and ends with its connection. Requests smaller than
`SMALL_BYTES_MAX` other than Produce do not wait for those bytes. The driver does not read a
connection with unsent output.

As in Kafka, what was asked before the reason to close a connection is answered first.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Final

from broker.clients.call import Call
from broker.clients.client import Client
from broker.clients.client_quotas import ClientQuotas
from broker.clients.reply import Reply, close_slices, framed
from broker.clients.request_metrics import RequestMetrics
from broker.clients.throttling import Throttle
from broker.effects import (
    CloseAtKernel,
    CloseConnection,
    EffectSink,
    Log,
    LogLevel,
    OpenAtKernel,
    Part,
    SendParts,
    SendToKernel,
    SetReading,
    UsedAtKernel,
)
from network.clock import Clock
from network.turn_budget import TurnBudget
from wire.api_keys import PRODUCE
from wire.api_table import ListenerKind, apis
from wire.connections.connection import IN_FLIGHT_MAX
from wire.connections.framing import LENGTH_BYTES
from wire.connections.headers import RequestHeader, parse_request_header
from wire.errors import RemoteProtocolError
from wire.messages import codec
from wire.primitives import skip_tagged_fields

CALLS_MAX: Final = 16
"""Unanswered requests about records of a connection."""
SMALL_BYTES_MAX: Final = 1024 * 1024
"""Size above which any request waits for room; a follower's Fetch of 10,000 partitions is below."""
USED_INTERVAL_MS: Final = 60_000
"""Time between two notes to the kernel that a connection is used, at most."""

_LOOK_UNITS: Final = 2
"""Cost of a look at a connection."""
FORWARD_UNITS: Final = 6
"""Cost of a frame for the kernel."""
CALL_UNITS: Final = 60
"""Cost of a call beside those of its bytes and its partitions."""
PARTITION_UNITS: Final = 30
"""Cost of a partition that the handler of a call looked at."""
BYTES_PER_UNIT: Final = 2048
"""Bytes of a frame that cost a unit: they are copied, checked and written."""
_ANSWER_UNITS: Final = 10
"""Cost of an answer that has waited."""

Handler = Callable[[Call], None]


class Front:
    """All connections of clients at the broker listeners.

    Args:
        handlers: the handler of each API about records, by key.
        queued_bytes_max: limit of the bytes held by unanswered calls.
        clock: clock of the broker.
        effects: sink of the effects.
        quotas: of the clients.
        metrics: of the requests.
        budget: of the turn.
        used_interval_ms: time between two notes to the kernel that a connection is used.
    """

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        queued_bytes_max: int,
        clock: Clock,
        effects: EffectSink,
        *,
        quotas: ClientQuotas,
        metrics: RequestMetrics,
        budget: TurnBudget,
        used_interval_ms: int = USED_INTERVAL_MS,
    ) -> None:
        self._handlers = handlers
        offered = apis(ListenerKind.BROKER, handlers.keys())
        self._apis = {key: api for key, api in offered.items() if key in handlers}
        self._queued_bytes_max = queued_bytes_max
        self._clock = clock
        self._effects = effects
        self._quotas = quotas
        self._metrics = metrics
        self._budget = budget
        self._muted: list[tuple[int, int]] = []
        """Heap of the ends of throttle times, with their connections."""
        self._used_interval_ms = used_interval_ms
        self._used_ms = 0
        """Time of the next notes to the kernel, while there are connections."""
        self._clients: dict[int, Client] = {}
        self._queued_bytes = 0
        # Clients whose next request waits for room, first come first; and those to look at again.
        self._starved: dict[int, Client] = {}
        self._woken: dict[int, Client] = {}
        self._received: list[Client] = []
        """Those that received frames in this turn."""
        self._is_serving = False
        self.accepted: Counter[str] = Counter()
        """Connections since the start, by listener."""
        self.requests: dict[tuple[int, int], int] = {}
        """Calls since the start, by API key and version."""

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

    @property
    def queued_bytes(self) -> int:
        """Bytes of the frames of unanswered calls that count for the limit."""
        return self._queued_bytes

    def serve(self) -> None:
        """Begin to serve calls, those that wait first."""
        self._is_serving = True
        self._woken.update(self._clients)

    # ---- events ------------------------------------------------------------------------------

    def opened(self, connection_id: int, listener: str, client_host: str) -> None:
        """Take a new connection, which the kernel may refuse."""
        assert connection_id not in self._clients, f"{connection_id=} is open"
        if not self._clients:
            self._used_ms = self._clock.now_ms + self._used_interval_ms
        self._clients[connection_id] = Client(connection_id, listener, client_host)
        self.accepted[listener] += 1
        self._effects.append(OpenAtKernel(connection_id, listener, client_host))

    def received(self, connection_id: int, frames: Sequence[bytearray]) -> None:
        """Take whole frames, to be looked at when the front goes on."""
        client = self._clients.get(connection_id)
        if client is not None and client.closing is None:
            if not client.waiting:
                client.received_ns = self._metrics.step_ns
            client.waiting.extend(frames)
            self._woken[connection_id] = client
            self._received.append(client)

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
            if client.waiting and connection_id in self._woken:
                client.has_gone = True
            else:
                self._forget(client)

    def kernel_bytes(self, connection_id: int, content: bytes) -> None:
        """Take bytes of the kernel: responses to forwarded requests, in order."""
        client = self._clients.get(connection_id)
        if client is None:
            return
        responses = client.responses
        responses.feed(content)
        while (response := responses.next_frame()) is not None:
            assert client.forwarded, "the kernel answers a request once"
            self._release(client, client.forwarded.popleft(), framed((response,)))
        self._woken[connection_id] = client

    def kernel_closed(self, connection_id: int, reason: str) -> None:
        """Close a connection with the kernel's reason, behind the answers before the refused one.

        The kernel has written its log line.
        """
        client = self._clients.get(connection_id)
        if client is not None:
            client.is_at_kernel = False
            self._end(client, reason, client.forwarded[0] if client.forwarded else None)
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
            budget.spend(_LOOK_UNITS)
            self._take(woken.pop(next(iter(woken))))

    def pause(self) -> None:
        """Do not read what has frames that wait for the next turn; ends each half of a step."""
        received, self._received = self._received, []
        for client in received:
            if client.waiting and self._clients.get(client.connection_id) is client:
                self._settle(client)

    def _take(self, client: Client) -> None:
        """Take the waiting frames for which there is room, in order."""
        waiting, slots, budget = client.waiting, client.slots, self._budget
        forwarded: list[bytes | bytearray] = []
        while waiting and slots.in_flight_count < IN_FLIGHT_MAX and not client.muted_until_ms:
            if not budget.has_room:
                self._woken[client.connection_id] = client
                break
            frame = waiting[0]
            call = self._served(frame)
            if call is None:
                waiting.popleft()
                budget.spend(FORWARD_UNITS + len(frame) // BYTES_PER_UNIT)
                client.forwarded.append(slots.take())
                forwarded += (len(frame).to_bytes(LENGTH_BYTES, "big"), frame)
                continue
            header, position = call
            is_bulk = header.api_key == PRODUCE or len(frame) > SMALL_BYTES_MAX
            queued_bytes = len(frame) if is_bulk else 0
            if not self._has_room(client, queued_bytes):
                break
            waiting.popleft()
            budget.spend(CALL_UNITS + len(frame) // BYTES_PER_UNIT)
            self._call(client, header, frame, position, queued_bytes)
        if forwarded:
            self._effects.append(SendToKernel(client.connection_id, b"".join(forwarded)))
        if client.broken is not None and not waiting:
            self._end(client, client.broken)
        if client.has_gone and client.connection_id not in self._woken:
            self._forget(client)
        else:
            self._settle(client)

    def _served(self, frame: bytearray) -> tuple[RequestHeader, int] | None:
        """Header of a request about records and the position of its body, else None."""
        try:
            header, position = parse_request_header(frame)
            api = self._apis.get(header.api_key)
            if api is None or not api.min_version <= header.api_version <= api.max_version:
                return None
            if codec.is_flexible(header.api_key, header.api_version):
                position = skip_tagged_fields(frame, position)
        except (RemoteProtocolError, LookupError):  # LookupError: offered, but has no schema
            return None
        return header, position

    def _has_room(self, client: Client, queued_bytes: int) -> bool:
        """Return False if the next call must wait; a larger one than the limit is served alone."""
        if not self._is_serving or client.calls >= CALLS_MAX:
            return False
        if queued_bytes == 0:
            return True
        starved = self._starved
        first = next(iter(starved.values()), client)
        sum_bytes = self._queued_bytes + queued_bytes
        if client is not first or sum_bytes > max(self._queued_bytes_max, queued_bytes):
            starved[client.connection_id] = client
            return False
        if starved.pop(client.connection_id, None) is not None:
            self._wake_starved()
        return True

    def _call(
        self,
        client: Client,
        header: RequestHeader,
        frame: bytearray,
        position: int,
        queued_bytes: int,
    ) -> None:
        self._queued_bytes += queued_bytes
        client.calls += 1
        kind = (header.api_key, header.api_version)
        self.requests[kind] = self.requests.get(kind, 0) + 1
        reply, throttle = Reply(self._answered, client, queued_bytes), None
        if self._quotas.is_enabled:
            mute = partial(self._mute, reply)
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
        started_ns = self._metrics.nanoseconds()
        try:
            self._handlers[header.api_key](call)
        except RemoteProtocolError as error:
            reply(None, str(error))
        self._budget.spend(call.partition_count * PARTITION_UNITS)
        if throttle is not None:
            throttle.handled()
        handled_ns = self._metrics.nanoseconds()
        begun = (call.kind, client.received_ns, started_ns, handled_ns, len(frame))
        if reply.is_answered:
            self._metrics.answered(begun, handled_ns, reply.throttle_ms)
            return
        reply.begun = begun
        if call.withdraw is not None:
            client.parked[reply.slot] = call.withdraw
            self._release_bytes(reply)

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
            self._budget.spend(_ANSWER_UNITS)
            self._metrics.answered(reply.begun, self._metrics.nanoseconds(), reply.throttle_ms)
        if close_reason is not None:
            self._end(client, close_reason)
        self._release(client, reply.slot, () if parts is None else framed(parts))
        self._woken[client.connection_id] = client

    def _release_bytes(self, reply: Reply) -> None:
        """Give back the bytes of a frame that is not needed any more."""
        if reply.queued_bytes:
            self._queued_bytes -= reply.queued_bytes
            reply.queued_bytes = 0
            self._wake_starved()

    def _release(self, client: Client, slot: int, content: Sequence[Part]) -> None:
        parts = [part for each in client.slots.release(slot, content) for part in each]
        if parts:
            self._effects.append(SendParts(client.connection_id, tuple(parts)))

    def _wake_starved(self) -> None:
        """Look again at the first connection that waits for room."""
        for connection_id, client in self._starved.items():
            self._woken[connection_id] = client
            return

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
        client.waiting.clear()
        self._leave_starved(client)

    def _settle(self, client: Client) -> None:
        """Close a connection that is at its end; read others only while there is room."""
        slots = client.slots
        if client.closing is None:
            is_full = client.calls >= CALLS_MAX or slots.in_flight_count >= IN_FLIGHT_MAX
            is_wanted = not (client.waiting or is_full or client.muted_until_ms)
        elif slots.oldest >= client.end_slot:
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
        self._leave_starved(client)
        for parts in client.slots.drop():
            close_slices(parts)
        for withdraw in client.parked.values():
            withdraw()
        if client.is_at_kernel:
            self._effects.append(CloseAtKernel(client.connection_id))

    def _leave_starved(self, client: Client) -> None:
        if self._starved.pop(client.connection_id, None) is not None:
            self._wake_starved()

    def _mute(self, reply: Reply, throttle_ms: int) -> None:
        """Take and read nothing of a connection for a time; it lets others have its room."""
        client, reply.throttle_ms = reply.client, throttle_ms
        until_ms = self._clock.now_ms + throttle_ms
        if until_ms > client.muted_until_ms:
            client.muted_until_ms = until_ms
            heappush(self._muted, (until_ms, client.connection_id))
            self._leave_starved(client)

    # ---- time --------------------------------------------------------------------------------

    def next_ms(self) -> int | None:
        """Time of the next `tick`, None for none."""
        if self._muted:
            return min(self._used_ms, self._muted[0][0])
        return self._used_ms if self._clients else None

    def tick(self) -> None:
        """Go on with connections whose throttle time is over; note to the kernel those in use."""
        now_ms, muted = self._clock.now_ms, self._muted
        while muted and muted[0][0] <= now_ms:
            client = self._clients.get(heappop(muted)[1])
            if client is not None and client.muted_until_ms <= now_ms:
                client.muted_until_ms = 0
                self._woken[client.connection_id] = client
        if now_ms >= self._used_ms:
            self._note_used()

    def _note_used(self) -> None:
        """Tell the kernel the connections that were used for records or await an answer."""
        self._used_ms = self._clock.now_ms + self._used_interval_ms
        for client in self._clients.values():
            is_waiting = client.calls or client.waiting or client.muted_until_ms
            if client.is_at_kernel and (client.is_used or is_waiting):
                client.is_used = False
                self._effects.append(UsedAtKernel(client.connection_id))


def used_interval_ms(idle_ms_max: int) -> int:
    """Time between notes by which the kernel, with this limit, closes no connection in use."""
    return min(USED_INTERVAL_MS, max(1, idle_ms_max // 4)) if idle_ms_max else USED_INTERVAL_MS
