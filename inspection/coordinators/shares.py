"""Coordinators of groups or transactional ids, by the leaders of their topic's partitions."""

from collections import Counter

from coordinator.runtime.shards import partition_for
from inspection.views import View
from metadata.image import Image


class CoordinatorShare(View, frozen=True, kw_only=True):
    """A node that coordinates partitions of the topic."""

    node_id: int | None
    """None: nobody leads these partitions."""
    partition_count: int


class CoordinatorView(View, frozen=True, kw_only=True):
    """The coordinator of a group or transactional id."""

    partition: int
    """Of the topic."""
    node_id: int | None
    """Its leader, whose node has the details; None if nobody leads it."""


def shares(image: Image, topic: str) -> list[CoordinatorShare]:
    """The nodes that coordinate partitions of a topic, by id, those without a leader last."""
    topic_id = image.topic_id_by_name.get(topic)
    if topic_id is None:
        return []
    partitions = image.topics[topic_id].partitions.values()
    counts = Counter(int(each.leader) if each.has_leader else None for each in partitions)
    nodes = sorted(node for node in counts if node is not None)
    return [
        CoordinatorShare(node_id=node, partition_count=counts[node])
        for node in (*nodes, *([None] if None in counts else []))
    ]


def coordinator_of(image: Image, topic: str, key: str) -> CoordinatorView | None:
    """The coordinator of a group or transactional id; None while the topic does not exist."""
    topic_id = image.topic_id_by_name.get(topic)
    if topic_id is None:
        return None
    partitions = image.topics[topic_id].partitions
    number = partition_for(key, len(partitions))
    found = partitions[number]
    return CoordinatorView(
        partition=number, node_id=int(found.leader) if found.has_leader else None
    )
