"""Expiry of offsets, and of groups that have none left.

(apache/kafka: OffsetMetadataManager.cleanupExpiredOffsets, OffsetExpirationConditionImpl,
GroupCoordinatorShard.cleanupGroupMetadata; KIP-211, KIP-496)
"""

from coordinator.group.image import NO_OFFSETS, GroupsImage, OffsetAndMetadata, TopicPartition
from coordinator.group.offsets.deletions import tombstone
from coordinator.group.rules import GroupRules
from coordinator.records.schema import CoordinatorRecord


def expire_group(
    image: GroupsImage, group_id: str, rules: GroupRules, *, retention_ms: int, wall_ms: int
) -> tuple[CoordinatorRecord, ...]:
    """Tombstones of a group's expired offsets; of the group too if none is left and it is empty.

    Offsets of subscribed topics, and those with a pending offset of a transaction, stay.

    Args:
        image: the latest.
        group_id: of a group that may be gone.
        rules: of the groups.
        retention_ms: `offsets.retention.minutes`.
        wall_ms: now.
    """
    group = image.groups.get(group_id)
    if group is None:
        return ()
    offsets = image.offsets.get(group_id, NO_OFFSETS)

    def is_expired(at: TopicPartition, entry: OffsetAndMetadata) -> bool:
        if rules.is_subscribed(group_id, group, at[0]) or image.is_open(group_id, at):
            return False
        since_ms = rules.unused_since_ms(group_id, group, at[0], entry.commit_timestamp_ms)
        if since_ms is None:
            return False
        if entry.expire_timestamp_ms is not None:
            return wall_ms >= entry.expire_timestamp_ms
        return wall_ms - since_ms >= retention_ms

    expired = tuple(
        tombstone(group_id, at) for at in sorted(offsets) if is_expired(at, offsets[at])
    )
    if len(expired) < len(offsets) or group_id in image.open:
        return expired
    return expired + (rules.tombstones(group_id, group) or ())
