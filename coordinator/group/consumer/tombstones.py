"""Tombstones of members and of groups, in the order that `draft.applied` asks for.

(apache/kafka: GroupMetadataManager.removeMember, ConsumerGroup.createGroupTombstoneRecords)
"""

from coordinator.group.consumer.group import ConsumerGroup
from coordinator.records.consumer import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from coordinator.records.schema import CoordinatorRecord, Key


def member_tombstones(group_id: str, member_id: str) -> tuple[CoordinatorRecord, ...]:
    """Tombstones of a member: its assignment, its target, its subscription."""
    return (
        _tombstone(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        _tombstone(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        _tombstone(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    )


def regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    """Tombstone of a regular expression."""
    return _tombstone(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    )


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Tombstone of the topics that a group of 4.0 subscribed."""
    return _tombstone(ConsumerGroupPartitionMetadataKey(group_id=group_id))


def group_tombstones(group: ConsumerGroup) -> tuple[CoordinatorRecord, ...]:
    """Tombstones of all that a group has, members included; its epoch is the last."""
    group_id = group.group_id
    members = sorted(group.members)
    keys: list[Key] = [
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
        for member_id in members
    ]
    keys += [
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
        for member_id in members
    ]
    keys.append(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id))
    keys += [
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
        for member_id in members
    ]
    keys += [
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
        for regex in sorted(group.resolved)
    ]
    keys.append(ConsumerGroupPartitionMetadataKey(group_id=group_id))
    keys.append(ConsumerGroupMetadataKey(group_id=group_id))
    return tuple(_tombstone(key) for key in keys)


def _tombstone(key: Key) -> CoordinatorRecord:
    return CoordinatorRecord(key, None)
