"""Links to the other brokers, from which replicas are fetched: a connection for each fetcher.

The addresses are those of the inter-broker listener in the published image; a broker that comes
back elsewhere is connected to anew.
"""

from collections.abc import Callable, Mapping
from typing import Final

from metadata.image import Broker
from network.clock import Clock
from network.effects import LinkEffectSink, Log, LogLevel
from network.peers import FETCHERS, Channel, Failure, Peers
from network.timers import LINKS, NEVER_MS
from replication.follower.fetchers import Answered
from wire.connections.follower_connection import FollowerConnection
from wire.messages.codec import Body
from wire.types import LeaderAndEpoch, LeaderEpoch, NodeId

RESPONSE_BYTES_MAX: Final = (1 << 31) - 1
"""Limit of a response: `replica.fetch.response.max.bytes` and one batch beyond, however large."""
_NOBODY: Final = LeaderAndEpoch(None, LeaderEpoch(0))


class LeaderLinks:
    """All links of a broker to others.

    Args:
        node_id: of this broker.
        listener: name of the inter-broker listener.
        clock: of the broker; the deadline of the links is in its timers.
        effects: sink of the effects.
        timeout_ms: `replica.socket.timeout.ms`; at its end a connection closes.
    """

    def __init__(
        self, node_id: NodeId, listener: str, clock: Clock, effects: LinkEffectSink, timeout_ms: int
    ) -> None:
        self._node_id = node_id
        self._listener = listener
        self._timers = clock.timers
        self._effects = effects
        self._timeout_ms = timeout_ms
        self._brokers: Mapping[NodeId, Broker] = {}
        self._peers = Peers(
            {},
            node_id,
            clock,
            effects,
            followed=lambda: _NOBODY,
            on_evidence=_ignore,
            make_connection=_connection,
        )

    def take_brokers(self, brokers: Mapping[NodeId, Broker]) -> None:
        """Take the brokers of a published image; requests to an address that changes fail."""
        if brokers is self._brokers:
            return
        gone = [node_id for node_id in self._brokers if node_id not in brokers]
        self._brokers = brokers
        for node_id in sorted(gone):
            self._peers.set_address(node_id, None)
        for node_id, broker in brokers.items():
            endpoint = broker.endpoint(self._listener)
            address = None if endpoint is None else (endpoint.host, endpoint.port)
            if node_id != self._node_id:
                self._peers.set_address(node_id, address)

    def send(
        self, leader_id: NodeId, number: int, api_key: int, body: Body, answered: Answered
    ) -> None:
        """Send a request of a fetcher; `answered` is called once, with None on a failure."""

        def take(response: Body) -> None:
            if isinstance(response, Failure):
                fields = {"leader": leader_id, "fetcher": number, "reason": response.value}
                self._effects.append(Log(LogLevel.INFO, "fetch_failed", fields))
                answered(None)
            else:
                answered(response)

        channel = FETCHERS + number
        self._peers.send(leader_id, channel, api_key, body, self._timeout_ms, take)

    def request(
        self,
        node_id: NodeId,
        channel: Channel,
        api_key: int,
        body: Body,
        timeout_ms: int,
        answered: Callable[[object], None],
    ) -> None:
        """Send a request to another broker; `answered` gets the response or a `Failure`, once."""
        self._peers.send(node_id, channel, api_key, body, timeout_ms, answered)

    def on_connected(self, peer_id: int) -> None:
        """Handle an opened connection."""
        self._peers.on_connected(peer_id)

    def on_bytes(self, peer_id: int, content: bytes) -> None:
        """Handle received bytes; a response may lead to the next request."""
        self._peers.on_bytes(peer_id, content)

    def on_disconnected(self, peer_id: int, *, refused: bool) -> None:
        """Handle a closed connection or a failed attempt."""
        self._peers.on_disconnected(peer_id, refused=refused)

    def next_ms(self) -> int | None:
        """Time at which the first request times out, None without any."""
        at_ms = self._timers.at_ms[LINKS]
        return None if at_ms == NEVER_MS else at_ms

    def tick(self) -> None:
        """Close the connections with a request that timed out."""
        self._peers.tick()


def _connection(client_id: str) -> FollowerConnection:
    return FollowerConnection(client_id, response_bytes_max=RESPONSE_BYTES_MAX)


def _ignore(_leader: LeaderAndEpoch) -> None:
    """Ignore evidence, which is of the quorum's leader."""
