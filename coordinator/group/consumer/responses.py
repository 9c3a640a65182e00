"""Bodies of ConsumerGroupHeartbeat and ConsumerGroupDescribe, and rows of ListGroups.

(apache/kafka: ConsumerGroup.asDescribedGroup, ConsumerGroupMember.asConsumerGroupDescribeMember)
"""

from datetime import timedelta
from typing import Final
from uuid import UUID

from kio.schema.consumer_group_describe.v1.response import Assignment as DescribedAssignment
from kio.schema.consumer_group_describe.v1.response import DescribedGroup
from kio.schema.consumer_group_describe.v1.response import Member as DescribedMember
from kio.schema.consumer_group_describe.v1.response import TopicPartitions as DescribedPartitions
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.consumer_group_heartbeat.v1.response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kio.schema.list_groups.v5.response import ListedGroup
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta

from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import Member, PartitionsByTopic
from coordinator.group.consumer.requests import Heartbeat, HeartbeatAnswer
from metadata.image import Image
from wire.errors import ApiError, ErrorCode
from wire.types import ZERO_UUID, TopicId, milliseconds

PROTOCOL_TYPE: Final = "consumer"
GROUP_TYPE: Final = "consumer"
CLASSIC_MEMBER: Final = i8(0)
CONSUMER_MEMBER: Final = i8(1)

_NONE: Final = i32Timedelta.parse(timedelta(0))


def heartbeat_of(
    body: ConsumerGroupHeartbeatRequest, *, client_id: str, client_host: str, api_version: int
) -> Heartbeat:
    """The request of a client at an IP address."""
    timeout_ms = milliseconds(body.rebalance_timeout)
    owned = body.topic_partitions
    return Heartbeat(
        group_id=body.group_id,
        member_id=body.member_id,
        member_epoch=body.member_epoch,
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        rebalance_timeout_ms=None if timeout_ms == -1 else timeout_ms,
        subscribed_topic_names=body.subscribed_topic_names,
        subscribed_topic_regex=body.subscribed_topic_regex,
        server_assignor=body.server_assignor,
        owned=None
        if owned is None
        else {
            TopicId(ZERO_UUID if row.topic_id is None else row.topic_id.bytes): row.partitions
            for row in owned
        },
        client_id=client_id,
        client_host=f"/{client_host}",
        api_version=api_version,
    )


def heartbeat_response(answer: HeartbeatAnswer | ApiError) -> ConsumerGroupHeartbeatResponse:
    """The body of an answer."""
    if isinstance(answer, ApiError):
        return ConsumerGroupHeartbeatResponse(
            throttle_time=_NONE,
            error_code=answer.code,
            error_message=answer.message,
            member_epoch=i32(0),
            heartbeat_interval=_NONE,
        )
    partitions = answer.assignment
    return ConsumerGroupHeartbeatResponse(
        throttle_time=_NONE,
        error_code=ErrorCode.none,
        member_id=answer.member_id,
        member_epoch=i32(answer.member_epoch),
        heartbeat_interval=i32Timedelta.parse(timedelta(milliseconds=answer.heartbeat_interval_ms)),
        assignment=None
        if partitions is None
        else Assignment(
            topic_partitions=tuple(
                TopicPartitions(
                    topic_id=UUID(bytes=topic_id), partitions=tuple(map(i32, partitions[topic_id]))
                )
                for topic_id in sorted(partitions)
            )
        ),
    )


def described_error(group_id: str, error: ApiError) -> DescribedGroup:
    """The row of a group that is not described."""
    return DescribedGroup(
        error_code=error.code,
        error_message=error.message,
        group_id=GroupId(group_id),
        group_state="",
        group_epoch=i32(0),
        assignment_epoch=i32(0),
        assignor_name="",
        members=(),
    )


def described_group(group: ConsumerGroup, cluster: Image, default_assignor: str) -> DescribedGroup:
    """The row of a group."""
    return DescribedGroup(
        error_code=ErrorCode.none,
        group_id=GroupId(group.group_id),
        group_state=group.state,
        group_epoch=i32(group.group_epoch),
        assignment_epoch=i32(group.assignment_epoch),
        assignor_name=group.preferred_assignor(default_assignor),
        members=tuple(
            _described_member(group.members[member_id], group.targets.get(member_id, {}), cluster)
            for member_id in sorted(group.members)
        ),
    )


def listed_group(group: ConsumerGroup) -> ListedGroup:
    """The row of a group in ListGroups."""
    return ListedGroup(
        group_id=GroupId(group.group_id),
        protocol_type=PROTOCOL_TYPE,
        group_state=group.state,
        group_type=GROUP_TYPE,
    )


def _described_member(member: Member, target: PartitionsByTopic, cluster: Image) -> DescribedMember:
    """The row of a member; what it is to revoke is still its own."""
    current: dict[TopicId, tuple[int, ...]] = {}
    for epochs in (member.assigned, member.pending_revocation):
        for topic_id, partitions in epochs.items():
            current[topic_id] = (*current.get(topic_id, ()), *sorted(partitions))
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=i32(member.member_epoch),
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(map(TopicName, member.subscribed_topic_names)),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_described_assignment(current, cluster),
        target_assignment=_described_assignment(target, cluster),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def _described_assignment(partitions: PartitionsByTopic, cluster: Image) -> DescribedAssignment:
    """Partitions of the topics that exist."""
    return DescribedAssignment(
        topic_partitions=tuple(
            DescribedPartitions(
                topic_id=UUID(bytes=topic_id),
                topic_name=TopicName(cluster.topics[topic_id].name),
                partitions=tuple(map(i32, partitions[topic_id])),
            )
            for topic_id in sorted(partitions)
            if topic_id in cluster.topics
        )
    )
