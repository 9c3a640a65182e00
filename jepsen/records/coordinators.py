"""Coordinators of the groups or transactions of a run, as the nemesis looks for them."""

import asyncio
from collections.abc import Sequence
from typing import Final

from jepsen.clients import Refused, raise_for
from jepsen.cluster import Cluster
from jepsen.connections import CallError, Connections
from wire.api_keys import FIND_COORDINATOR
from wire.messages.codec import newest

GROUPS: Final = 0
TRANSACTIONS: Final = 1
"""Key types of FindCoordinator."""
ANSWER_S: Final = 2.0


class Coordinators:
    """Finds the node that coordinates one of some groups or transactional ids."""

    def __init__(self, cluster: Cluster, key_type: int, keys: Sequence[str]) -> None:
        """Open nothing yet.

        Args:
            cluster: The nodes.
            key_type: GROUPS or TRANSACTIONS.
            keys: Group ids or transactional ids.
        """
        self._nodes = cluster.nodes
        self._key_type = key_type
        self._keys = tuple(keys)
        self._connections = Connections()
        self._one_at_a_time = asyncio.Lock()

    async def find(self, choice: float) -> int | None:
        """Node of the key that a number in [0, 1) chooses; None: no node says so now."""
        key = self._keys[int(choice * len(self._keys))]
        new = newest(FIND_COORDINATOR, "request")
        body = new.FindCoordinatorRequest(key_type=self._key_type, coordinator_keys=(key,))
        async with self._one_at_a_time:  # a connection takes one request
            for node in self._nodes.values():
                try:
                    answer = await self._connections.call(
                        node.broker, FIND_COORDINATOR, body, ANSWER_S
                    )
                    (row,) = answer.coordinators
                    raise_for(row.error_code)
                except (CallError, Refused):
                    continue
                return int(row.node_id)
        return None

    def close(self) -> None:
        """Drop all connections."""
        self._connections.close()
