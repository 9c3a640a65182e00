"""Rules of classic groups for decisions about offsets, and about groups that have none left."""

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.groups import ClassicGroups
from coordinator.group.classic.offset_rules import (
    delete_error,
    offset_commit_error,
    offset_delete_error,
    unused_since_ms,
)
from coordinator.group.classic.record import tombstone
from coordinator.group.image import Group
from coordinator.group.offsets.requests import Committer
from coordinator.group.rules import PartitionCheck, accept_all
from coordinator.records.schema import CoordinatorRecord
from network.clock import Clock, Now
from wire.errors import ApiError


class ClassicRules:
    """`GroupRules` of classic groups; `group` is the entry of the latest image.

    Args:
        groups: of the shard.
        clock: of the broker.
    """

    def __init__(self, groups: ClassicGroups, clock: Clock) -> None:
        self._groups = groups
        self._clock = clock

    def commit_check(
        self, group_id: str, group: Group, committer: Committer
    ) -> PartitionCheck | ApiError:
        """The refusal of a commit; one that is accepted keeps the session of its member."""
        found = self._found(group_id, group)
        code = offset_commit_error(
            found,
            member_id=committer.member_id,
            group_instance_id=committer.group_instance_id,
            generation_id=committer.generation_id,
            is_transactional=committer.is_transactional,
        )
        if code is not None:
            return ApiError(code)
        if not committer.is_transactional:
            now = Now(self._clock.now_ms, self._clock.wall_ms)
            self._groups.keep_session(found, committer.member_id, now)
        return accept_all

    def fetch_error(
        self, group_id: str, group: Group, member_id: str | None, member_epoch: int
    ) -> ApiError | None:
        """None: anyone may fetch."""
        del group_id, group, member_id, member_epoch
        return None

    def offset_delete_error(self, group_id: str, group: Group) -> ApiError | None:
        """NON_EMPTY_GROUP of members that are no consumers."""
        code = offset_delete_error(self._found(group_id, group))
        return None if code is None else ApiError(code)

    def is_subscribed(self, group_id: str, group: Group, topic: str) -> bool:
        """True if members subscribe to a topic, or if that is not known of consumers."""
        return self._found(group_id, group).is_subscribed_to(topic)

    def unused_since_ms(
        self, group_id: str, group: Group, topic: str, commit_timestamp_ms: int
    ) -> int | None:
        """Wall ms from which the retention of an offset counts; None while it must not expire."""
        return unused_since_ms(self._found(group_id, group), topic, commit_timestamp_ms)

    def tombstones(self, group_id: str, group: Group) -> tuple[CoordinatorRecord, ...] | None:
        """The record that deletes a group, which is forgotten; None if it has members."""
        if delete_error(self._found(group_id, group)) is not None:
            return None
        self._groups.forget(group_id)
        return (tombstone(group_id),)

    def _found(self, group_id: str, group: Group) -> ClassicGroup:
        found = self._groups.find(group_id, group)
        assert found is not None, f"{group_id=} is no classic group"
        return found
