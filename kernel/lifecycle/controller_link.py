"""The link to the active controller: a plain call if it is this node, else a connection.

`call` is for requests of the broker or controller itself (registration, heartbeats); requests of
clients go through `forwarding`.
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
    """The interface of this node's controller for its callers."""

    @property
    def is_active(self) -> bool:
        """True if the controller of this node is active."""
        ...

    def submit(
        self, api_key: int, body: object, answered: Answered, context: RequestContext
    ) -> None:
        """Submit a request; `answered` gets the response body."""
        ...


class ControllerLink:
    """The link to the active controller, which is looked up for each call."""

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
        """The active controller's node; None while unknown or while this node is to activate."""
        leader_id = self._leader_id()
        if leader_id == self._node_id and not self._local.is_active:
            return None
        return leader_id

    @property
    def is_local(self) -> bool:
        """True if the active controller is this node."""
        return self._local.is_active

    def is_quorum_refused(self) -> bool:
        """True if there can be no controller: a majority of the voters refuses connections."""
        return self._peers.is_quorum_refused()

    def submit_local(
        self, api_key: int, body: object, answered: Answered, context: RequestContext
    ) -> None:
        """Call the controller of this node, which must be active."""
        assert self._local.is_active, "not the active controller"
        self._local.submit(api_key, body, answered, context)

    def send(
        self, channel: Channel, api_key: int, body: object, timeout_ms: int, answered: Answered
    ) -> None:
        """Send a request to the active controller on another node; UNREACHABLE without one."""
        target = self.target
        if target is None or target == self._node_id:
            answered(Failure.UNREACHABLE)
            return
        self._peers.send(target, channel, api_key, body, timeout_ms, answered)

    def call(
        self,
        api_key: int,
        body: object,
        timeout_ms: int,
        answered: Answered,
        *,
        channel: Channel = Channel.LIFECYCLE,
    ) -> None:
        """Send a request of this node itself to the controller, local or remote."""
        if self._local.is_active:
            self._local.submit(api_key, body, answered, RequestContext())
        else:
            self.send(channel, api_key, body, timeout_ms, answered)
