"""Incoming connections of a node: bytes to requests, answers to bytes, in order.

Five limits: the number of unanswered requests, above which a connection is not read (`SetReading`);
the work on one connection in each step; the number and idle time of connections
(`connection_limits`); the rate of new ones (`connection_rate`); in the driver, the bytes that a
client does not read.

As in Kafka, a broker answers clients only once it has caught up with the metadata: a response
without brokers or controller would make a client wait for its own time-out instead of trying
another node. Unlike Kafka's, the broker need not be registered by then: a killed broker that
restarts can register only when its old session has expired, and can answer and forward until then.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

from metadata.image import Image
from network.answers import Encoded, NoResponse
from network.clock import Clock
from network.connection_limits import ConnectionCounts, ConnectionLimits, RefusalLog
from network.connection_rate import AddressRates, Gate
from network.effects import CloseConnection, EffectSink, Log, LogLevel, SendBytes, SetReading
from network.served_requests import ServedRequests, Timed
from network.timers import ADMISSION, BACKLOG, IDLE, NEVER_MS
from wire.api_table import Api, ListenerKind
from wire.connections.connection import Request, ServerConnection
from wire.errors import LocalProtocolError, RemoteProtocolError

REQUESTS_PER_STEP: Final = 128
"""Requests of one connection in a step: as many as a busy broker sends the controller at once."""
RESPONSE_BYTES_PER_STEP: Final = 256 * 1024


class Client:
    """An incoming connection.

    `used_ms` is the time of its last bytes in either direction; `held` are bytes received before it
    is served: the node has not caught up, or a rate limit delays the connection (`is_early`).
    `received_ns` is the time of the oldest bytes that are not served, but for those.
    """

    __slots__ = (
        "address",
        "connection",
        "connection_id",
        "held",
        "host",
        "is_early",
        "is_read",
        "is_taking",
        "kind",
        "listener",
        "received_ns",
        "sent_bytes",
        "spent_ns",
        "used_ms",
    )

    def __init__(
        self,
        connection_id: int,
        listener: str,
        kind: ListenerKind,
        host: str,
        connection: ServerConnection,
        now_ms: int,
    ) -> None:
        self.connection_id = connection_id
        self.listener = listener
        self.kind = kind
        self.host = host
        self.address = address_bytes(host)
        self.connection = connection
        self.held = b""
        self.is_early = False
        self.is_read = True
        self.is_taking = False
        self.received_ns = 0
        self.sent_bytes = 0
        self.spent_ns = 0
        self.used_ms = now_ms


Answered = Callable[[Any], None]
Serve = Callable[[Client, Request, Answered], None]
MakeServerConnection = Callable[[Mapping[int, Api], int], ServerConnection]
"""A function of the listener's APIs and the maximum size of a request, in bytes."""


class Connections:
    """All incoming connections of a node.

    Args:
        apis: APIs served by each kind of listener.
        controller_listeners: names of the controller listeners.
        limits: limits of counts, sizes and idle time.
        clock: clock of the node.
        effects: sink of the effects.
        serve: called with each request and the function to answer it.
        address_rate: returns the allowed connections per second of an address; None = any.
        make_connection: decoder of requests; the simulator's may take bodies from memory.
    """

    def __init__(
        self,
        apis: Mapping[ListenerKind, Mapping[int, Api]],
        controller_listeners: tuple[str, ...],
        limits: ConnectionLimits,
        clock: Clock,
        effects: EffectSink,
        serve: Serve,
        *,
        address_rate: Callable[[str], float | None] = lambda _: None,
        make_connection: MakeServerConnection = ServerConnection,
    ) -> None:
        self._apis = apis
        self._controller_listeners = controller_listeners
        self._limits = limits
        self._idle_ms_max = limits.idle_ms_max
        self._clock = clock
        self._timers = clock.timers
        self._effects = effects
        self._serve = serve
        self._counts = ConnectionCounts(limits)
        self._refusals = RefusalLog()
        self._address_rate = address_rate
        self._address_rates = AddressRates(limits.quota_window)
        self._gates = {
            kind: Gate(limits.creation_rate, limits.quota_window) for kind in ListenerKind
        }
        self._limited_gates = self._limited()
        self._delays = RefusalLog()
        # Connections refused by the rate of their address: (time of closing, id).
        self._leaving: list[tuple[int, int]] = []
        # Least recently used first.
        self._clients: OrderedDict[int, Client] = OrderedDict()
        self._oldest: Client | None = None
        """First of `_clients`."""
        # Clients with requests left for the next step.
        self._backlog: dict[int, Client] = {}
        self.serves_clients = False
        """True once broker listeners are served, after `serve_clients`."""
        self._make_connection = make_connection
        self.nanoseconds: Callable[[], int] = lambda: 0
        """Clock that times requests."""
        self.served = ServedRequests()
        self.expired: Counter[str] = Counter()
        """Connections that were closed because they were idle, by listener."""

    def limit(self, limits: ConnectionLimits) -> None:
        """Take other limits of the number and the rate of connections; those that are open stay."""
        self._limits = limits
        self._counts.limit(limits)
        for gate in self._gates.values():
            gate.rate = limits.creation_rate
        self._limited_gates = self._limited()

    def _limited(self) -> tuple[Gate, ...]:
        """The gates at which connections wait, or may have to."""
        return tuple(gate for gate in self._gates.values() if gate.is_limited or gate)

    def __len__(self) -> int:
        """Return the number of open connections."""
        return len(self._clients)

    def opened(self, connection_id: int, listener: str, client_host: str) -> None:
        """Accept, delay or refuse a new connection."""
        assert connection_id not in self._clients, f"{connection_id=} is open"
        is_controller = listener in self._controller_listeners
        kind = ListenerKind.CONTROLLER if is_controller else ListenerKind.BROKER
        refusal = self._refusal(kind, listener, client_host)
        if refusal is not None:
            self._refuse(connection_id, listener, refusal)
            return
        connection = self._make_connection(self._apis[kind], self._limits.request_bytes_max)
        now_ms = self._clock.now_ms
        client = Client(connection_id, listener, kind, client_host, connection, now_ms)
        self._clients[connection_id] = client
        if self._oldest is None:
            self._find_oldest()
        self._counts.add(kind, client_host)
        client.is_early = self._comes_early(client)
        if self._is_held(client):
            self._set_reading(client, is_wanted=False)

    def _comes_early(self, client: Client) -> bool:
        """Return True to delay a connection by a rate limit: it is admitted or closed later."""
        now_ms = self._clock.now_ms
        rate = self._address_rate(client.host)
        delay_ms = self._address_rates.delay_ms(client.host, rate, now_ms)
        if delay_ms:
            heappush(self._leaving, (now_ms + delay_ms, client.connection_id))
            self._set_admission()
            reason = f"address {client.host} makes more than {rate:g} connections a second"
            self._log_limited(self._refusals, "connections_refused", client.listener, reason)
            return True
        gate = self._gates[client.kind]
        if client.listener == self._limits.protected_listener or gate.is_open(now_ms):
            return False
        gate.wait(client.connection_id)
        self._set_admission()
        reason = f"more than {self._limits.creation_rate} new connections a second"
        self._log_limited(self._delays, "connections_delayed", client.listener, reason)
        return True

    def _refusal(self, kind: ListenerKind, listener: str, host: str) -> str | None:
        reason = self._counts.refusal_of_address(kind, host)
        if reason is not None or not self._counts.is_full(kind):
            return reason
        if listener != self._limits.protected_listener:
            return f"the configured maximum of {self._limits.connections_max} is reached"
        unprotected = (
            c for c in self._clients.values() if c.kind is kind and c.listener != listener
        )
        oldest = next(unprotected, None)
        if oldest is not None:
            self._close(oldest, "makes room for the inter-broker listener")
        return None

    def _refuse(self, connection_id: int, listener: str, reason: str) -> None:
        self._effects.append(CloseConnection(connection_id, reason))
        self._log_limited(self._refusals, "connections_refused", listener, reason)

    def _log_limited(self, log: RefusalLog, event: str, listener: str, reason: str) -> None:
        count = log.count_to_log(self._clock.now_ms)
        if count is not None:
            fields = {"listener": listener, "reason": reason, "count": count}
            self._effects.append(Log(LogLevel.WARN, event, fields))

    def closed(self, connection_id: int) -> None:
        """Remove a closed connection; its outstanding answers are dropped."""
        client = self._clients.pop(connection_id, None)
        self._leave_backlog(connection_id)
        if client is not None:
            if client is self._oldest:
                self._find_oldest()
            self._counts.remove(client.kind, client.host)
            self._gates[client.kind].leave(connection_id)
            self._set_admission()

    def received(self, connection_id: int, content: bytes) -> None:
        """Handle received bytes; malformed ones close this connection only."""
        client = self._clients.get(connection_id)
        if client is None:
            return
        self._used(client)
        if self._is_held(client):
            client.held += content
        elif connection_id in self._backlog:
            client.connection.feed(content)
        else:
            client.received_ns = self.nanoseconds()
            self._take(client, content)

    def used(self, connection_id: int) -> None:
        """Begin the idle time of a connection anew; ignored if it has closed."""
        client = self._clients.get(connection_id)
        if client is not None:
            self._used(client)

    def serve_clients(self) -> None:
        """Begin to serve broker listeners, held requests first: the broker has caught up."""
        self.serves_clients = True
        for client in [c for c in self._clients.values() if c.kind is ListenerKind.BROKER]:
            self._take_held(client)

    def _take_held(self, client: Client) -> None:
        """Serve the held bytes, unless the connection must still wait."""
        if not self._is_held(client):
            held, client.held = client.held, b""
            client.received_ns = self.nanoseconds()
            self._take(client, held)

    def _serve_backlog(self) -> None:
        for client in list(self._backlog.values()):
            self._take(client, b"")

    def _join_backlog(self, client: Client) -> None:
        self._backlog[client.connection_id] = client
        self._timers.set(BACKLOG, self._clock.now_ms)

    def _leave_backlog(self, connection_id: int) -> None:
        self._backlog.pop(connection_id, None)
        if not self._backlog:
            self._timers.clear(BACKLOG)

    def _is_held(self, client: Client) -> bool:
        is_known = self.serves_clients or client.kind is ListenerKind.CONTROLLER
        return client.is_early or not is_known

    def _take(self, client: Client, content: bytes) -> None:
        """Serve the requests that these bytes complete, and those that waited for room.

        A client with many requests at once is served in parts, one in each step, for fairness.
        """
        connection = client.connection
        connection.feed(content)
        client.is_taking = True
        self._leave_backlog(client.connection_id)
        sent_bytes_max = client.sent_bytes + RESPONSE_BYTES_PER_STEP
        for _ in range(REQUESTS_PER_STEP):
            if client.sent_bytes > sent_bytes_max:
                self._join_backlog(client)
                break
            try:
                request = connection.next_request()
            except RemoteProtocolError as error:
                self._close(client, str(error))
                return
            if request is None:
                break
            is_counted = client.kind is ListenerKind.CONTROLLER
            times = Timed(client.received_ns, self.nanoseconds(), is_counted=is_counted)
            self._serve(client, request, self._answered(client, request, times))
            if times.handled_ns is None:  # answered later: what it has cost here leaves with that
                times.handled_ns = self.nanoseconds()
                client.spent_ns += times.handled_ns - times.begun_ns
            if self._clients.get(client.connection_id) is not client:
                return
        else:
            self._join_backlog(client)
        client.is_taking = False
        self._settle(client)

    def _settle(self, client: Client) -> None:
        """Close a failed connection after its last answer; read others only while there is room."""
        connection = client.connection
        if connection.failure is not None and connection.in_flight_count == 0:
            self._close(client, connection.failure)
            return
        is_wanted = connection.wants_bytes and client.connection_id not in self._backlog
        if client.is_read != is_wanted:
            self._set_reading(client, is_wanted=is_wanted)

    def _set_reading(self, client: Client, *, is_wanted: bool) -> None:
        client.is_read = is_wanted
        self._effects.append(SetReading(client.connection_id, is_wanted))

    def _used(self, client: Client) -> None:
        client.used_ms = self._clock.now_ms
        self._clients.move_to_end(client.connection_id)
        if client is self._oldest:
            self._find_oldest()

    def _find_oldest(self) -> None:
        self._oldest = oldest = next(iter(self._clients.values()), None)
        if self._idle_ms_max:
            idle_ms = NEVER_MS if oldest is None else oldest.used_ms + self._idle_ms_max
            self._timers.at_ms[IDLE] = idle_ms

    # ---- answers -----------------------------------------------------------------------------

    def _answered(self, client: Client, request: Request, times: Timed) -> Answered:
        """Return the function that answers a request; it ignores answers after the close."""

        def answered(answer: Any) -> None:
            if self._clients.get(client.connection_id) is not client:
                return
            connection, times.answered_ns = client.connection, self.nanoseconds()
            if times.handled_ns is None:
                client.spent_ns += times.answered_ns - times.begun_ns
                times.handled_ns = times.answered_ns
            was_full = not client.is_taking and not connection.wants_bytes
            kind = type(answer)
            try:
                if kind is Encoded:
                    content = connection.respond_encoded(request.reply_slot, answer.frame)
                elif kind is NoResponse:
                    content = connection.respond_nothing(request.reply_slot)
                    connection.end(answer.reason)
                else:
                    content = connection.respond(request.reply_slot, answer)
            except LocalProtocolError as error:
                self._close(client, f"the answer cannot be said in this version: {error}")
                return
            self.served.answered(request, answer, times)
            if content:
                self._used(client)
                client.sent_bytes += len(content)
                spent_ns, client.spent_ns = client.spent_ns, 0
                self._effects.append(SendBytes(client.connection_id, content, spent_ns))
            if client.is_taking:
                return
            if was_full and connection.wants_bytes:
                self._take(client, b"")
            else:
                self._settle(client)

        return answered

    def _close(self, client: Client, reason: str, level: LogLevel = LogLevel.WARN) -> None:
        self.closed(client.connection_id)
        fields = {"listener": client.listener, "client": client.host, "reason": reason}
        self._effects.append(Log(level, "connection_closed", fields))
        self._effects.append(CloseConnection(client.connection_id, reason))

    # ---- time --------------------------------------------------------------------------------

    def tick(self) -> None:
        """Serve the backlog, admit or close delayed connections, and close idle ones.

        A connection that awaits an answer is not idle.
        """
        now_ms, at_ms = self._clock.now_ms, self._timers.at_ms
        if at_ms[BACKLOG] <= now_ms:
            self._serve_backlog()
        if at_ms[ADMISSION] <= now_ms:
            self._admit(now_ms)
        idle_ms_max = self._idle_ms_max
        while idle_ms_max and self._clients:
            client = next(iter(self._clients.values()))
            if client.used_ms + idle_ms_max > now_ms:
                return
            if client.connection.in_flight_count or client.held:
                self._used(client)
            else:
                self.expired[client.listener] += 1
                self._close(client, f"idle for {idle_ms_max} ms", LogLevel.DEBUG)

    def _admit(self, now_ms: int) -> None:
        """Admit connections of the gates that are due; close those refused by their address."""
        for gate in self._gates.values():
            for connection_id in gate.admitted(now_ms):
                client = self._clients[connection_id]
                client.is_early = False
                self._take_held(client)
        while self._leaving and self._leaving[0][0] <= now_ms:
            _, connection_id = heappop(self._leaving)
            if connection_id in self._clients:
                reason = "its address makes connections faster than its quota"
                self._close(self._clients[connection_id], reason, LogLevel.DEBUG)
        self._set_admission()

    def _set_admission(self) -> None:
        """Set the first deadline of the connections above a rate."""
        due_ms = [gate.first_ms for gate in self._limited_gates if gate.first_ms is not None]
        due_ms += [leaving_ms for leaving_ms, _ in self._leaving[:1]]
        self._timers.set(ADMISSION, min(due_ms, default=NEVER_MS))


def connection_rate(image: Image, host: str) -> float | None:
    """Return the quota `connection_creation_rate` of an address, else the default; None = any."""
    for name in (host, None):
        quotas = image.client_quotas.get((("ip", name),))
        if quotas is not None and "connection_creation_rate" in quotas:
            return quotas["connection_creation_rate"]
    return None


def address_bytes(host: str) -> bytes:
    """Return an IP address as encoded in an Envelope: 4 bytes, or the 16 of IPv6.

    IPv4 mapped into IPv6 is IPv4, as in Java's InetAddress; an unknown address is loopback.
    """
    if not host:
        return b"\x7f\x00\x00\x01"
    address = ip_address(host)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).packed
