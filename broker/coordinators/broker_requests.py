"""Requests to brokers about transactions: to others over links, to this one without a socket."""

from collections.abc import Callable, Mapping
from typing import Final

from broker.leader_links import LeaderLinks
from network.peers import Channel
from wire.api_keys import ADD_PARTITIONS_TO_TXN, WRITE_TXN_MARKERS
from wire.messages.codec import Body
from wire.types import NodeId

Answered = Callable[[object], None]
"""Gets the response or a `network.peers.Failure`, once."""
ServeLocally = Callable[[Body, Answered], None]
CHANNELS: Final = {WRITE_TXN_MARKERS: Channel.MARKERS, ADD_PARTITIONS_TO_TXN: Channel.TRANSACTIONS}
"""Connection of each request: one may wait for replicas, the other must not wait behind it."""


class BrokerRequests:
    """Requests of this broker to all brokers.

    Args:
        node_id: of this broker.
        links: to the others.
        timeout_ms: `request.timeout.ms`.
        local: what serves a request of this broker to itself, by API key.
    """

    def __init__(
        self,
        node_id: NodeId,
        links: LeaderLinks,
        timeout_ms: int,
        local: Mapping[int, ServeLocally],
    ) -> None:
        self._node_id = node_id
        self._links = links
        self._timeout_ms = timeout_ms
        self._local = local

    def send(self, node_id: NodeId, api_key: int, body: Body, answered: Answered) -> None:
        """Send a request to a broker, maybe this one."""
        if node_id == self._node_id:
            self._local[api_key](body, answered)
        else:
            channel = CHANNELS[api_key]
            self._links.request(node_id, channel, api_key, body, self._timeout_ms, answered)
