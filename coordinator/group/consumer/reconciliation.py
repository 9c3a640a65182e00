"""One step of a member from its current assignment towards its target.

    STABLE --(partitions to revoke)--> UNREVOKED_PARTITIONS --(no longer reported)--+
      ^  ^                                                                          |
      |  +--(nothing to wait for)-------------------------------- next epoch -------+
      |                                                                             |
      +--(others released)--- UNRELEASED_PARTITIONS <--(owned by others)------------+

A member reaches the epoch of the target as soon as it has given up what the target does not have,
and gets each partition when its previous owner has given it up: no partition has two owners.
(apache/kafka: CurrentAssignmentBuilder; KIP-848 "Reconciliation")
"""

from collections.abc import Callable, Collection, Mapping

import msgspec

from coordinator.group.consumer.member import (
    NOTHING,
    EpochsByTopic,
    Member,
    MemberState,
    PartitionsByTopic,
)
from wire.errors import ApiError, ErrorCode
from wire.types import TopicId

OwnedPartitions = Mapping[TopicId, Collection[int]]
"""Partitions that a member reports as its own."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The target of a member, and what bounds its way there."""

    epoch: int
    """Epoch of the target assignment."""
    partitions: PartitionsByTopic
    subscribed_topic_ids: frozenset[TopicId]
    """Topics that the member subscribes and that exist."""
    is_owned: Callable[[TopicId, int], bool]
    """True if any member of the group has the partition or is to revoke it."""
    owned: OwnedPartitions | None
    """The partitions that the member reports in this request; None if it says nothing."""
    has_subscription_changed: bool
    """True if this request changed the subscription: what it dropped is revoked at once."""


def reconciled(member: Member, target: Target) -> Member | ApiError:
    """The member after its next step; the same object if it has none to take.

    Errors: FENCED_MEMBER_EPOCH for a member in a state of a newer version, until it joins again
    without partitions.
    """
    if member.state is MemberState.UNKNOWN:
        if target.owned is None or target.owned:
            return ApiError(
                ErrorCode.fenced_member_epoch,
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin.",
            )
        return _next_assignment(member, target, target.epoch)
    if _waits(member, target):
        return _without_unsubscribed(member, target)
    return _next_assignment(member, target, member.member_epoch)


def _waits(member: Member, target: Target) -> bool:
    """True if the member has its target, or still has to give up partitions."""
    if member.state is MemberState.STABLE:
        return member.member_epoch == target.epoch
    return member.state is MemberState.UNREVOKED_PARTITIONS and _owns_any(
        target.owned, member.pending_revocation
    )


def _owns_any(owned: OwnedPartitions | None, partitions: EpochsByTopic) -> bool:
    """True if the member still reports one of these partitions, or reports nothing."""
    if owned is None:
        return True
    return any(
        partition in partitions[topic_id]
        for topic_id, reported in owned.items()
        if topic_id in partitions
        for partition in reported
    )


def _without_unsubscribed(member: Member, target: Target) -> Member:
    """The member with topics that it no longer subscribes among those that it is to revoke."""
    dropped = [topic for topic in member.assigned if topic not in target.subscribed_topic_ids]
    if not target.has_subscription_changed or not dropped:
        return member
    assigned = dict(member.assigned)
    revoked = dict(member.pending_revocation)
    for topic_id in dropped:
        revoked[topic_id] = {**revoked.get(topic_id, {}), **assigned.pop(topic_id)}
    if _owns_any(target.owned, revoked):
        return _moved(
            member,
            MemberState.UNREVOKED_PARTITIONS,
            member.member_epoch,
            assigned=assigned,
            revoked=revoked,
        )
    # Already revoked: the member stays where it is, with less.
    assert member.state is not MemberState.UNREVOKED_PARTITIONS, "what it waits for is reported"
    return _moved(
        member,
        member.state,
        member.member_epoch,
        assigned=assigned,
        revoked=member.pending_revocation,
    )


def _next_assignment(member: Member, target: Target, member_epoch: int) -> Member:
    """The member after the step that compares all that it has with its target."""
    assigned: dict[TopicId, dict[int, int]] = {}
    revoked: dict[TopicId, dict[int, int]] = {}
    added: dict[TopicId, list[int]] = {}
    waits = False
    for topic_id in sorted({*target.partitions, *member.assigned}):
        wanted: tuple[int, ...] = ()
        if topic_id in target.subscribed_topic_ids:
            wanted = target.partitions.get(topic_id, ())
        current = member.assigned.get(topic_id, {})
        kept = {partition: current[partition] for partition in wanted if partition in current}
        given_up = {part: epoch for part, epoch in current.items() if part not in kept}
        # A partition that this member is itself giving up has no other owner.
        own = member.pending_revocation.get(topic_id, {})
        missing = [partition for partition in wanted if partition not in kept]
        free = [part for part in missing if part in own or not target.is_owned(topic_id, part)]
        waits = waits or len(free) < len(missing)
        for found, part in ((assigned, kept), (revoked, given_up)):
            if part:
                found[topic_id] = part
        if free:
            added[topic_id] = free
    if revoked and _owns_any(target.owned, revoked):
        return _moved(
            member,
            MemberState.UNREVOKED_PARTITIONS,
            member_epoch,
            assigned=assigned,
            revoked=revoked,
        )
    for topic_id, partitions in added.items():
        assigned.setdefault(topic_id, {}).update(dict.fromkeys(partitions, target.epoch))
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return _moved(member, state, target.epoch, assigned=assigned, revoked=NOTHING)


def _moved(
    member: Member,
    state: MemberState,
    member_epoch: int,
    *,
    assigned: EpochsByTopic,
    revoked: EpochsByTopic,
) -> Member:
    return msgspec.structs.replace(
        member,
        state=state,
        member_epoch=member_epoch,
        previous_member_epoch=member.member_epoch,
        assigned=assigned,
        pending_revocation=revoked,
    )
