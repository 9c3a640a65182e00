"""Brokers and partitions as seen from one listener: reachable leaders, offline replicas.

The rules are those of apache/kafka: metadata/.../KRaftMetadataCache (3.9; 4.x the same). A leader
is visible if it is registered with the listener, fenced or not, because a fenced leader is replaced
by records anyway. A fenced broker's replicas are in `offline_replicas`.
"""

from typing import Final

import msgspec

from metadata.image import NO_LEADER, Broker, Image, Partition, sorted_items
from metadata.topic_names import illegal_topic_name
from wire.errors import ErrorCode
from wire.types import NodeId

INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)


class LeaderView(msgspec.Struct, frozen=True, gc=False):
    """The leader for clients of one listener; NO_LEADER comes with an error."""

    leader_id: NodeId
    error: ErrorCode


def reachable_brokers(image: Image, listener: str, *, include_fenced: bool = False) -> list[Broker]:
    """Return the registered brokers with the listener, by id; fenced ones only on request."""
    return [
        broker
        for _, broker in sorted_items(image.brokers)
        if (include_fenced or not broker.fenced) and broker.endpoint(listener) is not None
    ]


def leader_view(image: Image, partition: Partition, listener: str) -> LeaderView:
    """Return the leader of a partition, or the error for its absence."""
    leader = image.brokers.get(partition.leader)
    if leader is None:
        return LeaderView(NO_LEADER, ErrorCode.leader_not_available)
    if leader.endpoint(listener) is None:
        return LeaderView(NO_LEADER, ErrorCode.listener_not_found)
    return LeaderView(leader.id, ErrorCode.none)


def offline_replicas(image: Image, partition: Partition, listener: str) -> tuple[NodeId, ...]:
    """Return replicas whose broker is missing, fenced or off the listener, or whose disk failed."""
    brokers = image.brokers
    return tuple(
        replica
        for position, replica in enumerate(partition.replicas)
        if (broker := brokers.get(replica)) is None
        or broker.fenced
        or broker.endpoint(listener) is None
        or not broker.has_online_directory(partition.directories[position])
    )


def registered_replicas(
    image: Image, replicas: tuple[NodeId, ...], listener: str
) -> tuple[NodeId, ...]:
    """Return the replicas whose brokers are registered with the listener, in the same order."""
    return tuple(
        replica
        for replica in replicas
        if (broker := image.brokers.get(replica)) is not None and broker.endpoint(listener)
    )


def missing_topic_error(name: str) -> ErrorCode:
    """Return the error for the name of a missing topic."""
    if illegal_topic_name(name) is None:
        return ErrorCode.unknown_topic_or_partition
    return ErrorCode.invalid_topic_exception
