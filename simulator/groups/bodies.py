"""Requests of members of groups, in kio's newest shape."""

import struct
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from coordinator.group.consumer.client_protocol import PROTOCOL_TYPE
from wire.api_keys import (
    CONSUMER_GROUP_HEARTBEAT,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from wire.messages import codec

PROTOCOL: Final = "roundrobin"
"""Assignor of the classic members, which they have themselves."""
SUBSCRIPTION_VERSION: Final = 1
GROUP: Final = 0
"""Type of key of a group in FindCoordinator."""
UNCHANGED: Final = None
"""Partitions of a heartbeat that says nothing of them."""


class Request(NamedTuple):
    """A request to the coordinator."""

    api_key: int
    body: Any


class Membership(NamedTuple):
    """Place of a member in its group, whatever happens to it."""

    group_id: str
    topic: str
    session_ms: int
    rebalance_ms: int
    instance_id: str | None = None


class Committer(NamedTuple):
    """Member that commits or fetches, with its epoch or generation."""

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None = None


def find_coordinator(group_id: str) -> Request:
    """FindCoordinator of a group."""
    new = codec.newest(FIND_COORDINATOR, "request")
    body = new.FindCoordinatorRequest(key_type=GROUP, coordinator_keys=(group_id,))
    return Request(FIND_COORDINATOR, body)


def join_group(of: Membership, member_id: str) -> Request:
    """JoinGroup of a member that owns nothing: it has given up all before it asks."""
    new = codec.newest(JOIN_GROUP, "request")
    row = new.JoinGroupRequestProtocol(name=PROTOCOL, metadata=subscription_bytes(of.topic))
    body = new.JoinGroupRequest(
        group_id=of.group_id,
        session_timeout=timedelta(milliseconds=of.session_ms),
        rebalance_timeout=timedelta(milliseconds=of.rebalance_ms),
        member_id=member_id,
        group_instance_id=of.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=(row,),
    )
    return Request(JOIN_GROUP, body)


def sync_group(
    of: Membership, member_id: str, generation: int, assignments: Mapping[str, bytes]
) -> Request:
    """SyncGroup; only the leader's has assignments."""
    new = codec.newest(SYNC_GROUP, "request")
    body = new.SyncGroupRequest(
        group_id=of.group_id,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=of.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=PROTOCOL,
        assignments=tuple(
            new.SyncGroupRequestAssignment(member_id=each, assignment=assignments[each])
            for each in sorted(assignments)
        ),
    )
    return Request(SYNC_GROUP, body)


def heartbeat(of: Membership, member_id: str, generation: int) -> Request:
    """Heartbeat of a classic member."""
    new = codec.newest(HEARTBEAT, "request")
    body = new.HeartbeatRequest(
        group_id=of.group_id,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=of.instance_id,
    )
    return Request(HEARTBEAT, body)


def leave_group(of: Membership, member_id: str) -> Request:
    """LeaveGroup of one classic member."""
    new = codec.newest(LEAVE_GROUP, "request")
    row = new.MemberIdentity(member_id=member_id, group_instance_id=of.instance_id, reason=None)
    return Request(LEAVE_GROUP, new.LeaveGroupRequest(group_id=of.group_id, members=(row,)))


def consumer_heartbeat(
    of: Membership,
    member_id: str,
    member_epoch: int,
    *,
    is_full: bool,
    owned: Mapping[UUID, Collection[int]] | None = UNCHANGED,
) -> Request:
    """ConsumerGroupHeartbeat; a full one says again all that the member is."""
    new = codec.newest(CONSUMER_GROUP_HEARTBEAT, "request")
    full: dict[str, Any] = {}
    if is_full:
        full = {
            "rebalance_timeout": timedelta(milliseconds=of.rebalance_ms),
            "subscribed_topic_names": (of.topic,),
        }
    rows = UNCHANGED
    if owned is not None:
        rows = tuple(
            new.TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(owned[topic_id])))
            for topic_id in sorted(owned)
        )
    body = new.ConsumerGroupHeartbeatRequest(
        group_id=of.group_id,
        member_id=member_id,
        member_epoch=member_epoch,
        instance_id=of.instance_id,
        topic_partitions=rows,
        **full,
    )
    return Request(CONSUMER_GROUP_HEARTBEAT, body)


def commit_offsets(
    by: Committer, topic_id: UUID, offsets: Mapping[int, int], metadata: str
) -> Request:
    """OffsetCommit of partitions of one topic."""
    new = codec.newest(OFFSET_COMMIT, "request")
    rows = tuple(
        new.OffsetCommitRequestPartition(
            partition_index=number, committed_offset=offsets[number], committed_metadata=metadata
        )
        for number in sorted(offsets)
    )
    body = new.OffsetCommitRequest(
        group_id=by.group_id,
        generation_id_or_member_epoch=by.epoch,
        member_id=by.member_id,
        group_instance_id=by.instance_id,
        topics=(new.OffsetCommitRequestTopic(topic_id=topic_id, partitions=rows),),
    )
    return Request(OFFSET_COMMIT, body)


def fetch_offsets(by: Committer | str, topic_id: UUID, partitions: Collection[int]) -> Request:
    """OffsetFetch that waits for commits that are under way; without a member, of a group id."""
    new = codec.newest(OFFSET_FETCH, "request")
    topic = new.OffsetFetchRequestTopics(
        topic_id=topic_id, partition_indexes=tuple(sorted(partitions))
    )
    if isinstance(by, str):
        group = new.OffsetFetchRequestGroup(group_id=by, topics=(topic,))
    else:
        group = new.OffsetFetchRequestGroup(
            group_id=by.group_id,
            member_id=by.member_id,
            member_epoch=by.epoch,
            topics=(topic,),
        )
    return Request(OFFSET_FETCH, new.OffsetFetchRequest(groups=(group,), require_stable=True))


def subscription_bytes(topic: str) -> bytes:
    """Subscription of one topic by a client that owns nothing.

    (apache/kafka: clients/.../ConsumerProtocolSubscription.json, version 1)
    """
    name = topic.encode()
    head = struct.pack(">hih", SUBSCRIPTION_VERSION, 1, len(name))
    return head + name + struct.pack(">ii", -1, 0)
