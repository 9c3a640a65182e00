"""Questions of decisions about offsets to a group, whose members are soft state of other rooms.

(apache/kafka: group-coordinator/.../Group.java)
"""

from collections.abc import Callable
from typing import Protocol

from coordinator.group.image import Group, SimpleGroup
from coordinator.group.offsets.requests import Committer
from coordinator.records.group import GroupMetadataKey, GroupMetadataValue
from coordinator.records.schema import CoordinatorRecord
from wire.errors import ApiError, ErrorCode
from wire.types import TopicId

PartitionCheck = Callable[[str, TopicId, int], ApiError | None]
"""Error of a commit by topic name, topic id and partition; None to accept it."""


def accept_all(name: str, topic_id: TopicId, partition: int) -> ApiError | None:
    """Accept every partition."""
    del name, topic_id, partition
    return None


class GroupRules(Protocol):
    """Answers of the groups of a shard; `group` is the entry of the latest image."""

    def commit_check(
        self, group_id: str, group: Group, committer: Committer
    ) -> PartitionCheck | ApiError:
        """The check of each partition of a commit, or why none is accepted.

        A commit of a classic member keeps its session.
        """

    def fetch_error(
        self, group_id: str, group: Group, member_id: str | None, member_epoch: int
    ) -> ApiError | None:
        """The refusal of a fetch; GROUP_ID_NOT_FOUND is as a group that does not exist."""

    def offset_delete_error(self, group_id: str, group: Group) -> ApiError | None:
        """The refusal of any deletion of its offsets."""

    def is_subscribed(self, group_id: str, group: Group, topic: str) -> bool:
        """True if members use the offsets of a topic."""

    def unused_since_ms(
        self, group_id: str, group: Group, topic: str, commit_timestamp_ms: int
    ) -> int | None:
        """Wall ms from which the retention of an offset counts; None while it must not expire."""

    def tombstones(self, group_id: str, group: Group) -> tuple[CoordinatorRecord, ...] | None:
        """Records that delete a group; None if it has members."""


class RecordedRules:
    """Rules of groups by their records alone: what no member holds is free."""

    def commit_check(
        self, group_id: str, group: Group, committer: Committer
    ) -> PartitionCheck | ApiError:
        """Accept commits of those who are no members."""
        del group_id
        is_stranger = committer.generation_id < 0
        if is_stranger and not _has_members(group):
            return accept_all
        return ApiError(ErrorCode.unknown_member_id)

    def fetch_error(
        self, group_id: str, group: Group, member_id: str | None, member_epoch: int
    ) -> ApiError | None:
        """Accept every fetch."""
        del group_id, group, member_id, member_epoch
        return None

    def offset_delete_error(self, group_id: str, group: Group) -> ApiError | None:
        """NON_EMPTY_GROUP of a group with members."""
        del group_id
        return ApiError(ErrorCode.non_empty_group) if _has_members(group) else None

    def is_subscribed(self, group_id: str, group: Group, topic: str) -> bool:
        """Of a group with members every topic."""
        del group_id, topic
        return _has_members(group)

    def unused_since_ms(
        self, group_id: str, group: Group, topic: str, commit_timestamp_ms: int
    ) -> int | None:
        """Since the group is empty, or since the commit to one that never had members."""
        del group_id, topic
        if _has_members(group):
            return None
        if not isinstance(group, GroupMetadataValue) or not group.protocol_type:
            return commit_timestamp_ms
        emptied_ms = group.current_state_timestamp
        return commit_timestamp_ms if emptied_ms < 0 else emptied_ms

    def tombstones(self, group_id: str, group: Group) -> tuple[CoordinatorRecord, ...] | None:
        """Tombstone of a classic group, also of a simple one, as by Kafka."""
        if _has_members(group):
            return None
        return (CoordinatorRecord(GroupMetadataKey(group=group_id), None),)


def _has_members(group: Group) -> bool:
    return not isinstance(group, SimpleGroup) and bool(group.members)
