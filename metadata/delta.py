"""The difference between two images, as sets of ids.

Values are read from the images before and after: values in a delta would be a second source of
truth. A delta may name an id whose value is equal again; it never misses one that differs.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from metadata.image import ConfigResource, Image, QuotaKey, ScramKey, Topic
from wire.persistent_map import Map
from wire.types import NodeId, TopicId, TopicIdPartition


class MetadataDelta(msgspec.Struct, gc=False):
    """Sets of the ids that records touched; mutable, filled by `metadata.apply`.

    A topic created and deleted within one delta is in no set of topics. Partitions of a deleted
    topic are not listed: the image before has them.
    """

    features: set[str] = msgspec.field(default_factory=set)
    brokers: set[NodeId] = msgspec.field(default_factory=set)
    controllers: set[NodeId] = msgspec.field(default_factory=set)
    topics_created: set[TopicId] = msgspec.field(default_factory=set)
    topics_changed: set[TopicId] = msgspec.field(default_factory=set)  # live before and after
    topics_deleted: set[TopicId] = msgspec.field(default_factory=set)
    # (topic id, partition id) of live topics, new partitions included
    partitions_changed: set[TopicIdPartition] = msgspec.field(default_factory=set)
    configs: set[ConfigResource] = msgspec.field(default_factory=set)
    client_quotas: set[QuotaKey] = msgspec.field(default_factory=set)
    producer_ids: bool = False
    acls: set[bytes] = msgspec.field(default_factory=set)
    scram: set[ScramKey] = msgspec.field(default_factory=set)
    delegation_tokens: set[str] = msgspec.field(default_factory=set)
    zk_migration_state: bool = False

    @property
    def is_empty(self) -> bool:
        """True if nothing changed."""
        return not any(astuple(self))

    def on_topic_created(self, topic_id: TopicId) -> None:
        """Add a new topic; ids are never reused."""
        assert topic_id not in self.topics_deleted, f"topic id {topic_id.hex()} came back"
        self.topics_created.add(topic_id)

    def on_partition_changed(self, topic_id: TopicId, partition_id: int) -> None:
        """Add a new or changed partition."""
        self.partitions_changed.add((topic_id, partition_id))
        if topic_id not in self.topics_created:
            self.topics_changed.add(topic_id)

    def on_topic_deleted(self, topic_id: TopicId, name: str, partitions: "Map[int, Any]") -> None:
        """Add a deleted topic and its configs; drop its earlier changes from this delta."""
        for partition_id in partitions:
            self.partitions_changed.discard((topic_id, partition_id))
        if topic_id in self.topics_created:
            self.topics_created.discard(topic_id)
        else:
            self.topics_changed.discard(topic_id)
            self.topics_deleted.add(topic_id)
        self.configs.add((_CONFIG_TOPIC, name))

    def add(self, later: "MetadataDelta") -> None:
        """Merge the delta that follows this one."""
        self.topics_changed |= later.topics_changed - self.topics_created
        self.topics_changed -= later.topics_deleted
        self.partitions_changed |= later.partitions_changed
        if later.topics_deleted:
            self.partitions_changed = {
                key for key in self.partitions_changed if key[0] not in later.topics_deleted
            }
        self.topics_deleted |= later.topics_deleted - self.topics_created
        self.topics_created -= later.topics_deleted
        self.topics_created |= later.topics_created
        for name in _PLAIN_SETS:
            getattr(self, name).update(getattr(later, name))
        self.producer_ids |= later.producer_ids
        self.zk_migration_state |= later.zk_migration_state


def sum_of(deltas: Sequence[MetadataDelta]) -> MetadataDelta:
    """The merged delta of at least one in sequence; a single one is returned as it is."""
    assert deltas, "there is no change without a delta"
    if len(deltas) == 1:
        return deltas[0]
    total = MetadataDelta()
    for delta in deltas:
        total.add(delta)
    return total


def delta_between(before: Image, after: Image) -> MetadataDelta:
    """The delta of exactly the ids that differ; costs a pass over both images."""
    delta = MetadataDelta()
    for _ in comparison(before, after, delta):
        pass
    return delta


def comparison(before: Image, after: Image, delta: MetadataDelta) -> Iterator[None]:
    """Fill an empty delta with exactly the ids that differ, one topic after the other.

    Yields after each topic, so that the caller can do other work in between.
    """
    assert delta.is_empty, "a delta that says something already"
    delta.producer_ids = before.producer_ids != after.producer_ids
    delta.zk_migration_state = before.zk_migration_state != after.zk_migration_state
    for name in _PLAIN_SETS:
        old_map, new_map = getattr(before, name), getattr(after, name)
        if old_map is not new_map:
            getattr(delta, name).update(_differing(old_map, new_map))
    for topic_id in before.topics:
        if topic_id not in after.topics:
            delta.topics_deleted.add(topic_id)
        yield
    for topic_id, topic in after.topics.items():
        old = before.topics.get(topic_id)
        if old is not topic:
            _compare_topic(topic_id, old, topic, delta)
        yield


def _compare_topic(topic_id: TopicId, old: Topic | None, new: Topic, delta: MetadataDelta) -> None:
    if old is None:
        delta.topics_created.add(topic_id)
        delta.partitions_changed.update((topic_id, number) for number in new.partitions)
        return
    changed = _differing(old.partitions, new.partitions)
    delta.partitions_changed.update((topic_id, number) for number in changed)
    if changed or old.name != new.name:
        delta.topics_changed.add(topic_id)


def _differing(before: "Map[Any, Any]", after: "Map[Any, Any]") -> set[Any]:
    if before is after:
        return set()
    changed = {key for key, value in after.items() if before.get(key) != value}
    changed.update(key for key in before if key not in after)
    return changed


_CONFIG_TOPIC: Final = 2
_PLAIN_SETS: Final = (
    "features",
    "brokers",
    "controllers",
    "configs",
    "client_quotas",
    "acls",
    "scram",
    "delegation_tokens",
)
