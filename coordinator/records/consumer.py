"""Records of `__consumer_offsets` for groups of KIP-848, one or two for each part of their state.

(apache/kafka: ConsumerGroup*.json)
"""

from typing import Annotated, ClassVar

from coordinator.records.schema import Fields, Key, Value, array, field
from metadata.schema import BYTES, INT8, INT32, INT64, STRING, UUID
from wire.types import TopicId


class GroupKey(Key, frozen=True, kw_only=True, gc=False):
    """A key that names a group."""

    group_id: Annotated[str, field(STRING)]


class MemberKey(GroupKey, frozen=True, kw_only=True, gc=False):
    """A key that names a member of a group."""

    member_id: Annotated[str, field(STRING)]


class ConsumerGroupMetadataKey(GroupKey, frozen=True, kw_only=True, gc=False):
    """A consumer group and its epoch."""

    type: ClassVar[int] = 3


class ConsumerGroupMetadataValue(Value, frozen=True, kw_only=True, gc=False):
    """Epoch of a group, and a hash of the topics that it subscribes (4.1, KIP-1101)."""

    epoch: Annotated[int, field(INT32)]
    metadata_hash: Annotated[int, field(INT64, tag=0)] = 0


class ConsumerGroupPartitionMetadataKey(GroupKey, frozen=True, kw_only=True, gc=False):
    """Topics that a group subscribes; since 4.1 only its tombstone is written."""

    type: ClassVar[int] = 4


class PartitionRacks(Fields, frozen=True, kw_only=True, gc=False):
    """Racks of the replicas of a partition; not used after 4.0."""

    partition: Annotated[int, field(INT32)]
    racks: Annotated[tuple[str, ...], field(array(STRING))]


class SubscribedTopic(Fields, frozen=True, kw_only=True, gc=False):
    """A topic that a group of 4.0 subscribed."""

    topic_id: Annotated[TopicId, field(UUID)]
    topic_name: Annotated[str, field(STRING)]
    num_partitions: Annotated[int, field(INT32)]
    partition_metadata: Annotated[tuple[PartitionRacks, ...], field(array(PartitionRacks))]


class ConsumerGroupPartitionMetadataValue(Value, frozen=True, kw_only=True, gc=False):
    """Topics that a group of 4.0 subscribed."""

    topics: Annotated[tuple[SubscribedTopic, ...], field(array(SubscribedTopic))]


class ConsumerGroupMemberMetadataKey(MemberKey, frozen=True, kw_only=True, gc=False):
    """A member of a consumer group."""

    type: ClassVar[int] = 5


class ClassicProtocol(Fields, frozen=True, kw_only=True, gc=False):
    """A protocol of a member that joined with JoinGroup, with its subscription."""

    name: Annotated[str, field(STRING)]
    metadata: Annotated[bytes, field(BYTES)]


class ClassicMemberMetadata(Fields, frozen=True, kw_only=True, gc=False):
    """Protocols of a member that joined with JoinGroup."""

    session_timeout_ms: Annotated[int, field(INT32)] = 0
    supported_protocols: Annotated[tuple[ClassicProtocol, ...], field(array(ClassicProtocol))] = ()


class ConsumerGroupMemberMetadataValue(Value, frozen=True, kw_only=True, gc=False):
    """Subscription of a member; `classic_member_metadata` of one that uses the classic protocol.

    The wire's default of that field is an empty struct, so None is written as a tagged null.
    """

    instance_id: Annotated[str | None, field(STRING, nullable=True)]
    rack_id: Annotated[str | None, field(STRING, nullable=True)]
    client_id: Annotated[str, field(STRING)]
    client_host: Annotated[str, field(STRING)]
    subscribed_topic_names: Annotated[tuple[str, ...], field(array(STRING))]
    subscribed_topic_regex: Annotated[str | None, field(STRING, nullable=True)]
    rebalance_timeout_ms: Annotated[int, field(INT32)] = -1
    server_assignor: Annotated[str | None, field(STRING, nullable=True)]
    classic_member_metadata: Annotated[
        ClassicMemberMetadata | None,
        field(ClassicMemberMetadata, tag=0, nullable=True, default=ClassicMemberMetadata()),
    ]


class ConsumerGroupTargetAssignmentMetadataKey(GroupKey, frozen=True, kw_only=True, gc=False):
    """The target assignment of a group."""

    type: ClassVar[int] = 6


class ConsumerGroupTargetAssignmentMetadataValue(Value, frozen=True, kw_only=True, gc=False):
    """Epoch of the target assignment, and when it was made (4.3, KIP-1263)."""

    assignment_epoch: Annotated[int, field(INT32)]
    assignment_timestamp: Annotated[int, field(INT64, tag=0, ignorable=True)] = 0


class ConsumerGroupTargetAssignmentMemberKey(MemberKey, frozen=True, kw_only=True, gc=False):
    """The target assignment of a member."""

    type: ClassVar[int] = 7


class TargetPartitions(Fields, frozen=True, kw_only=True, gc=False):
    """Partitions of a topic in a target assignment."""

    topic_id: Annotated[TopicId, field(UUID)]
    partitions: Annotated[tuple[int, ...], field(array(INT32))]


class ConsumerGroupTargetAssignmentMemberValue(Value, frozen=True, kw_only=True, gc=False):
    """Partitions that a member shall have."""

    topic_partitions: Annotated[tuple[TargetPartitions, ...], field(array(TargetPartitions))]


class ConsumerGroupCurrentMemberAssignmentKey(MemberKey, frozen=True, kw_only=True, gc=False):
    """The current assignment of a member."""

    type: ClassVar[int] = 8


class AssignedPartitions(Fields, frozen=True, kw_only=True, gc=False):
    """Partitions of a topic that a member has; `assignment_epochs`, as many, since when (4.3).

    The wire's default of the epochs is an empty array; None is written as a tagged null.
    """

    topic_id: Annotated[TopicId, field(UUID)]
    partitions: Annotated[tuple[int, ...], field(array(INT32))]
    assignment_epochs: Annotated[
        tuple[int, ...] | None, field(array(INT32), tag=0, nullable=True, default=())
    ]


class ConsumerGroupCurrentMemberAssignmentValue(Value, frozen=True, kw_only=True, gc=False):
    """Epochs, state and partitions of a member."""

    member_epoch: Annotated[int, field(INT32)]
    previous_member_epoch: Annotated[int, field(INT32)]
    state: Annotated[int, field(INT8)]
    assigned_partitions: Annotated[tuple[AssignedPartitions, ...], field(array(AssignedPartitions))]
    partitions_pending_revocation: Annotated[
        tuple[AssignedPartitions, ...], field(array(AssignedPartitions))
    ]


class ConsumerGroupRegularExpressionKey(GroupKey, frozen=True, kw_only=True, gc=False):
    """A regular expression that members of a group subscribe."""

    type: ClassVar[int] = 16

    regular_expression: Annotated[str, field(STRING)]


class ConsumerGroupRegularExpressionValue(Value, frozen=True, kw_only=True, gc=False):
    """Topics that matched; `version` is the metadata offset, `timestamp` in ms."""

    topics: Annotated[tuple[str, ...], field(array(STRING))]
    version: Annotated[int, field(INT64)]
    timestamp: Annotated[int, field(INT64)]
