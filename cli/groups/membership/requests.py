"""Actions of a member as requests of Kafka, and answers as the member reads them."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from cli.connect import newest
from cli.groups.membership.actions import (
    Beaten,
    ConsumerHeartbeat,
    GroupConfig,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Sync,
)
from cli.groups.membership.subscriptions import subscription_bytes
from cli.records.clients.topic_metadata import Partition
from coordinator.group.consumer.client_protocol import (
    PROTOCOL_TYPE,
    VERSION_MAX,
    MalformedProtocolError,
    assignment_bytes,
    assignment_of,
    subscription_of,
)

OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
JOIN_GROUP: Final = 11
HEARTBEAT: Final = 12
LEAVE_GROUP: Final = 13
SYNC_GROUP: Final = 14
CONSUMER_GROUP_HEARTBEAT: Final = 68
NO_TIMEOUT: Final = timedelta(milliseconds=-1)

Request = tuple[int, Any]
"""API and body."""


def request_of(
    action: Join | Sync | Heartbeat | ConsumerHeartbeat | Leave, config: GroupConfig
) -> Request:
    """The request for an action."""
    match action:
        case Join():
            return JOIN_GROUP, _join(action, config)
        case Sync():
            return SYNC_GROUP, _sync(action, config)
        case Heartbeat():
            return HEARTBEAT, newest(HEARTBEAT).HeartbeatRequest(
                group_id=config.group_id,
                generation_id=action.generation,
                member_id=action.member_id,
                group_instance_id=config.group_instance_id,
            )
        case ConsumerHeartbeat():
            return CONSUMER_GROUP_HEARTBEAT, _consumer_heartbeat(action, config)
        case Leave():
            module = newest(LEAVE_GROUP)
            member = module.MemberIdentity(
                member_id=action.member_id, group_instance_id=None, reason=None
            )
            return LEAVE_GROUP, module.LeaveGroupRequest(
                group_id=config.group_id, members=(member,)
            )


def _join(action: Join, config: GroupConfig) -> Any:
    module = newest(JOIN_GROUP)
    metadata = subscription_bytes(action.topics)
    return module.JoinGroupRequest(
        group_id=config.group_id,
        session_timeout=timedelta(milliseconds=config.session_timeout_ms),
        rebalance_timeout=timedelta(milliseconds=config.max_poll_interval_ms),
        member_id=action.member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=tuple(
            module.JoinGroupRequestProtocol(name=name, metadata=metadata)
            for name in config.assignors
        ),
        reason=None,
    )


def _sync(action: Sync, config: GroupConfig) -> Any:
    module = newest(SYNC_GROUP)
    return module.SyncGroupRequest(
        group_id=config.group_id,
        generation_id=action.generation,
        member_id=action.member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=action.protocol,
        assignments=tuple(
            module.SyncGroupRequestAssignment(
                member_id=member_id, assignment=assignment_bytes(partitions, VERSION_MAX)
            )
            for member_id, partitions in action.assignments.items()
        ),
    )


def _consumer_heartbeat(action: ConsumerHeartbeat, config: GroupConfig) -> Any:
    module = newest(CONSUMER_GROUP_HEARTBEAT)
    rebalance_timeout = timedelta(milliseconds=config.max_poll_interval_ms)
    return module.ConsumerGroupHeartbeatRequest(
        group_id=config.group_id,
        member_id=action.member_id,
        member_epoch=action.epoch,
        instance_id=config.group_instance_id,
        rack_id=None,
        rebalance_timeout=rebalance_timeout if action.is_whole else NO_TIMEOUT,
        subscribed_topic_names=action.topics,
        subscribed_topic_regex=None,
        server_assignor=config.group_remote_assignor if action.is_whole else None,
        topic_partitions=None
        if action.owned is None
        else tuple(
            module.TopicPartitions(topic_id=topic_id, partitions=tuple(numbers))
            for topic_id, numbers in _by_topic(action.owned).items()
        ),
    )


def _by_topic(places: Iterable[tuple[UUID, int]]) -> dict[UUID, list[int]]:
    found: dict[UUID, list[int]] = {}
    for topic_id, number in sorted(places):
        found.setdefault(topic_id, []).append(number)
    return found


def joined_of(answer: Any) -> Joined:
    """The answer to JoinGroup; of members whose bytes cannot be read no topics are known."""
    return Joined(
        code=int(answer.error_code),
        member_id=answer.member_id,
        generation=int(answer.generation_id),
        protocol=answer.protocol_name or "",
        leader=answer.leader,
        subscriptions={
            member.member_id: (member.group_instance_id, _topics(member.metadata))
            for member in answer.members
        },
    )


def _topics(metadata: bytes) -> tuple[str, ...]:
    try:
        return subscription_of(metadata).topics
    except MalformedProtocolError:
        return ()


def partitions_of(assignment: bytes) -> frozenset[Partition]:
    """The partitions of an answer to SyncGroup.

    Raises:
        MalformedProtocolError: the bytes are no assignment.
    """
    return frozenset(
        Partition(topic, number)
        for topic, numbers in assignment_of(assignment)[0].items()
        for number in numbers
    )


def beaten_of(answer: Any) -> Beaten:
    """The answer to ConsumerGroupHeartbeat."""
    assignment = answer.assignment
    return Beaten(
        code=int(answer.error_code),
        message=answer.error_message,
        member_id=answer.member_id or "",
        epoch=int(answer.member_epoch),
        interval_ms=round(answer.heartbeat_interval.total_seconds() * 1000),
        assigned=None
        if assignment is None
        else frozenset(
            (row.topic_id, int(number))
            for row in assignment.topic_partitions
            for number in row.partitions
        ),
    )


def code_of(answer: Any) -> int:
    """The code of an answer about a group as a whole."""
    return int(answer.error_code)


def commit_request(
    config: GroupConfig,
    member_id: str,
    generation: int,
    positions: Mapping[UUID, Mapping[int, tuple[int, int]]],
) -> Any:
    """Make an OffsetCommit.

    Args:
        config: of the member.
        member_id: of the member.
        generation: or epoch of the member.
        positions: offset and leader epoch by topic and partition.
    """
    module = newest(OFFSET_COMMIT)
    return module.OffsetCommitRequest(
        group_id=config.group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=config.group_instance_id,
        topics=tuple(
            module.OffsetCommitRequestTopic(
                topic_id=topic_id,
                partitions=tuple(
                    module.OffsetCommitRequestPartition(
                        partition_index=number,
                        committed_offset=offset,
                        committed_leader_epoch=epoch,
                        committed_metadata="",
                    )
                    for number, (offset, epoch) in of_topic.items()
                ),
            )
            for topic_id, of_topic in positions.items()
        ),
    )


def committed_request(
    config: GroupConfig,
    member_id: str,
    generation: int,
    partitions: Mapping[UUID, Iterable[int]],
    *,
    is_stable: bool,
) -> Any:
    """Make an OffsetFetch.

    Args:
        config: of the member.
        member_id: of the member.
        generation: epoch of the member of a consumer protocol.
        partitions: numbers by topic.
        is_stable: wait for transactions that commit offsets.
    """
    module = newest(OFFSET_FETCH)
    is_consumer = config.is_consumer_protocol
    group = module.OffsetFetchRequestGroup(
        group_id=config.group_id,
        member_id=member_id if is_consumer else None,
        member_epoch=generation if is_consumer else -1,
        topics=tuple(
            module.OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=tuple(numbers))
            for topic_id, numbers in partitions.items()
        ),
    )
    return module.OffsetFetchRequest(groups=(group,), require_stable=is_stable)
