"""Members that leave, for good or for a while, and those that are removed.

(apache/kafka: GroupMetadataManager.consumerGroupLeave, consumerGroupFenceMembers)
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from coordinator.group.consumer.draft import GroupDraft
from coordinator.group.consumer.epochs import epoch_record
from coordinator.group.consumer.member import (
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    NOTHING,
    Member,
    assignment_record,
)
from coordinator.group.consumer.membership import member_of
from coordinator.group.consumer.metadata_hash import TopicHashes
from coordinator.group.consumer.requests import Heartbeat, HeartbeatAnswer
from coordinator.group.consumer.tombstones import member_tombstones, regex_tombstone
from metadata.image import Image
from wire.errors import ApiError


class Leave(msgspec.Struct, frozen=True):
    """Outcome of a request to leave: the member, and the answer."""

    member: Member
    is_for_good: bool
    """False for a static member that will come back: it keeps its partitions and its session."""
    answer: HeartbeatAnswer


def leave(draft: GroupDraft, request: Heartbeat) -> Leave | ApiError:
    """Decide who leaves; the record of a static member that will come back is in the draft.

    A member that leaves for good is still to be removed.

    Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    assert request.is_leaving, f"{request.member_epoch=}"
    group = draft.group
    answer = HeartbeatAnswer(member_id=request.member_id, member_epoch=request.member_epoch)
    member = member_of(group, request.member_id, request.instance_id)
    if isinstance(member, ApiError):
        return member
    is_for_good = request.member_epoch != LEAVE_GROUP_STATIC_MEMBER_EPOCH
    if not is_for_good:
        draft.emit(assignment_record(group.group_id, departed(member)))
    return Leave(member, is_for_good=is_for_good, answer=answer)


def departed(member: Member) -> Member:
    """A static member while it is away: its partitions wait for the next with its instance id.

    That one has them as from epoch 0.
    """
    return msgspec.structs.replace(
        member,
        member_epoch=LEAVE_GROUP_STATIC_MEMBER_EPOCH,
        assigned={
            topic_id: dict.fromkeys(partitions, 0)
            for topic_id, partitions in member.assigned.items()
        },
        pending_revocation=NOTHING,
    )


def remove_members(
    draft: GroupDraft, members: Iterable[Member], hashes: TopicHashes, cluster: Image
) -> None:
    """Emit the tombstones of members, of regular expressions of theirs alone, and an epoch."""
    group_id = draft.group.group_id
    removed = sorted(members, key=lambda member: member.member_id)
    assert removed, "an epoch without a change"
    counts = draft.group.regex_counts
    regexes = Counter(member.regex for member in removed if member.regex is not None)
    for member in removed:
        for record in member_tombstones(group_id, member.member_id):
            draft.emit(record)
    for regex in sorted(regexes):
        if counts[regex] == regexes[regex]:
            draft.emit(regex_tombstone(group_id, regex))
    group = draft.group
    metadata_hash = hashes.of_group(group.topic_counts, cluster)
    draft.emit(epoch_record(group_id, group.group_epoch + 1, metadata_hash))
