"""The types of keys of each topic of coordinators, with their values."""

from collections.abc import Mapping
from typing import Final

import msgspec

from coordinator.records import consumer, group, share, transaction
from coordinator.records.schema import Key, Value

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"


class Kind(msgspec.Struct, frozen=True):
    """A type of key with the value that belongs to it; `name` as in Kafka's schemas."""

    name: str
    key: type[Key]
    value: type[Value]


Kinds = Mapping[int, Kind]
"""By the int16 that a key begins with."""


def _kinds(*pairs: tuple[type[Key], type[Value]]) -> Kinds:
    return {key.type: Kind(_name(value), key, value) for key, value in pairs}


def _name(value: type[Value]) -> str:
    return value.__name__.removesuffix("Value")


GROUP_KINDS: Final = _kinds(
    (group.LegacyOffsetCommitKey, group.OffsetCommitValue),
    (group.OffsetCommitKey, group.OffsetCommitValue),
    (group.GroupMetadataKey, group.GroupMetadataValue),
    (consumer.ConsumerGroupMetadataKey, consumer.ConsumerGroupMetadataValue),
    (consumer.ConsumerGroupPartitionMetadataKey, consumer.ConsumerGroupPartitionMetadataValue),
    (consumer.ConsumerGroupMemberMetadataKey, consumer.ConsumerGroupMemberMetadataValue),
    (
        consumer.ConsumerGroupTargetAssignmentMetadataKey,
        consumer.ConsumerGroupTargetAssignmentMetadataValue,
    ),
    (
        consumer.ConsumerGroupTargetAssignmentMemberKey,
        consumer.ConsumerGroupTargetAssignmentMemberValue,
    ),
    (
        consumer.ConsumerGroupCurrentMemberAssignmentKey,
        consumer.ConsumerGroupCurrentMemberAssignmentValue,
    ),
    (consumer.ConsumerGroupRegularExpressionKey, consumer.ConsumerGroupRegularExpressionValue),
)
"""Of `__consumer_offsets`; share groups (9-15) and streams groups (17-23) are not known."""
TRANSACTION_KINDS: Final = _kinds((transaction.TransactionLogKey, transaction.TransactionLogValue))
SHARE_KINDS: Final = _kinds(
    (share.ShareSnapshotKey, share.ShareSnapshotValue),
    (share.ShareUpdateKey, share.ShareUpdateValue),
)
KINDS: Final[Mapping[str, Kinds]] = {
    CONSUMER_OFFSETS: GROUP_KINDS,
    TRANSACTION_STATE: TRANSACTION_KINDS,
    SHARE_GROUP_STATE: SHARE_KINDS,
}
"""By topic."""
