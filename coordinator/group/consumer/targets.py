"""New targets of a group's members, and the records of those that changed.

(apache/kafka: TargetAssignmentBuilder, GroupMetadataManager.maybeUpdateTargetAssignment)
"""

from collections.abc import Mapping
from operator import itemgetter
from typing import Final

from coordinator.group.consumer.assignors import range_assignor, uniform
from coordinator.group.consumer.assignors.spec import Assignor, GroupSpec, MemberSpec
from coordinator.group.consumer.draft import GroupDraft
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import Member, PartitionsByTopic
from coordinator.records.consumer import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TargetPartitions,
)
from coordinator.records.schema import CoordinatorRecord
from metadata.image import Image
from wire.types import TopicId

ASSIGNORS: Final[Mapping[str, Assignor]] = {
    uniform.NAME: uniform.assign_uniform,
    range_assignor.NAME: range_assignor.assign_range,
}
"""Assignors by name, in the order of Kafka's default of `group.consumer.assignors`."""

_first: Final = itemgetter(0)
_NOTHING: Final[PartitionsByTopic] = {}


def subscribed_topic_ids(
    group: ConsumerGroup, member: Member, cluster: Image
) -> frozenset[TopicId]:
    """Topics that a member subscribes and that exist."""
    ids = cluster.topic_id_by_name
    return frozenset(
        topic_id
        for name in group.subscribed_names(member)
        if (topic_id := ids.get(name)) is not None
    )


def are_targets_due(group: ConsumerGroup, interval_ms: int, wall_ms: int) -> bool:
    """True if the targets are of an older epoch and as old as the interval between two.

    So that many joins make few assignments (KIP-1263). At once if it is not known when the targets
    were made, or without an interval, which helps behind a clock that was set back.
    """
    if group.assignment_epoch >= group.group_epoch:
        return False
    if group.assignment_timestamp_ms == 0 or interval_ms == 0:
        return True
    return wall_ms >= group.assignment_timestamp_ms + interval_ms


def update_targets(draft: GroupDraft, cluster: Image, assignor: str, wall_ms: int) -> None:
    """Emit the targets that change, and the epoch of the group as that of its targets."""
    group = draft.group
    spec = group_spec(group, cluster)
    targets = ASSIGNORS[assignor](spec)
    for member_id, member in spec.members.items():
        target = targets.get(member_id, _NOTHING)
        if target is member.target and target is not _NOTHING:
            continue  # most targets of most assignments
        if target != group.targets.get(member_id):
            draft.emit(target_record(group.group_id, member_id, target))
    draft.emit(assignment_epoch_record(group.group_id, group.group_epoch, wall_ms))


def group_spec(group: ConsumerGroup, cluster: Image) -> GroupSpec:
    """The group as an assignor sees it, members by id."""
    members = {}
    ids_by_subscription: dict[tuple[tuple[str, ...], str | None], frozenset[TopicId]] = {}
    old_targets = group.targets
    for member_id, member in sorted(group.members.items(), key=_first):
        subscription = (member.subscribed_topic_names, member.regex)
        topic_ids = ids_by_subscription.get(subscription)
        if topic_ids is None:
            topic_ids = subscribed_topic_ids(group, member, cluster)
            ids_by_subscription[subscription] = topic_ids
        target = old_targets.get(member_id, _NOTHING)
        members[member_id] = MemberSpec(member.instance_id, topic_ids, target)
    all_ids = frozenset[TopicId]().union(*ids_by_subscription.values())
    return GroupSpec(
        members=members,
        is_homogeneous=group.is_homogeneous,
        partition_counts={
            topic_id: len(cluster.topics[topic_id].partitions) for topic_id in sorted(all_ids)
        },
    )


def target_record(group_id: str, member_id: str, target: PartitionsByTopic) -> CoordinatorRecord:
    """The record of a member's target."""
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=tuple(
                TargetPartitions(topic_id=topic_id, partitions=target[topic_id])
                for topic_id in sorted(target)
            )
        ),
    )


def assignment_epoch_record(group_id: str, epoch: int, wall_ms: int) -> CoordinatorRecord:
    """The record of the epoch of the targets, and of when they were made."""
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=wall_ms
        ),
    )
