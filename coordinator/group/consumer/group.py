"""A consumer group as one immutable value, with the indexes that its decisions need.

`with_...` and `without_...` are the meaning of the group's records: one for each type of key.
The indexes (counts of subscriptions, owners of partitions, static members) follow from members and
resolved regular expressions.

    group_epoch        raised when members, subscriptions or topics change
    assignment_epoch   the group epoch that the targets were made for; behind it while they are due
    member_epoch       the assignment epoch that a member has reached

(apache/kafka: ConsumerGroup, ModernGroup, Assignment; KIP-848, KIP-1101 for `metadata_hash`)
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from coordinator.group.consumer.member import (
    LEAVE_GROUP_MEMBER_EPOCH,
    NO_EPOCH,
    EpochsByTopic,
    Member,
    PartitionsByTopic,
)
from coordinator.records.consumer import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from coordinator.records.schema import CoordinatorRecordError
from wire.persistent_map import Map
from wire.types import TopicId

FIRST_EPOCH: Final = 1
"""Group epoch and assignment epoch of a group without records."""

K = TypeVar("K")


class GroupState(StrEnum):
    """State of a group, as tools print it."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """Its targets are due."""
    RECONCILING = "Reconciling"
    """A member has not reached its target."""
    STABLE = "Stable"


class ResolvedRegex(msgspec.Struct, frozen=True):
    """The topics that matched a regular expression."""

    topic_names: tuple[str, ...]
    """Ascending."""
    version: int
    """Offset of the metadata that they were found in."""
    timestamp_ms: int


class SubscriptionCount(msgspec.Struct, frozen=True, gc=False):
    """Members that name a topic, and regular expressions that match it; not both are 0."""

    by_name: int = 0
    by_regex: int = 0


class ConsumerGroup(msgspec.Struct, frozen=True, kw_only=True):
    """One group; a new one has no record yet."""

    group_id: str
    group_epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = FIRST_EPOCH
    """NO_EPOCH after the tombstone of the targets."""
    assignment_timestamp_ms: int = 0
    """0: not known, or no targets yet."""
    members: Map[str, Member] = Map()
    targets: Map[str, PartitionsByTopic] = Map()
    """Target of each member."""
    resolved: Map[str, ResolvedRegex] = Map()
    """Resolved regular expressions."""
    has_partition_metadata: bool = False
    """True if the log has a record of 4.0 that must get a tombstone."""
    member_id_by_instance: Map[str, str] = Map()
    topic_counts: Map[str, SubscriptionCount] = Map()
    """Index: subscriptions by topic name."""
    regex_counts: Map[str, int] = Map()
    """Index: members by regular expression."""
    assignor_counts: Map[str, int] = Map()
    """Index: members by the assignor that they prefer."""
    classic_protocol_counts: Map[str, int] = Map()
    """Index: members that use the classic protocol, by protocol that they support."""
    classic_member_count: int = 0
    partition_epochs: Map[TopicId, Map[int, int]] = Map()
    """Index: epoch of the member that has a partition or is to revoke it."""

    @property
    def state(self) -> GroupState:
        """The state; looks at every member."""
        if not self.members:
            return GroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        epoch = self.assignment_epoch
        if all(member.is_reconciled_to(epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    @property
    def is_homogeneous(self) -> bool:
        """True if all members subscribe the same topics, by name or by one regular expression."""
        count = len(self.members)
        topics = self.topic_counts.values()
        if not self.regex_counts:
            return all(topic.by_name == count for topic in topics)
        if len(self.regex_counts) > 1 or any(c != count for c in self.regex_counts.values()):
            return False
        return all(topic.by_regex == 1 and topic.by_name == 0 for topic in topics)

    def static_member(self, instance_id: str) -> Member | None:
        """The member with an instance id."""
        member_id = self.member_id_by_instance.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def is_owned(self, topic_id: TopicId, partition: int) -> bool:
        """True if a member has the partition or is to revoke it."""
        return partition in self.partition_epochs.get(topic_id, _NO_EPOCHS)

    def subscribed_names(self, member: Member) -> Iterable[str]:
        """Names of the topics that a member subscribes; of an unresolved expression, none."""
        resolved = self.resolved.get(member.regex) if member.regex is not None else None
        if resolved is None:
            return member.subscribed_topic_names
        if not member.subscribed_topic_names:
            return resolved.topic_names
        return {*member.subscribed_topic_names, *resolved.topic_names}

    def preferred_assignor(self, default: str) -> str:
        """The assignor that most members prefer; of equals the first by name."""
        counts = self.assignor_counts
        return min(counts, key=lambda name: (-counts[name], name), default=default)

    def with_epoch(self, value: ConsumerGroupMetadataValue) -> "ConsumerGroup":
        """The group after a record of its epoch."""
        return msgspec.structs.replace(
            self, group_epoch=value.epoch, metadata_hash=value.metadata_hash
        )

    def with_subscription(
        self, member_id: str, value: ConsumerGroupMemberMetadataValue
    ) -> "ConsumerGroup":
        """The group after a record of what a member subscribes."""
        member = self.members.get(member_id) or Member(member_id=member_id)
        return self._with_member(member.with_subscription(value))

    def without_member(self, member_id: str) -> "ConsumerGroup":
        """The group after the tombstone of a member, the last of its three.

        Raises:
            CoordinatorRecordError: the member has an assignment or a target.
        """
        member = self.members.get(member_id)
        if member is None:
            return self
        if member.member_epoch != LEAVE_GROUP_MEMBER_EPOCH or member_id in self.targets:
            raise CoordinatorRecordError(
                f"group {self.group_id}: tombstone of member {member_id} before those of its "
                "assignment and target"
            )
        instances = self.member_id_by_instance
        if member.instance_id is not None:
            instances = _without(instances, member.instance_id)
        group = self._counted(member, None)
        return msgspec.structs.replace(
            group, members=self.members.delete(member_id), member_id_by_instance=instances
        )

    def with_assignment(
        self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue
    ) -> "ConsumerGroup":
        """The group after a record of a member's epochs and partitions.

        Raises:
            CoordinatorRecordError: another member has one of the partitions in this epoch or later.
        """
        member = self.members.get(member_id) or Member(member_id=member_id)
        return self._with_member(member.with_assignment(value))

    def without_assignment(self, member_id: str) -> "ConsumerGroup":
        """The group after the tombstone of a member's assignment."""
        member = self.members.get(member_id)
        return self if member is None else self._with_member(member.without_assignment())

    def with_target(
        self, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue
    ) -> "ConsumerGroup":
        """The group after a record of a member's target."""
        target = {row.topic_id: tuple(sorted(row.partitions)) for row in value.topic_partitions}
        return msgspec.structs.replace(self, targets=self.targets.set(member_id, target))

    def without_target(self, member_id: str) -> "ConsumerGroup":
        """The group after the tombstone of a member's target."""
        return msgspec.structs.replace(self, targets=_without(self.targets, member_id))

    def with_assignment_epoch(
        self, value: ConsumerGroupTargetAssignmentMetadataValue
    ) -> "ConsumerGroup":
        """The group after a record of the epoch of its targets."""
        return msgspec.structs.replace(
            self,
            assignment_epoch=value.assignment_epoch,
            assignment_timestamp_ms=value.assignment_timestamp,
        )

    def without_assignment_epoch(self) -> "ConsumerGroup":
        """The group after the tombstone of the epoch of its targets.

        Raises:
            CoordinatorRecordError: a member has a target.
        """
        if self.targets:
            raise CoordinatorRecordError(
                f"group {self.group_id}: tombstone of the targets before those of "
                f"{len(self.targets)} members"
            )
        return msgspec.structs.replace(self, assignment_epoch=NO_EPOCH, assignment_timestamp_ms=0)

    def with_regex(self, regex: str, value: ConsumerGroupRegularExpressionValue) -> "ConsumerGroup":
        """The group after a record of the topics that match a regular expression."""
        resolved = ResolvedRegex(
            topic_names=tuple(sorted(value.topics)),
            version=value.version,
            timestamp_ms=value.timestamp,
        )
        group = self.without_regex(regex)
        return msgspec.structs.replace(
            group,
            resolved=group.resolved.set(regex, resolved),
            topic_counts=_counted_topics(group.topic_counts, resolved.topic_names, by_regex=1),
        )

    def without_regex(self, regex: str) -> "ConsumerGroup":
        """The group after the tombstone of a regular expression."""
        resolved = self.resolved.get(regex)
        if resolved is None:
            return self
        return msgspec.structs.replace(
            self,
            resolved=self.resolved.delete(regex),
            topic_counts=_counted_topics(self.topic_counts, resolved.topic_names, by_regex=-1),
        )

    def with_partition_metadata(self, *, is_present: bool) -> "ConsumerGroup":
        """The group after a record or a tombstone of the topics that a group of 4.0 subscribed."""
        return msgspec.structs.replace(self, has_partition_metadata=is_present)

    def check_removal(self) -> None:
        """Check that the group may have the tombstone of its epoch, the last of all.

        Raises:
            CoordinatorRecordError: it has members or targets.
        """
        if self.members or self.targets or self.assignment_epoch != NO_EPOCH:
            raise CoordinatorRecordError(
                f"group {self.group_id}: tombstone before those of {len(self.members)} members "
                f"and {len(self.targets)} targets of epoch {self.assignment_epoch}"
            )

    def _with_member(self, member: Member) -> "ConsumerGroup":
        old = self.members.get(member.member_id)
        group = self._counted(old, member)
        instances = self.member_id_by_instance
        if member.instance_id is not None:
            instances = instances.set(member.instance_id, member.member_id)
        return msgspec.structs.replace(
            group,
            members=self.members.set(member.member_id, member),
            member_id_by_instance=instances,
        )

    def _counted(self, old: Member | None, new: Member | None) -> "ConsumerGroup":
        """The group with its indexes after a member has changed."""
        if old is not None and new is not None and _subscribes_alike(old, new):
            return msgspec.structs.replace(self, partition_epochs=self._moved_epochs(old, new))
        return msgspec.structs.replace(
            self,
            topic_counts=_moved_topics(self.topic_counts, _names(old), _names(new)),
            regex_counts=_moved(self.regex_counts, _regex(old), _regex(new)),
            assignor_counts=_moved(self.assignor_counts, _assignor(old), _assignor(new)),
            classic_protocol_counts=_moved(
                self.classic_protocol_counts, _protocols(old), _protocols(new)
            ),
            classic_member_count=self.classic_member_count - _is_classic(old) + _is_classic(new),
            partition_epochs=self._moved_epochs(old, new),
        )

    def _moved_epochs(self, old: Member | None, new: Member | None) -> Map[TopicId, Map[int, int]]:
        """Owners of partitions after a member has changed."""
        epochs = self.partition_epochs
        if (
            old is not None
            and new is not None
            and old.member_epoch == new.member_epoch
            and old.assigned is new.assigned
            and old.pending_revocation is new.pending_revocation
        ):
            return epochs
        for assigned in (old.assigned, old.pending_revocation) if old is not None else ():
            assert old is not None
            epochs = _removed_epochs(epochs, assigned, old.member_epoch)
        for assigned in (new.assigned, new.pending_revocation) if new is not None else ():
            assert new is not None
            epochs = self._added_epochs(epochs, assigned, new.member_epoch)
        return epochs

    def _added_epochs(
        self, epochs: Map[TopicId, Map[int, int]], assigned: EpochsByTopic, epoch: int
    ) -> Map[TopicId, Map[int, int]]:
        for topic_id, partitions in assigned.items():
            owners = epochs.get(topic_id, _NO_EPOCHS).mutate()
            for partition in partitions:
                owner_epoch = owners.get(partition)
                if owner_epoch is not None and owner_epoch >= epoch:
                    raise CoordinatorRecordError(
                        f"group {self.group_id}: partition {topic_id.hex()}-{partition} is "
                        f"owned in epoch {owner_epoch}, not free for epoch {epoch}"
                    )
                owners[partition] = epoch
            epochs = epochs.set(topic_id, owners.finish())
        return epochs


_NO_EPOCHS: Final[Map[int, int]] = Map()


def _subscribes_alike(old: Member, new: Member) -> bool:
    """True if a change of a member left alone what the group counts by its subscription."""
    return (
        old.subscribed_topic_names is new.subscribed_topic_names
        and old.subscribed_topic_regex is new.subscribed_topic_regex
        and old.server_assignor is new.server_assignor
        and old.classic is new.classic
    )


def _names(member: Member | None) -> tuple[str, ...]:
    return () if member is None else member.subscribed_topic_names


def _regex(member: Member | None) -> tuple[str, ...]:
    return () if member is None or member.regex is None else (member.regex,)


def _assignor(member: Member | None) -> tuple[str, ...]:
    return () if member is None or member.server_assignor is None else (member.server_assignor,)


def _is_classic(member: Member | None) -> bool:
    return member is not None and member.uses_classic_protocol


def _protocols(member: Member | None) -> tuple[str, ...]:
    if member is None or member.classic is None:
        return ()
    return tuple(protocol.name for protocol in member.classic.supported_protocols)


def _moved(counts: Map[K, int], old: tuple[K, ...], new: tuple[K, ...]) -> Map[K, int]:
    """Counts with one less for each old key and one more for each new one; none is 0."""
    if old == new:
        return counts
    for key in old:
        count = counts[key] - 1
        counts = counts.set(key, count) if count else counts.delete(key)
    for key in new:
        counts = counts.set(key, counts.get(key, 0) + 1)
    return counts


def _moved_topics(
    counts: Map[str, SubscriptionCount], old: tuple[str, ...], new: tuple[str, ...]
) -> Map[str, SubscriptionCount]:
    if old == new:
        return counts
    return _counted_topics(_counted_topics(counts, old, by_name=-1), new, by_name=1)


def _counted_topics(
    counts: Map[str, SubscriptionCount],
    names: Iterable[str],
    *,
    by_name: int = 0,
    by_regex: int = 0,
) -> Map[str, SubscriptionCount]:
    """Counts of topics after a change of each of these names."""
    changed = counts.mutate()
    for name in names:
        old = changed.get(name, _NO_SUBSCRIPTION)
        new = SubscriptionCount(old.by_name + by_name, old.by_regex + by_regex)
        assert new.by_name >= 0, f"{name=} {new=}"
        assert new.by_regex >= 0, f"{name=} {new=}"
        if new == _NO_SUBSCRIPTION:
            del changed[name]
        else:
            changed[name] = new
    return changed.finish()


_NO_SUBSCRIPTION: Final = SubscriptionCount()


def _removed_epochs(
    epochs: Map[TopicId, Map[int, int]], assigned: EpochsByTopic, epoch: int
) -> Map[TopicId, Map[int, int]]:
    """Owners without a member that had these partitions in this epoch.

    A partition in another epoch has a new owner: in a compacted log its record can come first.
    """
    for topic_id, partitions in assigned.items():
        owners = epochs.get(topic_id, _NO_EPOCHS).mutate()
        for partition in partitions:
            if owners.get(partition) == epoch:
                del owners[partition]
        changed = owners.finish()
        if changed:
            epochs = epochs.set(topic_id, changed)
        elif topic_id in epochs:
            epochs = epochs.delete(topic_id)
    return epochs


V = TypeVar("V")


def _without(entries: Map[str, V], key: str) -> Map[str, V]:
    return entries.delete(key) if key in entries else entries
