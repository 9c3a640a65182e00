"""Rules of all groups of a shard, by kind: what decisions about offsets ask."""

from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.offsets import ConsumerRules
from coordinator.group.image import Group
from coordinator.group.offsets.requests import Committer
from coordinator.group.rules import GroupRules, PartitionCheck
from coordinator.records.schema import CoordinatorRecord
from wire.errors import ApiError


class RulesByKind:
    """Consumer groups by their own rules, all others by `others`."""

    def __init__(self, others: GroupRules) -> None:
        self._others = others
        self._consumer = ConsumerRules()

    def commit_check(
        self, group_id: str, group: Group, committer: Committer
    ) -> PartitionCheck | ApiError:
        """The check of each partition of a commit, or the error of all."""
        if isinstance(group, ConsumerGroup):
            return self._consumer.commit_check(group_id, group, committer)
        return self._others.commit_check(group_id, group, committer)

    def fetch_error(
        self, group_id: str, group: Group, member_id: str | None, member_epoch: int
    ) -> ApiError | None:
        """The error of a member that may not fetch."""
        if isinstance(group, ConsumerGroup):
            return self._consumer.fetch_error(group_id, group, member_id, member_epoch)
        return self._others.fetch_error(group_id, group, member_id, member_epoch)

    def offset_delete_error(self, group_id: str, group: Group) -> ApiError | None:
        """The error of a group whose offsets may not be deleted."""
        if isinstance(group, ConsumerGroup):
            return self._consumer.offset_delete_error(group_id, group)
        return self._others.offset_delete_error(group_id, group)

    def is_subscribed(self, group_id: str, group: Group, topic: str) -> bool:
        """True if members use the offsets of a topic."""
        if isinstance(group, ConsumerGroup):
            return self._consumer.is_subscribed(group_id, group, topic)
        return self._others.is_subscribed(group_id, group, topic)

    def unused_since_ms(
        self, group_id: str, group: Group, topic: str, commit_timestamp_ms: int
    ) -> int | None:
        """Wall ms from which the retention of an offset counts; None while it must not expire."""
        if isinstance(group, ConsumerGroup):
            return self._consumer.unused_since_ms(group_id, group, topic, commit_timestamp_ms)
        return self._others.unused_since_ms(group_id, group, topic, commit_timestamp_ms)

    def tombstones(self, group_id: str, group: Group) -> tuple[CoordinatorRecord, ...] | None:
        """Records that delete a group; None if it has members."""
        if isinstance(group, ConsumerGroup):
            return self._consumer.tombstones(group_id, group)
        return self._others.tombstones(group_id, group)
