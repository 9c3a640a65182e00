"""The partitions of which this broker is a replica, by id and by the name of their log.

The ids are those of topics, so that a topic may be deleted and made anew:

    INV-LR-2  a name of a log belongs to one hosted partition
"""

from collections.abc import Iterator

import msgspec

from replication.partition import Partition
from storage.checkpoints.recovery_points import TopicAndPartition
from storage.logs.unified_log import UnifiedLog
from wire.types import TopicIdPartition


class Hosted(msgspec.Struct, frozen=True):
    """A partition of which this broker is a replica."""

    name: TopicAndPartition
    partition: Partition


class HostedPartitions:
    """All of a broker, also offline ones."""

    __slots__ = ("_key_of", "_offline", "by_key")

    def __init__(self) -> None:
        self.by_key: dict[TopicIdPartition, Hosted] = {}
        self._key_of: dict[TopicAndPartition, TopicIdPartition] = {}
        self._offline: set[TopicIdPartition] = set()
        """Those whose log failed, or could not be created."""

    def add(self, key: TopicIdPartition, name: TopicAndPartition, partition: Partition) -> Hosted:
        """Host a partition, whose log has a name that no other one has."""
        assert name not in self._key_of, f"INV-LR-2 {name=}"
        hosted = self.by_key[key] = Hosted(name, partition)
        self._key_of[name] = key
        return hosted

    def drop(self, key: TopicIdPartition) -> Hosted:
        """Host a partition no more."""
        hosted = self.by_key.pop(key)
        self._offline.discard(key)
        del self._key_of[hosted.name]
        return hosted

    def drop_last(self) -> tuple[TopicIdPartition, Hosted]:
        """Host the partition no more that came last."""
        key = next(reversed(self.by_key))
        return key, self.drop(key)

    def mark_offline(self, key: TopicIdPartition) -> None:
        """Leave the log of a partition, which failed."""
        self.by_key[key].partition.mark_offline()
        self._offline.add(key)

    @property
    def offline_count(self) -> int:
        """Number of those whose log failed, or could not be created."""
        return len(self._offline)

    def key_of(self, name: TopicAndPartition) -> TopicIdPartition | None:
        """Id of the partition that has the log of this name."""
        return self._key_of.get(name)

    def open_log(self, name: TopicAndPartition) -> UnifiedLog | None:
        """The open log of this name."""
        key = self._key_of.get(name)
        return None if key is None else self.by_key[key].partition.log

    def open_logs(self) -> Iterator[tuple[TopicAndPartition, UnifiedLog]]:
        """The logs that are open, by name."""
        for hosted in self.by_key.values():
            log = hosted.partition.log
            if log is not None:
                yield hosted.name, log
