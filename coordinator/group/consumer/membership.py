"""The member that a heartbeat is about: known, new, or in place of a static one that left.

(apache/kafka: GroupMetadataManager.getOrMaybeSubscribe{Dynamic,Static}ConsumerGroupMember)
"""

import msgspec

from coordinator.group.consumer.draft import GroupDraft
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import (
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    EpochsByTopic,
    Member,
    assignment_record,
    subscription_record,
)
from coordinator.group.consumer.reconciliation import OwnedPartitions
from coordinator.group.consumer.requests import Heartbeat
from coordinator.group.consumer.targets import target_record
from coordinator.group.consumer.tombstones import member_tombstones
from wire.errors import ApiError, ErrorCode


def group_is_full_error(group: ConsumerGroup, member_id: str, max_size: int) -> ApiError | None:
    """GROUP_MAX_SIZE_REACHED for one who is no member of a group with that many; else None."""
    if len(group.members) < max_size or (member_id and member_id in group.members):
        return None
    return ApiError(
        ErrorCode.group_max_size_reached,
        f"The consumer group has reached its maximum capacity of {max_size} members.",
    )


def member_of_heartbeat(draft: GroupDraft, request: Heartbeat) -> Member | ApiError:
    """The member as it is before the request; a new one is not yet part of the group.

    A static member that comes back takes the place of the one that left: its records are emitted.

    Errors: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID.
    """
    if request.instance_id is None:
        return _dynamic_member(draft.group, request)
    if not request.is_joining:
        known = member_of(draft.group, request.member_id, request.instance_id)
        return known if isinstance(known, ApiError) else _checked_epoch(known, request)
    existing = draft.group.static_member(request.instance_id)
    if existing is None:
        return draft.group.members.get(request.member_id) or Member(member_id=request.member_id)
    if not existing.uses_classic_protocol and (
        existing.member_epoch != LEAVE_GROUP_STATIC_MEMBER_EPOCH
    ):
        return ApiError(
            ErrorCode.unreleased_instance_id,
            f"Static member {request.member_id} with instance id {request.instance_id} cannot "
            f"join the group because the instance id is owned by {existing.member_id} member.",
        )
    return replace_member(draft, existing, request.member_id)


def member_of(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member | ApiError:
    """The member with an id, or with an instance id, which must be of the member with that id.

    Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    if instance_id is None:
        member = group.members.get(member_id)
        return member or unknown_member_error(group.group_id, member_id)
    member = group.static_member(instance_id)
    if member is None:
        return ApiError(ErrorCode.unknown_member_id, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        return ApiError(
            ErrorCode.fenced_instance_id,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{member.member_id}.",
        )
    return member


def unknown_member_error(group_id: str, member_id: str) -> ApiError:
    """UNKNOWN_MEMBER_ID of a member id without a member."""
    return ApiError(
        ErrorCode.unknown_member_id, f"Member {member_id} is not a member of group {group_id}."
    )


def replace_member(draft: GroupDraft, old: Member, member_id: str) -> Member:
    """Emit the records by which a static member goes on under another member id."""
    group_id = draft.group.group_id
    target = draft.group.targets.get(old.member_id, {})
    new = msgspec.structs.replace(old, member_id=member_id, member_epoch=0, previous_member_epoch=0)
    for record in member_tombstones(group_id, old.member_id):
        draft.emit(record)
    draft.emit(subscription_record(group_id, new))
    draft.emit(target_record(group_id, member_id, target))
    draft.emit(assignment_record(group_id, new))
    return new


def _dynamic_member(group: ConsumerGroup, request: Heartbeat) -> Member | ApiError:
    member = group.members.get(request.member_id)
    if member is not None:
        return _checked_epoch(member, request)
    if request.is_joining:
        return Member(member_id=request.member_id)
    return unknown_member_error(group.group_id, request.member_id)


def _checked_epoch(member: Member, request: Heartbeat) -> Member | ApiError:
    """The member if its epoch is the received one, or was before and the answer was lost."""
    received, known = request.member_epoch, member.member_epoch
    if request.is_joining or received == known:
        return member
    if received < known and (
        received == member.previous_member_epoch and _is_part(request.owned, member.assigned)
    ):
        return member
    comparison = "greater" if received > known else "smaller"
    return ApiError(
        ErrorCode.fenced_member_epoch,
        f"The consumer group member has a {comparison} member epoch ({received}) than the one "
        f"known by the group coordinator ({known}). The member must abandon all its partitions "
        "and rejoin.",
    )


def _is_part(owned: OwnedPartitions | None, assigned: EpochsByTopic) -> bool:
    """True if the member reports its partitions, and has been assigned each of them."""
    if owned is None:
        return False
    return all(
        topic_id in assigned and all(partition in assigned[topic_id] for partition in partitions)
        for topic_id, partitions in owned.items()
    )
