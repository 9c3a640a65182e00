"""Partitions that this broker gains and loses between two images.

The result is a value: the driver creates and removes the directories, off the commit path. A topic
that was deleted and created again under the same name has another topic id, so it is on both sides.
"""

from collections.abc import Iterator

import msgspec

from metadata.delta import MetadataDelta
from metadata.image import Image, Partition, Topic
from wire.types import DirectoryId, NodeId, TopicId


class LocalPartition(msgspec.Struct, frozen=True, order=True, gc=False):
    """A partition that this broker hosts, with its directory id in the metadata."""

    topic_name: str
    partition: int
    topic_id: TopicId
    directory_id: DirectoryId


class LocalChanges(msgspec.Struct, frozen=True, gc=False):
    """Changes sorted by topic name, then partition. Perform `deleted` first: names are reused."""

    created: tuple[LocalPartition, ...] = ()
    deleted: tuple[LocalPartition, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to do."""
        return not self.created and not self.deleted


NO_CHANGES = LocalChanges()


def local_changes(
    before: Image, after: Image, delta: MetadataDelta, broker_id: NodeId
) -> LocalChanges:
    """Return the changes of `delta` to the partition directories of a broker.

    Created: the broker is a replica in `after` but not in `before`. Deleted: the reverse, also by
    the deletion of the topic or the move of the replica.
    """
    created: list[LocalPartition] = []
    deleted: list[LocalPartition] = []
    for topic_id, number in delta.partitions_changed:
        known, topic = before.topics.get(topic_id), after.topics[topic_id]
        old = None if known is None else known.partitions.get(number)
        new = topic.partitions[number]
        is_hosted = broker_id in new.replicas
        if old is None or broker_id not in old.replicas:
            if is_hosted:
                created.append(_local(topic, number, new, broker_id))
        elif not is_hosted:
            assert known is not None, "it had this partition"
            deleted.append(_local(known, number, old, broker_id))
    for topic_id in delta.topics_deleted:
        deleted.extend(_hosted(before.topics[topic_id], broker_id))
    if not created and not deleted:
        return NO_CHANGES
    return LocalChanges(created=tuple(sorted(created)), deleted=tuple(sorted(deleted)))


def local_partitions(image: Image, broker_id: NodeId) -> tuple[LocalPartition, ...]:
    """Return all partitions of a broker, sorted, to compare its directories with at start."""
    topics = image.topics.values()
    return tuple(sorted(local for topic in topics for local in _hosted(topic, broker_id)))


def _hosted(topic: Topic, broker_id: NodeId) -> Iterator[LocalPartition]:
    for number, partition in topic.partitions.items():
        if broker_id in partition.replicas:
            yield _local(topic, number, partition, broker_id)


def _local(topic: Topic, number: int, partition: Partition, broker_id: NodeId) -> LocalPartition:
    return LocalPartition(
        topic_name=topic.name,
        partition=number,
        topic_id=topic.topic_id,
        directory_id=partition.directory(broker_id),
    )
