"""What one listener sees of brokers and partitions: reachable leaders, offline replicas.

The rules are those of apache/kafka: metadata/.../KRaftMetadataCache (3.9; 4.x the same). A leader
is shown when it is registered with the listener: fencing is not looked at, because a fenced leader
is replaced by records anyway. Being fenced does count for `offline_replicas`.
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
    """The leader as a client of one listener may see it: NO_LEADER comes with an error."""

    leader_id: NodeId
    error: ErrorCode


def reachable_brokers(image: Image, listener: str, *, include_fenced: bool = False) -> list[Broker]:
    """Registered brokers that have the listener, by id; without the fenced ones by default."""
    return [
        broker
        for _, broker in sorted_items(image.brokers)
        if (include_fenced or not broker.fenced) and broker.endpoint(listener) is not None
    ]


def leader_view(image: Image, partition: Partition, listener: str) -> LeaderView:
    """The leader, or why none can be shown."""
    leader = image.brokers.get(partition.leader)
    if leader is None:
        return LeaderView(NO_LEADER, ErrorCode.leader_not_available)
    if leader.endpoint(listener) is None:
        return LeaderView(NO_LEADER, ErrorCode.listener_not_found)
    return LeaderView(leader.id, ErrorCode.none)


def offline_replicas(image: Image, partition: Partition, listener: str) -> tuple[NodeId, ...]:
    """Replicas that this listener cannot reach: gone, fenced, not on it, or their disk is."""
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
    """Those that are registered with the listener, in the same order."""
    return tuple(
        replica
        for replica in replicas
        if (broker := image.brokers.get(replica)) is not None and broker.endpoint(listener)
    )


def missing_topic_error(name: str) -> ErrorCode:
    """What a name that no topic has is answered with."""
    if illegal_topic_name(name) is None:
        return ErrorCode.unknown_topic_or_partition
    return ErrorCode.invalid_topic_exception
