"""Offsets of a classic group: who may commit and delete them, from when their retention counts.

apache/kafka: ClassicGroup.java (validateOffset*, validateDeleteGroup, offsetExpirationCondition,
isSubscribedToTopic)
"""

from typing import Final

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.states import COMPLETING_REBALANCE, DEAD, EMPTY, STABLE
from wire.errors import ErrorCode

NO_GENERATION: Final = -1


def offset_commit_error(
    group: ClassicGroup,
    *,
    member_id: str,
    group_instance_id: str | None,
    generation_id: int,
    is_transactional: bool = False,
) -> ErrorCode | None:
    """Error of a commit of offsets; None if it is accepted.

    Args:
        group: that the offsets belong to.
        member_id: empty if the client is no member.
        group_instance_id: of a static member.
        generation_id: below 0 if the client is no member: it may commit to a group without members.
        is_transactional: TxnOffsetCommit, whose older versions name no member.

    Returns:
        COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, or
        REBALANCE_IN_PROGRESS: the member knows of a generation that it has no assignment of.
    """
    if group.state is DEAD:
        return ErrorCode.coordinator_not_available
    if generation_id < 0 and group.state is EMPTY:
        return None
    code = None
    if generation_id >= 0 or member_id or group_instance_id is not None:
        code = group.member_error(member_id, group_instance_id)
        if code is None and generation_id != group.generation_id:
            code = ErrorCode.illegal_generation
    elif not is_transactional:
        code = ErrorCode.unknown_member_id
    if code is None and not is_transactional and group.state is COMPLETING_REBALANCE:
        code = ErrorCode.rebalance_in_progress
    return code


def delete_error(group: ClassicGroup) -> ErrorCode | None:
    """GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP of a group that may not be deleted, else None."""
    if group.state is DEAD:
        return ErrorCode.group_id_not_found
    return None if group.state is EMPTY else ErrorCode.non_empty_group


def offset_delete_error(group: ClassicGroup) -> ErrorCode | None:
    """Error by which no offset may be deleted, else None: consumers use those of some topics."""
    code = delete_error(group)
    is_by_topic = code is ErrorCode.non_empty_group and group.uses_consumer_protocol
    return None if is_by_topic else code


def unused_since_ms(group: ClassicGroup, topic: str, commit_timestamp_ms: int) -> int | None:
    """Time from which the retention of an offset counts; None while it must not expire.

    Args:
        group: that the offset belongs to.
        topic: of the offset.
        commit_timestamp_ms: when it was committed, wall clock.
    """
    if group.protocol_type is None:
        return commit_timestamp_ms
    if group.state is EMPTY:
        emptied_ms = group.state_timestamp_ms
        return commit_timestamp_ms if emptied_ms is None else emptied_ms
    knows_topics = group.subscribed_topics is not None  # never of other protocols
    if knows_topics and group.state is STABLE and not group.is_subscribed_to(topic):
        return commit_timestamp_ms
    return None
