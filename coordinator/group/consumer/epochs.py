"""Group epochs: raised when the members, what they subscribe, or these topics change.

(apache/kafka: GroupMetadataManager.updateSubscriptionMetadata, handleRegularExpressionsResult)
"""

from collections.abc import Mapping

from coordinator.group.consumer.draft import GroupDraft
from coordinator.group.consumer.group import ResolvedRegex
from coordinator.group.consumer.metadata_hash import TopicHashes
from coordinator.group.consumer.tombstones import partition_metadata_tombstone
from coordinator.records.consumer import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from coordinator.records.schema import CoordinatorRecord
from metadata.image import Image


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """The record of a group's epoch."""
    return CoordinatorRecord(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def refresh_epoch(
    draft: GroupDraft, hashes: TopicHashes, cluster: Image, *, is_raised: bool
) -> None:
    """Raise the epoch if that is decided, or if the topics of the group have changed."""
    raise_epoch(draft, hashes, cluster, is_raised=is_raised)
    if draft.group.has_partition_metadata:
        draft.emit(partition_metadata_tombstone(draft.group.group_id))


def raise_epoch(draft: GroupDraft, hashes: TopicHashes, cluster: Image, *, is_raised: bool) -> None:
    """Emit the next epoch if that is decided, or if the hash of the topics is another."""
    group = draft.group
    metadata_hash = hashes.of_group(group.topic_counts, cluster)
    if is_raised or metadata_hash != group.metadata_hash:
        draft.emit(epoch_record(group.group_id, group.group_epoch + 1, metadata_hash))
        draft.epochs_raised += 1


def resolve_regexes(
    draft: GroupDraft,
    resolved: Mapping[str, ResolvedRegex],
    hashes: TopicHashes,
    cluster: Image,
) -> None:
    """Emit the topics of regular expressions, and the next epoch if they are others than before.

    An expression that nobody subscribes any more is passed over.
    """
    group_id = draft.group.group_id
    is_raised = False
    for regex in sorted(resolved):
        if regex not in draft.group.regex_counts:
            continue
        new, old = resolved[regex], draft.group.resolved.get(regex)
        is_raised = is_raised or new.topic_names != (() if old is None else old.topic_names)
        draft.emit(regex_record(group_id, regex, new))
    raise_epoch(draft, hashes, cluster, is_raised=is_raised)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    """The record of the topics of a regular expression."""
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(
            topics=resolved.topic_names,
            version=resolved.version,
            timestamp=resolved.timestamp_ms,
        ),
    )
