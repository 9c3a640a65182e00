"""The way to the active controller: a plain call when it is this node, else a connection.

`call` is for requests that the broker or controller itself makes (registration, heartbeats); what
clients ask through a broker goes by `forwarding`.
"""

from collections.abc import Callable
from typing import Protocol

from network.peers import (
    Answered,
    Channel,
    Failure,
    Peers,
)
from quorum_controller.result import RequestContext
from wire.types import NodeId


class LocalController(Protocol):
    """The controller of this node, seen from the ways that lead to it."""

    @property
    def is_active(self) -> bool:
        """Whether it leads and may write."""
        ...

    def submit(
        self, api_key: int, body: object, answered: Answered, context: RequestContext
    ) -> None:
        """Submit a request; the function gets the response body."""
        ...


class ControllerLink:
    """Finds the active controller for each call anew."""

    def __init__(
        self,
        node_id: NodeId,
        local: LocalController,
        peers: Peers,
        leader_id: Callable[[], NodeId | None],
    ) -> None:
        self._node_id = node_id
        self._local = local
        self._peers = peers
        self._leader_id = leader_id

    @property
    def target(self) -> NodeId | None:
        """The node to ask; None while no leader is known or this node has yet to take office."""
        leader_id = self._leader_id()
        if leader_id == self._node_id and not self._local.is_active:
            return None
        return leader_id

    @property
    def is_local(self) -> bool:
        """Whether the active controller is this node."""
        return self._local.is_active

    def is_quorum_refused(self) -> bool:
        """Whether there can be no controller: a majority of the voters is known to be gone."""
        return self._peers.is_quorum_refused()

    def submit_local(
        self, api_key: int, body: object, answered: Answered, context: RequestContext
    ) -> None:
        """A plain call of the controller of this node, which must be active."""
        assert self._local.is_active, "not the active controller"
        self._local.submit(api_key, body, answered, context)

    def send(
        self, channel: Channel, api_key: int, body: object, timeout_ms: int, answered: Answered
    ) -> None:
        """A request to the active controller on another node."""
        target = self.target
        if target is None or target == self._node_id:
            answered(Failure.UNREACHABLE)
            return
        self._peers.send(target, channel, api_key, body, timeout_ms, answered)

    def call(self, api_key: int, body: object, timeout_ms: int, answered: Answered) -> None:
        """A request of this node's own life cycle, wherever the controller is."""
        if self._local.is_active:
            self._local.submit(api_key, body, answered, RequestContext())
        else:
            self.send(Channel.LIFECYCLE, api_key, body, timeout_ms, answered)
