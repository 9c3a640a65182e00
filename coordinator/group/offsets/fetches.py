"""Answers to OffsetFetch, of one group.

(apache/kafka: OffsetMetadataManager.fetchOffsets, fetchAllOffsets)
"""

from collections.abc import Iterable
from typing import Final

from coordinator.group.image import (
    NO_OFFSETS,
    GroupOffsets,
    GroupsImage,
    OffsetAndMetadata,
    TopicPartition,
)
from coordinator.group.offsets.commits import NO_TOPIC_ID
from coordinator.group.offsets.requests import (
    GroupFetch,
    PartitionOffset,
    TopicFetch,
    TopicOffsets,
)
from coordinator.group.rules import GroupRules
from wire.errors import ApiError, ErrorCode
from wire.types import TopicId

NO_OFFSET: Final = -1
_NONE: Final = -1


def fetch_offsets(
    image: GroupsImage, fetch: GroupFetch, rules: GroupRules
) -> tuple[TopicOffsets, ...] | ApiError:
    """The offsets of a group; a partition without one, and a group that is none, is no error.

    Args:
        image: the committed one; the latest if stable offsets are required, with an answer that
            waits for its commit: UNSTABLE_OFFSET_COMMIT where a transaction has one pending.
        fetch: what is asked for.
        rules: of the groups.
    """
    group = image.groups.get(fetch.group_id)
    offsets: GroupOffsets = NO_OFFSETS
    if group is not None:
        error = rules.fetch_error(fetch.group_id, group, fetch.member_id, fetch.member_epoch)
        if error is None:
            offsets = image.offsets.get(fetch.group_id, NO_OFFSETS)
        elif error.code is not ErrorCode.group_id_not_found:
            return error
    asked = _all(offsets) if fetch.topics is None else fetch.topics
    return tuple(
        TopicOffsets(
            topic.name,
            topic.topic_id,
            tuple(
                _row(image, fetch, (topic.name, number), topic.topic_id, offsets)
                for number in topic.partitions
            ),
        )
        for topic in asked
    )


def _all(offsets: GroupOffsets) -> Iterable[TopicFetch]:
    partitions: dict[str, list[int]] = {}
    for topic, number in sorted(offsets):
        partitions.setdefault(topic, []).append(number)
    return [TopicFetch(name, NO_TOPIC_ID, tuple(numbers)) for name, numbers in partitions.items()]


def _row(
    image: GroupsImage,
    fetch: GroupFetch,
    at: TopicPartition,
    topic_id: TopicId,
    offsets: GroupOffsets,
) -> PartitionOffset:
    if fetch.requires_stable and image.is_open(fetch.group_id, at):
        return PartitionOffset(at[1], ErrorCode.unstable_offset_commit, NO_OFFSET, _NONE, "")
    found = offsets.get(at)
    if found is None or _is_of_other_topic(found, topic_id):
        return PartitionOffset(at[1], ErrorCode.none, NO_OFFSET, _NONE, "")
    epoch = _NONE if found.leader_epoch is None else found.leader_epoch
    return PartitionOffset(at[1], ErrorCode.none, found.offset, epoch, found.metadata)


def _is_of_other_topic(found: OffsetAndMetadata, topic_id: TopicId) -> bool:
    """True if the topic of this name was another when the offset was committed."""
    return NO_TOPIC_ID not in (found.topic_id, topic_id) and found.topic_id != topic_id
