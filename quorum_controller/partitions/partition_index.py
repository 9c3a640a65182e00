"""Index of partitions for work on a broker, elections and reassignments.

It is derived from the image: built by a scan at activation, updated with the delta of every
proposed batch, dropped at resignation. It is not in the image because only the active controller
uses it, and three entries per partition would be most of the memory of a partition.

- INV-PI-1: `topics_of(broker)` contains every topic in which the broker has a replica; a topic in
  which it no longer has one may remain. Callers examine the partitions anyway.
- INV-PI-2: leaderless, imbalanced and reassigning partitions are exactly those of the image.
Source: apache/kafka: metadata/.../controller/BrokersToIsrs.java; ReplicationControlManager
(imbalancedPartitions, reassigningTopics).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator

import msgspec

from metadata.delta import MetadataDelta
from metadata.image import Image, Partition
from quorum_controller.partitions.electorate import (
    ElectionPolicy,
    PartitionDefaults,
)
from wire.types import NodeId, TopicId, TopicIdPartition


class PartitionIndex:
    """Sets of ids derived from the latest image."""

    __slots__ = ("_topics_by_broker", "imbalanced", "leaderless", "reassigning")

    def __init__(self, image: Image) -> None:
        self._topics_by_broker: defaultdict[NodeId, set[TopicId]] = defaultdict(set)
        self.leaderless: set[TopicIdPartition] = set()
        self.imbalanced: set[TopicIdPartition] = set()
        """Partitions whose first replica is not the leader, leaderless ones included."""
        self.reassigning: set[TopicIdPartition] = set()
        topics_by_broker = self._topics_by_broker
        for topic_id, topic in image.topics.items():
            for partition_id, partition in topic.partitions.items():
                for replica in partition.replicas:
                    topics_by_broker[replica].add(topic_id)
                if not partition.has_preferred_leader or partition.is_reassigning:
                    self._add(topic_id, partition_id, partition)

    def advance(self, before: Image, after: Image, delta: MetadataDelta) -> None:
        """Apply one batch: `after` is `before` with its records, `delta` the ids that changed."""
        for topic_id in delta.topics_deleted:
            for partition_id, partition in before.topics[topic_id].partitions.items():
                for replica in partition.replicas:
                    self._topics_by_broker[replica].discard(topic_id)
                self._remove((topic_id, partition_id))
        topics, topics_by_broker = after.topics, self._topics_by_broker
        leaderless, imbalanced, reassigning = self.leaderless, self.imbalanced, self.reassigning
        for changed in delta.partitions_changed:
            topic_id, partition_id = changed
            partition = topics[topic_id].partitions[partition_id]
            for replica in partition.replicas:
                topics_by_broker[replica].add(topic_id)
            _put(leaderless, changed, is_member=not partition.has_leader)
            _put(imbalanced, changed, is_member=not partition.has_preferred_leader)
            _put(reassigning, changed, is_member=partition.is_reassigning)

    def topics_of(self, broker_id: NodeId) -> frozenset[TopicId] | set[TopicId]:
        """Return topics in which the broker may have a replica; the set must not be modified."""
        return self._topics_by_broker.get(broker_id, frozenset())

    def partitions_of(
        self, image: Image, broker_id: NodeId, predicate: Callable[[Partition], bool]
    ) -> list[TopicIdPartition]:
        """Return the partitions that satisfy a predicate in topics of the broker, sorted."""
        return sorted(self._where(image, broker_id, predicate))

    def leads_any(self, image: Image, broker_id: NodeId) -> bool:
        """True if the broker leads a partition."""
        found = self._where(image, broker_id, lambda partition: partition.leader == broker_id)
        return next(found, None) is not None

    def _where(
        self, image: Image, broker_id: NodeId, predicate: Callable[[Partition], bool]
    ) -> Iterator[TopicIdPartition]:
        topics = image.topics
        for topic_id in self.topics_of(broker_id):
            topic = topics.get(topic_id)
            if topic is not None:
                for partition_id, partition in topic.partitions.items():
                    if predicate(partition):
                        yield topic_id, partition_id

    def _add(self, topic_id: TopicId, partition_id: int, partition: Partition) -> None:
        for replica in partition.replicas:
            self._topics_by_broker[replica].add(topic_id)
        if not partition.has_preferred_leader:
            self.imbalanced.add((topic_id, partition_id))
            if not partition.has_leader:
                self.leaderless.add((topic_id, partition_id))
        if partition.adding_replicas or partition.removing_replicas:
            self.reassigning.add((topic_id, partition_id))

    def _remove(self, topic_partition: TopicIdPartition) -> None:
        self.imbalanced.discard(topic_partition)
        self.leaderless.discard(topic_partition)
        self.reassigning.discard(topic_partition)


def _put(members: set[TopicIdPartition], one: TopicIdPartition, *, is_member: bool) -> None:
    if is_member:
        members.add(one)
    elif members:
        members.discard(one)


class Electorate(msgspec.Struct, frozen=True, gc=False):
    """The context of elections besides the image: index of partitions, defaults of topics."""

    index: PartitionIndex
    """Index of the image at the start of the turn."""
    defaults: PartitionDefaults

    def policy(
        self, *, never: NodeId | None = None, always: NodeId | None = None
    ) -> ElectionPolicy:
        """Return the policy while a broker is fenced (`never`) or unfenced (`always`)."""
        return ElectionPolicy(never, always, self.defaults)
