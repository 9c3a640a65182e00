"""A member of a consumer group as its records tell it.

The subscription is in its ConsumerGroupMemberMetadata record, epochs and partitions are in its
ConsumerGroupCurrentMemberAssignment. A partition that a member has to give up
(`pending_revocation`) is its own until it no longer reports it.
(apache/kafka: ConsumerGroupMember, ModernGroupMember, MemberState; KIP-848)
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

import msgspec

from coordinator.records.consumer import (
    AssignedPartitions,
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from coordinator.records.schema import CoordinatorRecord
from wire.types import TopicId

PartitionsByTopic = Mapping[TopicId, tuple[int, ...]]
"""Partitions by topic id, ascending; a topic without partitions is left out."""
EpochsByTopic = Mapping[TopicId, Mapping[int, int]]
"""Epoch in which each partition was assigned, by topic id and partition."""

JOIN_GROUP_MEMBER_EPOCH: Final = 0
"""Member epoch of a request to join, or to join again."""
LEAVE_GROUP_MEMBER_EPOCH: Final = -1
"""Member epoch of a request to leave, and of a member whose assignment has a tombstone."""
LEAVE_GROUP_STATIC_MEMBER_EPOCH: Final = -2
"""Member epoch of a static member that leaves for a while, and of its record meanwhile."""
NO_EPOCH: Final = -1

NOTHING: Final[EpochsByTopic] = {}


class MemberState(IntEnum):
    """Progress of a member towards its target; the number is that of its record."""

    STABLE = 0
    """Has its target."""
    UNREVOKED_PARTITIONS = 1
    """Must revoke partitions before it reaches the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """Is in the newest epoch and waits for partitions of others."""
    UNKNOWN = 127
    """Was in a state of a newer version."""


_STATES: Final = {int(state): state for state in MemberState}


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One member; epochs are member epochs, times are ms."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = NO_EPOCH
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    """Ascending, each once."""
    subscribed_topic_regex: str | None = ""
    """None or empty without a regular expression."""
    server_assignor: str | None = None
    assigned: EpochsByTopic = NOTHING
    pending_revocation: EpochsByTopic = NOTHING
    classic: ClassicMemberMetadata | None = None
    """Set if the member uses the classic protocol."""

    @property
    def uses_classic_protocol(self) -> bool:
        """True if the member joined with JoinGroup."""
        return self.classic is not None

    @property
    def regex(self) -> str | None:
        """The regular expression that it subscribes, None without one."""
        return self.subscribed_topic_regex or None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """True if the member has its target of this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def assignment_epoch(self, topic_id: TopicId, partition: int) -> int | None:
        """Epoch in which it got a partition that it has or is to revoke; None for another."""
        for epochs in (self.assigned, self.pending_revocation):
            epoch = epochs.get(topic_id, _NO_PARTITIONS).get(partition)
            if epoch is not None:
                return epoch
        return None

    def with_subscription(self, value: ConsumerGroupMemberMetadataValue) -> "Member":
        """The member after a record of its subscription."""
        return msgspec.structs.replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=topic_names(value.subscribed_topic_names),
            subscribed_topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> "Member":
        """The member after a record of its assignment.

        A partition without an epoch, as versions before 4.3 write it, was assigned in the epoch
        of the member; in epoch 0 if that is of a static member that left.
        """
        epoch = max(value.member_epoch, 0)
        return msgspec.structs.replace(
            self,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=_STATES.get(value.state, MemberState.UNKNOWN),
            assigned=_epochs_by_topic(value.assigned_partitions, epoch),
            pending_revocation=_epochs_by_topic(value.partitions_pending_revocation, epoch),
        )

    def without_assignment(self) -> "Member":
        """The member after a tombstone of its assignment."""
        return msgspec.structs.replace(
            self,
            member_epoch=LEAVE_GROUP_MEMBER_EPOCH,
            previous_member_epoch=LEAVE_GROUP_MEMBER_EPOCH,
            assigned=NOTHING,
            pending_revocation=NOTHING,
        )


_NO_PARTITIONS: Final[Mapping[int, int]] = {}


def topic_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names in the form of a member: ascending, each once."""
    return tuple(sorted(set(names)))


def subscription_record(group_id: str, member: Member) -> CoordinatorRecord:
    """The record of what a member subscribes."""
    return CoordinatorRecord(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=member.subscribed_topic_names,
            subscribed_topic_regex=member.subscribed_topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=member.classic,
        ),
    )


def assignment_record(group_id: str, member: Member) -> CoordinatorRecord:
    """The record of the epochs, state and partitions of a member."""
    return CoordinatorRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=int(member.state),
            assigned_partitions=_assigned_partitions(member.assigned),
            partitions_pending_revocation=_assigned_partitions(member.pending_revocation),
        ),
    )


def _assigned_partitions(assigned: EpochsByTopic) -> tuple[AssignedPartitions, ...]:
    found = []
    for topic_id in sorted(assigned):
        epochs = assigned[topic_id]
        partitions = tuple(sorted(epochs))
        found.append(
            AssignedPartitions(
                topic_id=topic_id,
                partitions=partitions,
                assignment_epochs=tuple(epochs[partition] for partition in partitions),
            )
        )
    return tuple(found)


def _epochs_by_topic(rows: tuple[AssignedPartitions, ...], default_epoch: int) -> EpochsByTopic:
    found: dict[TopicId, Mapping[int, int]] = {}
    for row in rows:
        epochs = row.assignment_epochs
        if epochs is None or len(epochs) != len(row.partitions):
            epochs = (default_epoch,) * len(row.partitions)
        found[row.topic_id] = dict(zip(row.partitions, epochs, strict=True))
    return found or NOTHING
