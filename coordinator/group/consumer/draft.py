"""Records of an unfinished decision about a group, and the group after them.

`applied` is the one meaning of a record of a consumer group; a draft uses it for what is decided,
the image for what is loaded. (apache/kafka: GroupMetadataManager.replay)
"""

from collections.abc import Callable, Iterable
from typing import Final

from coordinator.group.consumer.group import ConsumerGroup
from coordinator.records.consumer import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupKey,
)
from coordinator.records.schema import CoordinatorRecord, Key, Value


def applied(
    group: ConsumerGroup | None, key: GroupKey, value: Value | None
) -> ConsumerGroup | None:
    """The group after a record with this key; None where there is none.

    Tombstones of what does not exist are passed over: a compacted log has them.

    Raises:
        CoordinatorRecordError: no coordinator writes this record for this group.
    """
    if group is None:
        if value is None:
            return None
        group = ConsumerGroup(group_id=key.group_id)
    assert key.group_id == group.group_id, f"{key.group_id=} {group.group_id=}"
    return _MEANINGS[type(key)](group, key, value)


class GroupDraft:
    """The group that a decision works on: each record is applied as it is emitted."""

    __slots__ = ("epochs_raised", "group", "records")

    def __init__(self, group: ConsumerGroup, records: Iterable[CoordinatorRecord] = ()) -> None:
        self.group = group
        self.records = list(records)
        """Records of this decision, those before the group began included."""
        self.epochs_raised = 0
        """Epochs that a member or its topics began: rebalances as Kafka counts them."""

    def emit(self, record: CoordinatorRecord) -> None:
        """Append and apply a record of a group that goes on."""
        key = record.key
        assert isinstance(key, GroupKey), f"{key=}"
        group = applied(self.group, key, record.value)
        assert group is not None, "the tombstone of a group is not part of a draft"
        self.group = group
        self.records.append(record)


def _epoch(group: ConsumerGroup, key: Key, value: Value | None) -> ConsumerGroup | None:
    if value is None:
        group.check_removal()
        return None
    assert isinstance(value, ConsumerGroupMetadataValue), f"{key=} {value=}"
    return group.with_epoch(value)


def _partition_metadata(group: ConsumerGroup, key: Key, value: Value | None) -> ConsumerGroup:
    assert isinstance(key, ConsumerGroupPartitionMetadataKey), f"{key=}"
    return group.with_partition_metadata(is_present=value is not None)


def _subscription(group: ConsumerGroup, key: Key, value: Value | None) -> ConsumerGroup:
    assert isinstance(key, ConsumerGroupMemberMetadataKey), f"{key=}"
    if value is None:
        return group.without_member(key.member_id)
    assert isinstance(value, ConsumerGroupMemberMetadataValue), f"{key=} {value=}"
    return group.with_subscription(key.member_id, value)


def _assignment_epoch(group: ConsumerGroup, key: Key, value: Value | None) -> ConsumerGroup:
    if value is None:
        return group.without_assignment_epoch()
    assert isinstance(value, ConsumerGroupTargetAssignmentMetadataValue), f"{key=} {value=}"
    return group.with_assignment_epoch(value)


def _target(group: ConsumerGroup, key: Key, value: Value | None) -> ConsumerGroup:
    assert isinstance(key, ConsumerGroupTargetAssignmentMemberKey), f"{key=}"
    if value is None:
        return group.without_target(key.member_id)
    assert isinstance(value, ConsumerGroupTargetAssignmentMemberValue), f"{key=} {value=}"
    return group.with_target(key.member_id, value)


def _assignment(group: ConsumerGroup, key: Key, value: Value | None) -> ConsumerGroup:
    assert isinstance(key, ConsumerGroupCurrentMemberAssignmentKey), f"{key=}"
    if value is None:
        return group.without_assignment(key.member_id)
    assert isinstance(value, ConsumerGroupCurrentMemberAssignmentValue), f"{key=} {value=}"
    return group.with_assignment(key.member_id, value)


def _regex(group: ConsumerGroup, key: Key, value: Value | None) -> ConsumerGroup:
    assert isinstance(key, ConsumerGroupRegularExpressionKey), f"{key=}"
    if value is None:
        return group.without_regex(key.regular_expression)
    assert isinstance(value, ConsumerGroupRegularExpressionValue), f"{key=} {value=}"
    return group.with_regex(key.regular_expression, value)


_MEANINGS: Final[
    dict[type[Key], Callable[[ConsumerGroup, Key, Value | None], ConsumerGroup | None]]
] = {
    ConsumerGroupMetadataKey: _epoch,
    ConsumerGroupPartitionMetadataKey: _partition_metadata,
    ConsumerGroupMemberMetadataKey: _subscription,
    ConsumerGroupTargetAssignmentMetadataKey: _assignment_epoch,
    ConsumerGroupTargetAssignmentMemberKey: _target,
    ConsumerGroupCurrentMemberAssignmentKey: _assignment,
    ConsumerGroupRegularExpressionKey: _regex,
}

KEYS: Final = frozenset(_MEANINGS)
"""Types of keys of consumer groups."""
