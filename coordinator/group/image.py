"""Image of a partition of `__consumer_offsets`, and the meaning of its records.

Offsets of a transaction are pending, by its producer, until a marker commits or drops them.

- INV-GI-1: a group that has an offset, pending or not, exists; without a record it is simple.
- INV-GI-2: `open` has the producers of `pending`, by group and partition, and no others.
- INV-GI-3: `offset_count` is the number of `offsets` of all groups.

(apache/kafka: group-coordinator/.../OffsetMetadataManager.java, GroupMetadataManager.java: replay)
"""

from collections.abc import Iterable
from typing import Final, TypeGuard, TypeVar

import msgspec
from msgspec.structs import replace

from coordinator.group.consumer.draft import applied
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.records.consumer import GroupKey
from coordinator.records.group import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.records.schema import CoordinatorRecord, CoordinatorRecordError, Value
from coordinator.runtime.write import Applied
from wire.persistent_map import Map
from wire.types import Offset, TopicId

K = TypeVar("K")
P = TypeVar("P")
V = TypeVar("V")

_NONE: Final = -1

TopicPartition = tuple[str, int]
GroupPartition = tuple[str, str, int]
"""Group id, topic, partition."""


class SimpleGroup(msgspec.Struct, frozen=True, gc=False):
    """A group without a record: a client has committed offsets and never joined."""


Group = SimpleGroup | GroupMetadataValue | ConsumerGroup
"""A group by what its records say; of a classic one the record is all."""


class OffsetAndMetadata(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A committed offset; times are wall ms."""

    offset: int
    leader_epoch: int | None
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None
    """Only where the client gave a retention (OffsetCommit 2 to 4)."""
    topic_id: TopicId
    """Zeros if not known."""
    record_offset: Offset
    """Of its record in the log of the coordinator."""


GroupOffsets = Map[TopicPartition, OffsetAndMetadata]
Commits = dict[str, dict[TopicPartition, OffsetAndMetadata]]
"""Offsets to commit outside of transactions, by group."""
OpenProducers = Map[TopicPartition, frozenset[int]]
NO_OFFSETS: Final[GroupOffsets] = Map()
NO_PRODUCERS: Final[OpenProducers] = Map()
_SIMPLE: Final = SimpleGroup()
_NOBODY: Final[frozenset[int]] = frozenset()


class GroupsImage(msgspec.Struct, frozen=True, kw_only=True):
    """Groups and offsets."""

    groups: Map[str, Group] = Map()
    offsets: Map[str, GroupOffsets] = Map()
    """By group; no group has an empty map."""
    pending: Map[int, Map[GroupPartition, OffsetAndMetadata]] = Map()
    """Offsets of open transactions by producer id; no empty map."""
    open: Map[str, OpenProducers] = Map()
    """Producers with pending offsets, by group and partition; nothing empty."""
    offset_count: int = 0
    """Number of the committed offsets."""

    def offset(self, group_id: str, at: TopicPartition) -> OffsetAndMetadata | None:
        """The committed offset of a partition."""
        return self.offsets.get(group_id, NO_OFFSETS).get(at)

    def is_open(self, group_id: str, at: TopicPartition) -> bool:
        """True if a transaction has a pending offset of the partition."""
        return at in self.open.get(group_id, NO_PRODUCERS)


EMPTY: Final = GroupsImage()


class Draft:
    """An image that records are applied to in order, as `apply` would one after the other.

    Commits that follow each other are one change of each map.
    """

    __slots__ = ("_commits", "_image")

    def __init__(self, image: GroupsImage) -> None:
        self._image = image
        self._commits: Commits = {}

    def add(self, record: CoordinatorRecord, at: Applied) -> None:
        """Apply a record.

        Raises:
            CoordinatorRecordError: as `apply`.
        """
        key, value = record.key, record.value
        if _is_commit(value, at) and isinstance(key, OffsetCommitKey):
            self.entries(key.group)[key.topic, key.partition] = _entry(value, at)
        else:
            self._image = apply(self.image(), record, at)

    def entries(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Offsets of a group that are committed next; whoever applies them puts them here.

        It is another one behind the next record that is no commit, and behind `image`.
        """
        entries = self._commits.get(group_id)
        if entries is None:
            entries = self._commits[group_id] = {}
        return entries

    def image(self) -> GroupsImage:
        """The image after all that was added."""
        if self._commits:
            self._image, self._commits = _offsets_committed(self._image, self._commits), {}
        return self._image


def apply_all(
    image: GroupsImage, records: Iterable[tuple[CoordinatorRecord, Applied]]
) -> GroupsImage:
    """The image after records in order; what `apply` makes of one after the other."""
    draft = Draft(image)
    entries: dict[TopicPartition, OffsetAndMetadata] | None = None
    group_id = ""
    """Group of the offsets in `entries`."""
    for record, at in records:
        key, value = record.key, record.value
        if not _is_commit(value, at):
            draft.add(record, at)
            entries = None
            continue
        assert isinstance(key, OffsetCommitKey), f"{key=}"
        if entries is None or key.group != group_id:
            group_id = key.group
            entries = draft.entries(group_id)
        entries[key.topic, key.partition] = _entry(value, at)
    return draft.image()


def apply(image: GroupsImage, record: CoordinatorRecord, at: Applied) -> GroupsImage:
    """The image after a record."""
    key, value = record.key, record.value
    if isinstance(key, OffsetCommitKey):
        if value is None:
            return _offset_removed(image, key)
        assert isinstance(value, OffsetCommitValue), f"{key=} {value=}"
        entry, partition = _entry(value, at), (key.topic, key.partition)
        if at.producer_id is None:
            return _offsets_committed(image, {key.group: {partition: entry}})
        return _offset_pending(image, key.group, partition, entry, at.producer_id)
    if isinstance(key, GroupMetadataKey):
        if value is None:
            return replace(image, groups=_without(image.groups, key.group))
        assert isinstance(value, GroupMetadataValue), f"{key=} {value=}"
        return replace(image, groups=image.groups.set(key.group, value))
    assert isinstance(key, GroupKey), f"{key=}"
    return _consumer_group_changed(image, key, value)


def apply_marker(image: GroupsImage, producer_id: int, *, is_commit: bool) -> GroupsImage:
    """The image after the end of a producer's transaction.

    Of a transactional and a plain commit the later record counts, not the later marker.
    """
    entries = image.pending.get(producer_id)
    if entries is None:
        return image
    opened, offsets, count = image.open, image.offsets, image.offset_count
    for (group_id, topic, number), entry in sorted(entries.items(), key=lambda item: item[0]):
        at = (topic, number)
        opened = _closed(opened, group_id, at, producer_id)
        if is_commit:
            of_group = offsets.get(group_id, NO_OFFSETS)
            known = of_group.get(at)
            if known is None or entry.record_offset > known.record_offset:
                offsets = offsets.set(group_id, of_group.set(at, entry))
                count += known is None
    return replace(
        image,
        offsets=offsets,
        open=opened,
        pending=image.pending.delete(producer_id),
        offset_count=count,
    )


def _is_commit(value: Value | None, at: Applied) -> TypeGuard[OffsetCommitValue]:
    """True for the value of a commit that is in no transaction."""
    return type(value) is OffsetCommitValue and at.producer_id is None


def _entry(value: OffsetCommitValue, at: Applied) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        offset=value.offset,
        leader_epoch=None if value.leader_epoch == _NONE else value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp_ms=value.commit_timestamp,
        expire_timestamp_ms=None if value.expire_timestamp == _NONE else value.expire_timestamp,
        topic_id=value.topic_id,
        record_offset=at.offset,
    )


def _offsets_committed(image: GroupsImage, commits: Commits) -> GroupsImage:
    groups, offsets, count = image.groups, image.offsets, image.offset_count
    changed: dict[str, GroupOffsets] = {}
    for group_id, entries in commits.items():
        of_group = offsets.get(group_id, NO_OFFSETS)
        changed[group_id] = after = of_group.update(entries)
        count += len(after) - len(of_group)
    new_groups = {group_id: _SIMPLE for group_id in commits if group_id not in groups}
    if new_groups:
        groups = groups.update(new_groups)
    return replace(image, groups=groups, offsets=offsets.update(changed), offset_count=count)


def _offset_pending(
    image: GroupsImage,
    group_id: str,
    partition: TopicPartition,
    entry: OffsetAndMetadata,
    producer_id: int,
) -> GroupsImage:
    groups = image.groups
    if group_id not in groups:
        groups = groups.set(group_id, _SIMPLE)
    of_producer = image.pending.get(producer_id, Map()).set((group_id, *partition), entry)
    opened = image.open.get(group_id, NO_PRODUCERS)
    producers = opened.get(partition, _NOBODY) | {producer_id}
    return replace(
        image,
        groups=groups,
        pending=image.pending.set(producer_id, of_producer),
        open=image.open.set(group_id, opened.set(partition, producers)),
    )


def _consumer_group_changed(image: GroupsImage, key: GroupKey, value: Value | None) -> GroupsImage:
    """The image after a record of a consumer group.

    A value makes a consumer group of a simple one, a tombstone passes it over.

    Raises:
        CoordinatorRecordError: the group is a classic one, or no coordinator writes this record.
    """
    known = image.groups.get(key.group_id)
    if isinstance(known, GroupMetadataValue):
        if value is None:
            return image
        raise CoordinatorRecordError(f"group {key.group_id} is not a consumer group: {key}")
    group = applied(known if isinstance(known, ConsumerGroup) else None, key, value)
    if group is not None:
        return replace(image, groups=image.groups.set(key.group_id, group))
    if known is None or isinstance(known, SimpleGroup):
        return image
    return replace(image, groups=image.groups.delete(key.group_id))


def _offset_removed(image: GroupsImage, key: OffsetCommitKey) -> GroupsImage:
    group_id, partition = key.group, (key.topic, key.partition)
    offsets, pending, opened = image.offsets, image.pending, image.open
    count, of_group = image.offset_count, offsets.get(group_id, NO_OFFSETS)
    if partition in of_group:
        offsets = _set_or_delete(offsets, group_id, of_group.delete(partition))
        count -= 1
    for producer_id in sorted(opened.get(group_id, NO_PRODUCERS).get(partition, _NOBODY)):
        left = pending[producer_id].delete((group_id, *partition))
        pending = _set_or_delete(pending, producer_id, left)
        opened = _closed(opened, group_id, partition, producer_id)
    return replace(image, offsets=offsets, pending=pending, open=opened, offset_count=count)


def _closed(
    opened: Map[str, OpenProducers], group_id: str, at: TopicPartition, producer_id: int
) -> Map[str, OpenProducers]:
    of_group = opened[group_id]
    producers = of_group[at] - {producer_id}
    left = of_group.set(at, producers) if producers else of_group.delete(at)
    return _set_or_delete(opened, group_id, left)


def _set_or_delete(whole: Map[K, Map[P, V]], key: K, part: Map[P, V]) -> Map[K, Map[P, V]]:
    return whole.set(key, part) if part else whole.delete(key)


def _without(groups: Map[str, Group], group_id: str) -> Map[str, Group]:
    return groups.delete(group_id) if group_id in groups else groups
