"""One consumer group driven by requests, without a log: each decision is applied at once."""

from collections.abc import Mapping
from typing import Final

import msgspec
from immutables import Map

from coordinator.group.consumer.draft import GroupDraft, applied
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.heartbeat import HeartbeatResult, heartbeat
from coordinator.group.consumer.leaving import Leave, leave, remove_members
from coordinator.group.consumer.metadata_hash import TopicHashes
from coordinator.group.consumer.requests import Heartbeat
from coordinator.group.consumer.settings import ConsumerSettings, GroupSettings
from coordinator.group.consumer.steps import Surroundings
from coordinator.records.schema import CoordinatorRecord
from metadata.image import EMPTY, Image, Partition, Topic
from wire.errors import ApiError
from wire.types import NodeId, TopicId

WALL_MS: Final = 1_000_000
SETTINGS: Final = ConsumerSettings()
AT_ONCE: Final = GroupSettings(assignment_interval_ms=0)
KIND: Final = {3: "epoch", 4: "metadata", 5: "member", 6: "assignment", 7: "target", 8: "current",
               16: "regex"}  # fmt: skip


def topic_id(name: str) -> TopicId:
    return TopicId(name.encode().rjust(16, b"\0"))


def cluster_of(
    topics: Mapping[str, int], ids: Mapping[str, bytes] | None = None, base: Image = EMPTY
) -> Image:
    """A cluster with topics of so many partitions, of one replica each."""
    image = base
    partition = Partition(replicas=(NodeId(1),), isr=(NodeId(1),))
    for name, count in topics.items():
        key = TopicId(ids[name]) if ids is not None else topic_id(name)
        topic = Topic(key, name, Map(dict.fromkeys(range(count), partition)))
        image = msgspec.structs.replace(
            image,
            topics=image.topics.set(key, topic),
            topic_id_by_name=image.topic_id_by_name.set(name, key),
        )
    return image


class Driver:
    """The group `g`; `records` are those of the last request, `kinds` their kinds in order."""

    def __init__(
        self,
        topics: Mapping[str, int] | Image,
        settings: ConsumerSettings = SETTINGS,
        group_settings: GroupSettings = AT_ONCE,
        group_id: str = "g",
    ) -> None:
        self.cluster = topics if isinstance(topics, Image) else cluster_of(topics)
        self.settings = settings
        self.group_settings = group_settings
        self.group = ConsumerGroup(group_id=group_id)
        self.hashes = TopicHashes()
        self.records: tuple[CoordinatorRecord, ...] = ()
        self.wall_ms = WALL_MS
        self.seen: tuple[object, int] | None = None
        self.new_topics_version = 0
        self.is_resolving = False

    @property
    def kinds(self) -> list[str]:
        return [
            KIND[record.key.type] + ("" if record.value is not None else "-")
            for record in self.records
        ]

    def around(self) -> Surroundings:
        seen = self.seen
        return Surroundings(
            settings=self.settings,
            group_settings=self.group_settings,
            cluster=self.cluster,
            hashes=self.hashes,
            wall_ms=self.wall_ms,
            new_topics_version=self.new_topics_version,
            has_seen_topics=seen is not None
            and seen[0] is self.cluster.topics
            and self.group.group_epoch >= seen[1],
            is_resolving=self.is_resolving,
        )

    def send(self, request: Heartbeat) -> HeartbeatResult | ApiError:
        result = heartbeat(GroupDraft(self.group), request, self.around())
        self.records = ()
        if isinstance(result, HeartbeatResult):
            self.take(result.records)
            assert self.group == result.group
            if result.has_compared_topics:
                self.seen = (self.cluster.topics, self.group.group_epoch)
        return result

    def take(self, records: tuple[CoordinatorRecord, ...]) -> None:
        """Replay records, as a coordinator that loads them does."""
        self.records = records
        for record in records:
            self.group = applied(self.group, record.key, record.value)

    def join(self, member_id: str, *names: str, **fields) -> HeartbeatResult:
        fields = {
            "subscribed_topic_names": names,
            "rebalance_timeout_ms": 1000,
            "owned": {},
        } | fields
        return self.beat(member_id, 0, **fields)

    def beat(self, member_id: str, epoch: int | None = None, **fields) -> HeartbeatResult:
        result = self.send(self.request(member_id, epoch, **fields))
        assert isinstance(result, HeartbeatResult), result
        return result

    def refused(self, member_id: str, epoch: int | None = None, **fields) -> tuple[str, str | None]:
        before = self.group
        result = self.send(self.request(member_id, epoch, **fields))
        assert isinstance(result, ApiError), result
        assert self.group is before
        return result.code.name, result.message

    def request(self, member_id: str, epoch: int | None = None, **fields) -> Heartbeat:
        if epoch is None:
            epoch = self.group.members[member_id].member_epoch
        return Heartbeat(
            group_id=self.group.group_id, member_id=member_id, member_epoch=epoch, **fields
        )

    def leave(
        self, member_id: str, epoch: int = -1, instance_id: str | None = None
    ) -> Leave | ApiError:
        draft = GroupDraft(self.group)
        request = self.request(member_id, epoch, instance_id=instance_id)
        result = leave(draft, request)
        if isinstance(result, Leave) and result.is_for_good:
            remove_members(draft, (result.member,), self.hashes, self.cluster)
        self.records = ()
        if isinstance(result, Leave):
            self.take(tuple(draft.records))
        return result

    def owned(self, member_id: str) -> dict[TopicId, tuple[int, ...]]:
        """Partitions that the member may use, by its record."""
        member = self.group.members[member_id]
        return {topic: tuple(sorted(parts)) for topic, parts in member.assigned.items()}

    def counts(self) -> dict[str, int]:
        return {
            member_id: sum(map(len, member.assigned.values()))
            for member_id, member in sorted(self.group.members.items())
        }
