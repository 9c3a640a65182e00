"""Decisions on OffsetCommit and TxnOffsetCommit.

(apache/kafka: OffsetMetadataManager.commitOffset, commitTransactionalOffset)
"""

from typing import Final

import msgspec

from coordinator.group.image import GroupsImage
from coordinator.group.offsets.requests import Commit, TopicResult
from coordinator.group.rules import GroupRules, PartitionCheck, accept_all
from coordinator.records.group import OffsetCommitKey, OffsetCommitValue
from coordinator.records.schema import CoordinatorRecord
from coordinator.runtime.write import ProducerIdAndEpoch, Write
from wire.errors import ApiError, ErrorCode
from wire.types import ZERO_UUID, TopicId

GROUP_ID_NOT_FOUND_VERSION_MIN: Final = 9
"""First version of OffsetCommit that has it; older ones get ILLEGAL_GENERATION."""
NO_TOPIC_ID: Final = TopicId(ZERO_UUID)
_NO_EXPIRY: Final = -1

Committed = tuple[TopicResult, ...]


def commit_offsets(
    image: GroupsImage, commit: Commit, rules: GroupRules, *, metadata_max: int, wall_ms: int
) -> Write[Committed] | ApiError:
    """Commit offsets of a member, or of a client that is none.

    Args:
        image: the latest.
        commit: at least one partition, or the response is empty.
        rules: of the groups.
        metadata_max: `offset.metadata.max.bytes`, in UTF-16 units as Kafka counts.
        wall_ms: time of the commit.
    """
    check = _check(image, commit, rules)
    if isinstance(check, ApiError):
        return check
    retention_ms = commit.retention_ms
    if retention_ms is None:
        return _write(commit, check, metadata_max=metadata_max, wall_ms=wall_ms)
    # a record with an expiry has no topic id: what is known of it is what a next coordinator reads
    expire_ms = wall_ms + retention_ms
    return _write(
        commit,
        check,
        metadata_max=metadata_max,
        wall_ms=wall_ms,
        expire_ms=expire_ms,
        has_topic_ids=False,
    )


def commit_transactional_offsets(
    image: GroupsImage,
    commit: Commit,
    rules: GroupRules,
    producer: ProducerIdAndEpoch,
    *,
    metadata_max: int,
    wall_ms: int,
) -> Write[Committed] | ApiError:
    """Commit offsets as part of a transaction: they are pending until its marker.

    A topic that does not exist has no id; then a check of the member's partitions is not possible:
    ILLEGAL_GENERATION. That is also what an old epoch is called here.
    """
    check = _check(image, commit, rules)
    if isinstance(check, ApiError):
        return _for_transactions(check)
    if check is not accept_all and any(topic.topic_id == NO_TOPIC_ID for topic in commit.topics):
        return ApiError(ErrorCode.illegal_generation)
    # the records of transactions have no topic id
    written = _write(commit, check, metadata_max=metadata_max, wall_ms=wall_ms, has_topic_ids=False)
    if isinstance(written, ApiError):
        return _for_transactions(written)
    return msgspec.structs.replace(written, producer=producer)


def _check(image: GroupsImage, commit: Commit, rules: GroupRules) -> PartitionCheck | ApiError:
    committer, group = commit.committer, image.groups.get(commit.group_id)
    if group is not None:
        return rules.commit_check(commit.group_id, group, committer)
    if committer.generation_id < 0:
        return accept_all
    if committer.is_transactional or committer.api_version < GROUP_ID_NOT_FOUND_VERSION_MIN:
        return ApiError(ErrorCode.illegal_generation)
    return ApiError(ErrorCode.group_id_not_found, f"Group {commit.group_id} not found.")


def _for_transactions(refused: ApiError) -> ApiError:
    if refused.code is ErrorCode.stale_member_epoch:
        return ApiError(ErrorCode.illegal_generation)
    return refused


def _write(
    commit: Commit,
    check: PartitionCheck,
    *,
    metadata_max: int,
    wall_ms: int,
    expire_ms: int = _NO_EXPIRY,
    has_topic_ids: bool = True,
) -> Write[Committed] | ApiError:
    records: list[CoordinatorRecord] = []
    results, group_id, accepted = [], commit.group_id, ErrorCode.none
    for topic in commit.topics:
        codes, name = [], topic.name
        topic_id = topic.topic_id if has_topic_ids else NO_TOPIC_ID
        for each in topic.partitions:
            metadata, partition = each.metadata or "", each.partition
            if metadata and _utf16_length(metadata) > metadata_max:
                codes.append((partition, ErrorCode.offset_metadata_too_large))
                continue
            if check is not accept_all:
                refused = check(name, topic.topic_id, partition)
                if refused is not None:
                    return refused
            codes.append((partition, accepted))
            value = OffsetCommitValue(
                offset=each.offset,
                leader_epoch=each.leader_epoch,
                metadata=metadata,
                commit_timestamp=wall_ms,
                expire_timestamp=expire_ms,
                topic_id=topic_id,
            )
            key = OffsetCommitKey(group=group_id, topic=name, partition=partition)
            records.append(CoordinatorRecord(key, value))
        results.append(TopicResult(topic.name, topic.topic_id, tuple(codes)))
    return Write(response=tuple(results), records=tuple(records))


def _utf16_length(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)
