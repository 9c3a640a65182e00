"""Partitions by the names of topics, as most requests about records have them."""

from collections.abc import Callable

from metadata.image import Image
from replication.leader.fetching import PartitionOf
from replication.partition import Partition
from wire.errors import ErrorCode
from wire.types import LeaderEpoch, TopicId, TopicIdPartition


class NamedPartitions:
    """The partitions of this broker by topic name and number, in the newest image.

    Args:
        image: returns the newest image.
        partition_of: `ReplicaManager.partition_of`.
    """

    def __init__(self, image: Callable[[], Image], partition_of: PartitionOf) -> None:
        self._image = image
        self._partition_of = partition_of

    def has_topic(self, topic: str) -> bool:
        """True if there is a topic of this name."""
        return topic in self._image().topic_id_by_name

    def key_of(self, topic: str, number: int) -> TopicIdPartition | None:
        """Key of a partition; None if there is none."""
        return key_of(self._image(), topic, number)

    def find(self, topic: str, number: int) -> Partition | ErrorCode:
        """The partition; UNKNOWN_TOPIC_OR_PARTITION, or NOT_LEADER_OR_FOLLOWER if not here."""
        key = self.key_of(topic, number)
        return ErrorCode.unknown_topic_or_partition if key is None else self._partition_of(key)


def key_of(image: Image, topic: str, number: int) -> TopicIdPartition | None:
    """Key of a partition by the name of its topic; None if there is none."""
    topic_id = image.topic_id_by_name.get(topic)
    if topic_id is None or image.partition(topic_id, number) is None:
        return None
    return topic_id, number


def name_of(image: Image, topic: str | bytes) -> str | None:
    """Name of a topic that a request names, or has the id of; None for an unknown id."""
    if isinstance(topic, str):
        return topic
    found = image.topics.get(TopicId(topic))
    return None if found is None else found.name


def known_epoch(leader_epoch: int) -> LeaderEpoch | None:
    """The current leader epoch of a request; None for -1, which is not compared."""
    return None if leader_epoch == -1 else LeaderEpoch(leader_epoch)
