"""Checks by which a group of KIP-848 accepts commits and fetches of offsets.

(apache/kafka: ConsumerGroup.validateOffsetCommit, validateOffsetFetch; KIP-1251
for commits of an older epoch)
"""

from typing import Final

from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import Member
from coordinator.group.consumer.membership import unknown_member_error
from coordinator.group.consumer.tombstones import group_tombstones
from coordinator.group.offsets.requests import Committer
from coordinator.group.rules import PartitionCheck, accept_all
from coordinator.records.schema import CoordinatorRecord
from wire.errors import ApiError, ErrorCode
from wire.types import TopicId

CONSUMER_COMMIT_VERSION_MIN: Final = 9
"""First version of OffsetCommit for members of the consumer protocol."""

UNKNOWN_GENERATION: Final = -1


def commit_check(group: ConsumerGroup, committer: Committer) -> PartitionCheck | ApiError:
    """The check of each partition of a commit, or the error of all of them.

    The epoch must be that of the member, or not older than that in which the member got the
    partition, if it still has it: an answer with a new epoch may be on its way.

    Errors: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH; ILLEGAL_GENERATION for a
    member of the classic protocol.
    """
    member_epoch = committer.generation_id
    if member_epoch < 0 and not group.members:
        return accept_all
    if committer.is_transactional and _is_nobody(committer):
        return accept_all
    member = group.members.get(committer.member_id)
    if member is None:
        return unknown_member_error(group.group_id, committer.member_id)
    is_old = committer.api_version < CONSUMER_COMMIT_VERSION_MIN
    if is_old and not committer.is_transactional and not member.uses_classic_protocol:
        return ApiError(
            ErrorCode.unsupported_version,
            "OffsetCommit version 9 or above must be used by members using the consumer group "
            "protocol",
        )
    return _epoch_check(member, member_epoch)


def _is_nobody(committer: Committer) -> bool:
    return (
        not committer.member_id
        and committer.group_instance_id is None
        and committer.generation_id == UNKNOWN_GENERATION
    )


def fetch_error(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> ApiError | None:
    """UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH of a fetch; None for one that is accepted."""
    if member_id is None and member_epoch < 0:
        return None
    member = group.members.get(member_id or "")
    if member is None:
        return unknown_member_error(group.group_id, str(member_id or ""))
    if member_epoch == member.member_epoch:
        return None
    return _stale(
        member,
        f"The received {_epoch_name(member)} {member_epoch} does not match the expected member "
        f"epoch {member.member_epoch}.",
    )


class ConsumerRules:
    """Rules of consumer groups for offsets: their records say all.

    (apache/kafka: ConsumerGroup.isSubscribedToTopic, offsetExpirationCondition,
    validateOffsetDelete)
    """

    def commit_check(
        self, group_id: str, group: ConsumerGroup, committer: Committer
    ) -> PartitionCheck | ApiError:
        """The check of each partition of a commit, or the error of all."""
        del group_id
        return commit_check(group, committer)

    def fetch_error(
        self, group_id: str, group: ConsumerGroup, member_id: str | None, member_epoch: int
    ) -> ApiError | None:
        """The error of a member that may not fetch."""
        del group_id
        return fetch_error(group, member_id, member_epoch)

    def offset_delete_error(self, group_id: str, group: ConsumerGroup) -> ApiError | None:
        """None: offsets of topics that are not subscribed may go at any time."""
        del group_id, group
        return None

    def is_subscribed(self, group_id: str, group: ConsumerGroup, topic: str) -> bool:
        """True if a member names the topic, or a regular expression of one matches it."""
        del group_id
        return topic in group.topic_counts

    def unused_since_ms(
        self, group_id: str, group: ConsumerGroup, topic: str, commit_timestamp_ms: int
    ) -> int | None:
        """Since the commit, if no member subscribes the topic."""
        is_used = self.is_subscribed(group_id, group, topic)
        return None if is_used else commit_timestamp_ms

    def tombstones(
        self, group_id: str, group: ConsumerGroup
    ) -> tuple[CoordinatorRecord, ...] | None:
        """Records that delete a group; None if it has members."""
        del group_id
        return None if group.members else group_tombstones(group)


def _epoch_check(member: Member, member_epoch: int) -> PartitionCheck | ApiError:
    if member_epoch == member.member_epoch:
        return accept_all
    if member_epoch < member.member_epoch:
        return _check_of_older_epoch(member, member_epoch)
    return _stale(
        member,
        f"Received {_epoch_name(member)} {member_epoch} is newer than current member epoch "
        f"{member.member_epoch}.",
    )


def _check_of_older_epoch(member: Member, member_epoch: int) -> PartitionCheck:
    def check(name: str, topic_id: TopicId, partition: int) -> ApiError | None:
        assignment_epoch = member.assignment_epoch(topic_id, partition)
        if assignment_epoch is None:
            return _stale(
                member,
                f"Partition {name}-{partition} is not assigned or pending revocation for member.",
            )
        if member_epoch < assignment_epoch:
            return _stale(
                member,
                f"Received {_epoch_name(member)} {member_epoch} is older than assignment epoch "
                f"{assignment_epoch} for partition {name}-{partition}.",
            )
        return None

    return check


def _stale(member: Member, message: str) -> ApiError:
    if member.uses_classic_protocol:
        return ApiError(ErrorCode.illegal_generation, message)
    return ApiError(ErrorCode.stale_member_epoch, message)


def _epoch_name(member: Member) -> str:
    return "generation id" if member.uses_classic_protocol else "member epoch"
