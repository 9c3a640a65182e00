"""Topics of a run: made before the first operation, waited for before the last reads."""

import asyncio
from typing import Any, Final

from jepsen.clients import CREATE_TOPICS, LeaderWatch, Refused, Session, raise_for
from jepsen.cluster import Cluster, ClusterError
from jepsen.connections import CallError
from jepsen.records.brokers import NO_LEADER, Brokers, PartitionView
from jepsen.records.requests import TopicPartition

SETUP_S: Final = 30.0
POLL_S: Final = 0.2
REPLICAS: Final = 3


async def created(request: Any, cluster: Cluster, watch: LeaderWatch, brokers: Brokers) -> None:
    """Create topics, and wait until their partitions have leaders.

    Args:
        request: The CreateTopics.
        cluster: The nodes.
        watch: Knows the controller that leads.
        brokers: Of these topics.

    Raises:
        ClusterError: that failed.
    """
    session = Session(0, cluster.nodes, watch)
    try:
        leader_id = await watch.wait_leader(_now_s() + SETUP_S)
        if leader_id is None:
            raise ClusterError(f"no leader within {SETUP_S:.0f} s of the start")
        for topic in (await session.write(leader_id, CREATE_TOPICS, request)).topics:
            raise_for(topic.error_code)
        if await in_sync(brokers, SETUP_S) is None:
            raise ClusterError(f"partitions without leaders {SETUP_S:.0f} s after the start")
    except (CallError, Refused) as error:
        raise ClusterError(f"the topics of the run cannot be created: {error}") from error
    finally:
        session.close()


async def in_sync(brokers: Brokers, timeout_s: float) -> dict[TopicPartition, PartitionView] | None:
    """Wait until all partitions have a leader and all their replicas in sync, as all nodes see."""
    until_s = _now_s() + timeout_s
    while _now_s() < until_s:
        try:
            seen = [await brokers.views(node_id) for node_id in brokers.node_ids]
        except (CallError, Refused):
            seen = []
        if seen and all(_is_in_sync(view) for views in seen for view in views.values()):
            return seen[0]
        await asyncio.sleep(POLL_S)
    return None


def _is_in_sync(view: PartitionView) -> bool:
    return view.leader_id != NO_LEADER and set(view.isr) == set(view.replicas)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
