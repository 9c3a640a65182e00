"""Outgoing connections to other nodes: one link per (node, channel), opened at the first request.

The channels are separate connections because a connection answers in request order: a parked Fetch
must not delay a heartbeat, nor a slow CreateTopics either of them, nor what the records of a broker
ask of the controller, whose time-out closes their connection.

Evidence of leader failure (not in Kafka): when the raft connection to the leader closes, the first
reconnect is immediate; if that is refused on every address, the leader's process is gone, and
`on_evidence` is called with the leader and epoch that were followed when the connection closed.
"""

from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from typing import Any, Final

import msgspec

from network.clock import Clock
from network.effects import (
    ClosePeer,
    ConnectPeer,
    LinkEffectSink,
    Log,
    LogLevel,
    SendPeerBytes,
)
from network.timers import LINKS, NEVER_MS
from wire.api_keys import FETCH
from wire.connections.client_connection import ClientConnection
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.types import LeaderAndEpoch, NodeId

RECONNECT_MS_MIN: Final = 50
RECONNECT_MS_MAX: Final = 500
QUEUED_REQUESTS_MAX: Final = 10_000
"""Requests of a link that wait for its connection; any further one fails at once."""
PROBES_MAX: Final = 3
"""Reconnects after the leader's connection closed, while they fail without being refused."""
GIVE_UP_MS: Final = 500
"""Time that a former leader has for its outstanding answers before its connection is closed."""
RESPONSE_BYTES_MAX: Final = 100 * 1024 * 1024
MakeClientConnection = Callable[[str], ClientConnection]
"""A function of the client id."""


class Channel(IntEnum):
    """Purpose of a connection to a node."""

    RAFT = 0
    LIFECYCLE = 1
    FORWARDING = 2
    RECORDS = 3
    MARKERS = 4
    TRANSACTIONS = 5


FETCHERS: Final = 6
"""First of the channels to the leaders of partitions: one of each number of a fetcher."""
assert max(Channel) < FETCHERS, "channels differ"


class Failure(Enum):
    """Reason for a request without response."""

    UNREACHABLE = "unreachable"
    DISCONNECTED = "disconnected"
    TIMED_OUT = "timed out"
    UNSUPPORTED_VERSION = "unsupported version"


Answered = Callable[[Any], None]
"""A function called once, with the response body or a Failure."""


class _Waiting(msgspec.Struct, frozen=True):
    """A request that is queued or in flight."""

    api_key: int
    body: Any
    answered: Answered
    deadline_ms: int


class _State(Enum):
    """State of the connection to a peer."""

    CLOSED = "closed"
    CONNECTING = "connecting"
    OPEN = "open"


def client_connection(client_id: str) -> ClientConnection:
    """Make the client's side of a connection to another node."""
    return ClientConnection(client_id, response_bytes_max=RESPONSE_BYTES_MAX)


class Link:
    """One connection to one node, with its queued and in-flight requests."""

    def __init__(self, node_id: NodeId, channel: int, host: str, port: int) -> None:
        self.node_id = node_id
        self.channel = channel
        self.host = host
        self.port = port
        self.state = _State.CLOSED
        self.peer_id = 0
        self.connection: ClientConnection | None = None
        self.queued: list[_Waiting] = []
        self.in_flight: dict[int, _Waiting] = {}
        self.failure_count = 0
        self.reconnect_ms = 0
        self.is_refused = False
        """True if the last attempt to connect was refused: there is no listener."""
        self.lost_leader: LeaderAndEpoch | None = None
        self.probes_left = 0
        self.give_up_ms: int | None = None


class Peers:
    """All links of a node.

    Args:
        addresses: host and port of the controller listener of every voter, by `set_address` others.
        node_id: id of this node, also in the client id of its links.
        clock: clock of the node.
        effects: sink of the effects.
        followed: returns the leader and epoch followed now.
        on_evidence: called when the followed leader's process is gone.
        voters: returns host and port of every voter now, this node included, None where unknown;
            without it the voters are all nodes of `addresses`.
        make_connection: encoder of requests; the simulator's may leave bodies in memory.
    """

    def __init__(
        self,
        addresses: dict[NodeId, tuple[str, int]],
        node_id: NodeId,
        clock: Clock,
        effects: LinkEffectSink,
        followed: Callable[[], LeaderAndEpoch],
        on_evidence: Callable[[LeaderAndEpoch], None],
        *,
        voters: Callable[[], Mapping[NodeId, tuple[str, int] | None]] | None = None,
        make_connection: MakeClientConnection = client_connection,
    ) -> None:
        self._addresses = addresses
        self._voters = voters or (lambda: addresses)
        self._node_id = node_id
        self._clock = clock
        self._timers = clock.timers
        self._effects = effects
        self._followed = followed
        self._on_evidence = on_evidence
        self._links: dict[tuple[NodeId, int], Link] = {}
        self._busy: dict[Link, None] = {}
        """Links with requests in flight or queued, and maybe some without."""
        self._by_peer_id: dict[int, Link] = {}
        self._next_peer_id = 1
        self._make_connection = make_connection

    # ---- requests --------------------------------------------------------------------------

    def send(
        self,
        node_id: NodeId,
        channel: int,
        api_key: int,
        body: Any,
        timeout_ms: int,
        answered: Answered,
    ) -> None:
        """Send a request; `answered` is called once, immediately if it cannot be sent or queued."""
        link = self._link(node_id, channel)
        now_ms = self._clock.now_ms
        if link is not None and channel == Channel.RAFT and api_key == FETCH:
            self._end_abandoned_fetch(link)
        if link is None or len(link.queued) >= QUEUED_REQUESTS_MAX:
            answered(Failure.UNREACHABLE)
            return
        waiting = _Waiting(api_key, body, answered, now_ms + timeout_ms)
        if (
            link.state is _State.OPEN
            and link.connection is not None
            and link.connection.is_negotiated
        ):
            self._write(link, waiting)
            return
        if link.state is _State.CLOSED:
            if now_ms < link.reconnect_ms:
                answered(Failure.UNREACHABLE)
                return
            self._connect(link)
        link.queued.append(waiting)
        self._busy[link] = None
        self._timers.lower(LINKS, _deadline_ms(link))

    def _link(self, node_id: NodeId, channel: int) -> Link | None:
        link = self._links.get((node_id, channel))
        if link is None:
            address = self._addresses.get(node_id)
            if address is None:
                return None
            link = self._links[node_id, channel] = Link(node_id, channel, *address)
        return link

    def _end_abandoned_fetch(self, link: Link) -> None:
        """Close a link with an unanswered Fetch: its sender has given it up and sends another.

        A leader takes a Fetch for one that was sent after its last answer on the connection
        (raft/fetching/reads.py); the second of two that wait there would not be.
        """
        if any(waiting.api_key == FETCH for waiting in link.in_flight.values()):
            self._effects.append(ClosePeer(link.peer_id))
            self._closed(link, Failure.DISCONNECTED)
            return
        abandoned = [waiting for waiting in link.queued if waiting.api_key == FETCH]
        if abandoned:
            link.queued = [waiting for waiting in link.queued if waiting.api_key != FETCH]
            self._set_timer()
            for waiting in abandoned:
                waiting.answered(Failure.DISCONNECTED)

    def set_address(self, node_id: NodeId, address: tuple[str, int] | None) -> None:
        """Change the host and port of a node, None for a node that is gone; its old links end."""
        if self._addresses.get(node_id) == address:
            return
        if address is None:
            del self._addresses[node_id]
        else:
            self._addresses[node_id] = address
        for key in [key for key in self._links if key[0] == node_id]:
            link = self._links.pop(key)
            if link.state is not _State.CLOSED:
                self._effects.append(ClosePeer(link.peer_id))
                self._closed(link, Failure.DISCONNECTED)

    def _write(self, link: Link, waiting: _Waiting) -> None:
        assert link.connection is not None
        try:
            correlation_id, content = link.connection.request(waiting.api_key, waiting.body)
        except LocalProtocolError:
            waiting.answered(Failure.UNSUPPORTED_VERSION)
            return
        assert correlation_id not in link.in_flight, f"{correlation_id=}"
        link.in_flight[correlation_id] = waiting
        self._busy[link] = None
        self._timers.lower(LINKS, _deadline_ms(link))
        self._effects.append(SendPeerBytes(link.peer_id, content))

    def is_quorum_refused(self) -> bool:
        """Return True if so many voters refuse connections that the others are no majority.

        It also starts new connection attempts: call it again some milliseconds later. Only a voter
        whose process is known to be gone counts, not one that is paused or partitioned.
        """
        voters = self._voters()
        for node_id, address in voters.items():
            if node_id not in self._addresses and address is not None:
                self._addresses[node_id] = address
        others = [node_id for node_id in voters if node_id != self._node_id]
        refused_count = sum([self._probe(node_id) for node_id in others])
        return bool(voters) and len(voters) - refused_count <= len(voters) // 2

    def _probe(self, node_id: NodeId) -> bool:
        link = self._link(node_id, Channel.RAFT)
        if link is None:
            return False  # no address is known
        if link.state is _State.CLOSED and self._clock.now_ms >= link.reconnect_ms:
            self._connect(link)
        return link.is_refused

    # ---- events ----------------------------------------------------------------------------

    def on_connected(self, peer_id: int) -> None:
        """Begin with the negotiation of versions on a new connection."""
        link = self._by_peer_id.get(peer_id)
        if link is None:
            return
        assert link.state is _State.CONNECTING, f"{link.state=}"
        link.state = _State.OPEN
        link.is_refused = False
        link.lost_leader = None
        link.connection = self._make_connection(_client_id(self._node_id, link.channel))
        self._effects.append(SendPeerBytes(peer_id, link.connection.opening_bytes()))

    def on_bytes(self, peer_id: int, content: bytes) -> None:
        """Handle received bytes; malformed responses close the connection."""
        link = self._by_peer_id.get(peer_id)
        if link is None or link.connection is None:
            return
        try:
            responses = link.connection.receive(content)
        except RemoteProtocolError as error:
            fields = {"peer": link.node_id, "error": str(error)}
            self._effects.append(Log(LogLevel.WARN, "peer_protocol_error", fields))
            self._effects.append(ClosePeer(peer_id))
            self._closed(link, Failure.DISCONNECTED)
            return
        opening = link.connection.bytes_to_send()
        if opening:
            self._effects.append(SendPeerBytes(peer_id, opening))
        if link.queued and link.connection.is_negotiated:
            queued, link.queued = link.queued, []
            link.failure_count = 0
            for waiting in queued:
                self._write(link, waiting)
        for response in responses:
            answered = link.in_flight.pop(response.correlation_id, None)
            if answered is not None:
                if not link.in_flight and not link.queued:
                    del self._busy[link]
                link.failure_count = 0
                answered.answered(response.body)
        self._set_timer()

    def on_disconnected(self, peer_id: int, *, refused: bool) -> None:
        """Handle a closed connection or a failed attempt; probe a followed leader."""
        link = self._by_peer_id.get(peer_id)
        if link is None:
            return
        lost_leader = link.lost_leader
        if link.state is _State.CONNECTING:
            link.is_refused = refused
            self._closed(link, Failure.UNREACHABLE)
            if lost_leader is not None:
                self._probe_failed(link, lost_leader, refused=refused)
            return
        followed = self._followed()
        self._closed(link, Failure.DISCONNECTED)
        if link.channel is Channel.RAFT and followed.leader_id == link.node_id:
            link.lost_leader = followed
            link.probes_left = PROBES_MAX
            if link.state is _State.CLOSED:
                self._connect(link)

    def _probe_failed(self, link: Link, lost_leader: LeaderAndEpoch, *, refused: bool) -> None:
        """Report evidence if refused; else retry: a dying process closes its listener late."""
        if refused:
            self._on_evidence(lost_leader)
        elif link.probes_left > 0 and link.state is _State.CLOSED:
            link.probes_left -= 1
            link.lost_leader = lost_leader
            self._connect(link)

    def _connect(self, link: Link) -> None:
        assert link.state is _State.CLOSED, f"{link.state=}"
        link.peer_id = self._next_peer_id
        self._next_peer_id += 1
        self._by_peer_id[link.peer_id] = link
        link.state = _State.CONNECTING
        self._effects.append(ConnectPeer(link.peer_id, link.host, link.port))

    def _closed(self, link: Link, failure: Failure) -> None:
        """Fail all requests and back off; after an open connection the reconnect is immediate."""
        was_open = link.state is _State.OPEN and link.failure_count == 0
        del self._by_peer_id[link.peer_id]
        link.state = _State.CLOSED
        link.connection = None
        link.lost_leader = None
        link.give_up_ms = None
        pause_ms = min(RECONNECT_MS_MIN << min(link.failure_count, 10), RECONNECT_MS_MAX)
        link.reconnect_ms = self._clock.now_ms + (0 if was_open else pause_ms)
        link.failure_count += 1
        waiting = [*link.in_flight.values(), *link.queued]
        link.in_flight, link.queued = {}, []
        self._busy.pop(link, None)
        self._set_timer()
        for request in waiting:
            request.answered(failure)

    def on_leader_changed(self, leader_id: NodeId) -> None:
        """Shorten the time-out of requests that were sent to former leaders.

        A former leader that runs refuses at once what it cannot finish. One that is stopped or
        partitioned does not respond, and its callers would wait for their whole time-out (30 s for
        CreateTopics).
        """
        give_up_ms = self._clock.now_ms + GIVE_UP_MS
        for link in self._links.values():
            if link.channel is not Channel.RAFT:
                link.give_up_ms = None if link.node_id == leader_id else give_up_ms
        self._set_timer()

    # ---- time ------------------------------------------------------------------------------

    def tick(self) -> None:
        """Close connections with a timed-out request: later responses would be stale."""
        now_ms = self._clock.now_ms
        for link in list(self._links.values()):
            if _deadline_ms(link) <= now_ms:
                self._effects.append(ClosePeer(link.peer_id))
                self._closed(link, Failure.TIMED_OUT)

    def _set_timer(self) -> None:
        """Set the first deadline of all links."""
        first_ms = NEVER_MS
        for link in self._busy:
            first_ms = min(first_ms, _deadline_ms(link))
        self._timers.at_ms[LINKS] = first_ms


def _client_id(node_id: NodeId, channel: int) -> str:
    """Return the client id of a link, as Kafka has it for the channel."""
    if channel >= FETCHERS:
        return f"broker-{node_id}-fetcher-{channel - FETCHERS}"
    return f"raft-client-{node_id}" if channel == Channel.RAFT else str(node_id)


def _deadline_ms(link: Link) -> int:
    """Return the first deadline of a link; `NEVER_MS` if it has no requests.

    Only on the life-cycle channel, which has a few requests at a time, do time-outs differ; on the
    others the oldest request, in flight before queued, is the first.
    """
    first_ms = NEVER_MS
    if link.channel is Channel.LIFECYCLE:
        for waiting in (*link.in_flight.values(), *link.queued):
            first_ms = min(first_ms, waiting.deadline_ms)
    elif link.in_flight:
        first_ms = next(iter(link.in_flight.values())).deadline_ms
    elif link.queued:
        first_ms = link.queued[0].deadline_ms
    if first_ms != NEVER_MS and link.give_up_ms is not None:
        return min(first_ms, link.give_up_ms)
    return first_ms
