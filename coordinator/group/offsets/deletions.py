"""Deletion of offsets: by OffsetDelete, with their group, with their topic.

(apache/kafka: OffsetMetadataManager.deleteOffsets, deleteAllOffsets, onTopicsDeleted)
"""

from collections.abc import Mapping, Sequence

from coordinator.group.image import NO_OFFSETS, NO_PRODUCERS, GroupsImage, TopicPartition
from coordinator.group.offsets.commits import NO_TOPIC_ID
from coordinator.group.offsets.requests import TopicResult
from coordinator.group.rules import GroupRules
from coordinator.records.group import OffsetCommitKey
from coordinator.records.schema import CoordinatorRecord
from coordinator.runtime.write import Write
from wire.errors import ApiError, ErrorCode
from wire.types import TopicId


def delete_offsets(
    image: GroupsImage,
    group_id: str,
    topics: Sequence[tuple[str, Sequence[int]]],
    rules: GroupRules,
) -> Write[tuple[TopicResult, ...]] | ApiError:
    """Delete offsets of topics that members do not subscribe.

    A partition that has none is no error; GROUP_SUBSCRIBED_TO_TOPIC is one of each partition.
    """
    group = image.groups.get(group_id)
    if group is None:
        return ApiError(ErrorCode.group_id_not_found, f"Group {group_id} not found.")
    refused = rules.offset_delete_error(group_id, group)
    if refused is not None:
        return refused
    records, results = [], []
    for name, numbers in topics:
        code = ErrorCode.none
        if rules.is_subscribed(group_id, group, name):
            code = ErrorCode.group_subscribed_to_topic
        else:
            records += [
                tombstone(group_id, (name, number))
                for number in numbers
                if image.offset(group_id, (name, number)) is not None
                or image.is_open(group_id, (name, number))
            ]
        results.append(TopicResult(name, NO_TOPIC_ID, tuple((each, code) for each in numbers)))
    return Write(response=tuple(results), records=tuple(records))


def delete_all_offsets(image: GroupsImage, group_id: str) -> tuple[CoordinatorRecord, ...]:
    """Tombstones of all offsets of a group, pending ones too."""
    partitions = {
        *image.offsets.get(group_id, NO_OFFSETS),
        *image.open.get(group_id, NO_PRODUCERS),
    }
    return tuple(tombstone(group_id, at) for at in sorted(partitions))


def delete_offsets_of_topics(
    image: GroupsImage, group_id: str, deleted: Mapping[str, TopicId]
) -> tuple[CoordinatorRecord, ...]:
    """Tombstones of a group's offsets of deleted topics, pending ones too.

    Offsets of a later topic of the name stay; those without an id are taken for the deleted one's.

    Args:
        image: the latest.
        group_id: of a group.
        deleted: ids by name.
    """

    def is_of_deleted(at: TopicPartition, topic_id: TopicId) -> bool:
        return topic_id in (NO_TOPIC_ID, deleted[at[0]])

    found = {
        at
        for at, entry in image.offsets.get(group_id, NO_OFFSETS).items()
        if at[0] in deleted and is_of_deleted(at, entry.topic_id)
    }
    for at, producers in image.open.get(group_id, NO_PRODUCERS).items():
        if at[0] in deleted and any(
            is_of_deleted(at, image.pending[producer_id][group_id, *at].topic_id)
            for producer_id in producers
        ):
            found.add(at)
    return tuple(tombstone(group_id, at) for at in sorted(found))


def tombstone(group_id: str, at: TopicPartition) -> CoordinatorRecord:
    """The record that deletes an offset."""
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=at[0], partition=at[1]), None)
