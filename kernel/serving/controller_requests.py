"""Requests for the controller of this node, from every source.

Sources are Envelopes of other brokers, the broker of the same node (a plain call), controller
listeners and this node's life cycle. Read-only requests of both kinds of listeners are answered
here too.
"""

from typing import TYPE_CHECKING, cast

from broker_publisher.metadata_cache import MetadataCache
from kernel.config import NodeConfig
from kernel.quorum.messages import transfer
from kernel.quorum.messages.table import RAFT_API_KEYS
from kernel.quorum.metadata_state import MetadataState
from kernel.quorum.replica import Replica
from kernel.serving.access import Access
from network.clock import Clock
from network.peers import Answered
from quorum_controller.queries import QUERIES
from quorum_controller.query_context import QueryContext
from quorum_controller.result import RequestContext
from quorum_controller.security.authorization import Caller
from wire.api_keys import ALTER_PARTITION_REASSIGNMENTS
from wire.messages.codec import Entity

if TYPE_CHECKING:
    from kio.schema.alter_partition_reassignments.v1.request import (
        AlterPartitionReassignmentsRequest,
    )


class ControllerRequests:
    """Requests answered from the image, by the raft replica, or by the active controller."""

    def __init__(
        self,
        config: NodeConfig,
        *,
        cache: MetadataCache,
        state: MetadataState,
        replica: Replica,
        clock: Clock,
    ) -> None:
        self._node_id = config.node_id
        self._properties = dict(config.properties)
        self._tokens = config.tokens
        self._access = Access(config.access)
        self._cache = cache
        self._state = state
        self._replica = replica
        self._clock = clock

    @property
    def is_active(self) -> bool:
        """True if the controller of this node is active."""
        return self._state.is_active

    def submit(
        self, api_key: int, body: object, answered: Answered, context: RequestContext
    ) -> None:
        """Submit a request; `answered` is called once, with the response body."""
        caller = Caller(context.principal, context.client_host)
        if api_key in RAFT_API_KEYS:
            refused = self._access.refusal(self._cache.image, caller, api_key, body)
            if refused is not None:
                answered(refused)
            else:
                self._replica.serve(api_key, body, answered)
        elif api_key in QUERIES:
            answered(self.query(api_key, body, caller, context.api_version))
        elif not self._transfers(api_key, body, answered, caller):
            self._state.submit(api_key, body, answered, context)

    def _transfers(self, api_key: int, body: object, answered: Answered, caller: Caller) -> bool:
        """Serve a request to transfer the leadership; False if it is none, or not for this node.

        Not before the controller is active: then it refuses the request as any other.
        """
        if api_key != ALTER_PARTITION_REASSIGNMENTS or not self._state.is_active:
            return False
        request = transfer.request_from_wire(cast("AlterPartitionReassignmentsRequest", body))
        if request is None:
            return False
        refused = self._access.refusal(self._cache.image, caller, api_key, body)
        if refused is not None:
            answered(refused)
        else:
            self._replica.transfer_leadership(request, answered)
        return True

    def query(
        self,
        api_key: int,
        body: object,
        caller: Caller,
        api_version: int,
        *,
        is_broker: bool = False,
    ) -> Entity:
        """Answer a read-only request, or refuse it if the caller is not authorized.

        Args:
            api_key: one of `QUERIES`.
            body: the request, in kio's newest version.
            caller: principal and host of the client.
            api_version: version of the request as received.
            is_broker: True to answer as a broker, not as a controller.
        """
        image = self._cache.image
        refused = self._access.refusal(image, caller, api_key, body)
        if refused is not None:
            return refused
        context = QueryContext(
            node_id=self._node_id,
            is_broker=is_broker,
            api_version=api_version,
            properties=self._properties,
            wall_ms=self._clock.wall_ms,
            access=self._access.rules,
            tokens=self._tokens,
            caller=caller,
        )
        return QUERIES[api_key].answer(image, body, context)
