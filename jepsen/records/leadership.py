"""Leaders of partitions as the nemesis sees and moves them.

`move` gives every partition its next replica as leader: the order of its replicas is rotated by a
reassignment, then the preferred leaders are elected. No process is harmed, so a leader that lives
becomes a follower under load.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from jepsen.clients import LeaderWatch, Refused, raise_for
from jepsen.cluster import Cluster
from jepsen.connections import Address, CallError, Connections
from jepsen.records.brokers import Brokers, PartitionView
from jepsen.records.requests import (
    ALTER_PARTITION_REASSIGNMENTS,
    ELECT_LEADERS,
    TopicPartition,
    elect_preferred,
    reassign,
)
from wire.errors import ErrorCode

ANSWER_S: Final = 5.0
POLL_S: Final = 0.1
ELECTION_NOT_NEEDED: Final = 84
Views = dict[TopicPartition, PartitionView]


class Leadership:
    """Reads and moves the leaders of the partitions of a run."""

    def __init__(self, cluster: Cluster, watch: LeaderWatch, topics: tuple[str, ...]) -> None:
        """Open nothing yet.

        Args:
            cluster: The nodes.
            watch: Knows the controller that leads.
            topics: All topics of the run.
        """
        rng = Random(0)  # noqa: S311  # whom to ask does not matter
        self._brokers = Brokers(cluster.nodes, topics, rng)
        self._controllers = Connections()
        self._nodes = cluster.nodes
        self._watch = watch
        self._one_at_a_time = asyncio.Lock()

    async def move(self) -> int:
        """Move the leaders of all partitions; return how many elections took place.

        Raises:
            CallError: no response.
            Refused: an answer with an error.
        """
        async with self._one_at_a_time:  # a connection takes one request
            return await self._moved(await self._controller())

    async def _moved(self, address: Address) -> int:
        views = await self._brokers.views()
        rotated = {key: (*view.replicas[1:], view.replicas[0]) for key, view in views.items()}
        request = reassign(rotated)
        answer = await self._controllers.call(
            address, ALTER_PARTITION_REASSIGNMENTS, request, ANSWER_S
        )
        raise_for(answer.error_code)
        elected = await self._controllers.call(
            address, ELECT_LEADERS, elect_preferred(sorted(rotated)), ANSWER_S
        )
        raise_for(elected.error_code)
        return sum(
            row.error_code is ErrorCode.none
            for topic in elected.replica_election_results
            for row in topic.partition_result
        )

    async def view_when(
        self, partition: TopicPartition, holds: Callable[[PartitionView], bool], timeout_s: float
    ) -> PartitionView | None:
        """Wait for a view of a partition of which something holds; None if there is none."""
        until_s = asyncio.get_running_loop().time() + timeout_s
        while asyncio.get_running_loop().time() < until_s:
            try:
                view = (await self._brokers.views())[partition]
            except (CallError, Refused):
                view = None
            if view is not None and holds(view):
                return view
            await asyncio.sleep(POLL_S)
        return None

    async def any_partition(self, choice: float) -> TopicPartition:
        """Choose a partition by a number in [0, 1). Raises as `Brokers.views`."""
        keys = sorted(await self._brokers.views())
        return keys[int(choice * len(keys))]

    def close(self) -> None:
        """Drop all connections."""
        self._brokers.close()
        self._controllers.close()

    async def _controller(self) -> Address:
        leader_id = await self._watch.wait_leader(asyncio.get_running_loop().time() + ANSWER_S)
        if leader_id is None:
            raise Refused(ErrorCode.not_controller.value)
        return self._nodes[leader_id].controller
