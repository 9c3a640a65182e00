"""Replication throttles (KIP-73): limits of the bytes that a broker replicates of some partitions.

    leader      answers a follower that is not in sync without records, while its quota is used up
    follower    leaves partitions that lag out of its Fetches, while its quota is used up

What replicas in sync fetch counts too. The rates are dynamic configs of the broker, the partitions
configs of their topics; `*` means all of a topic.

apache/kafka: core/.../server/ReplicationQuotaManager.java, ConfigHandler.scala; 4.3
"""

from math import inf
from typing import Final

from metadata.delta import MetadataDelta
from metadata.image import CONFIG_BROKER, CONFIG_TOPIC, Image
from network.clock import Clock
from network.sampled_rate import QuotaWindow, SimpleRate
from wire.types import NodeId, TopicId, TopicIdPartition

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
ALL: Final = "*"
_RATE_MAX: Final = 2**63 - 1


class ReplicationQuota:
    """The quota of one side of replication: its partitions, its rate, and the bound of it."""

    def __init__(self, window: QuotaWindow, clock: Clock) -> None:
        self._rate = SimpleRate(window)
        self._clock = clock
        self._partitions: dict[TopicId, frozenset[int] | None] = {}
        """Numbers of the throttled partitions by topic, None for all; no topic without any."""
        self.bound = inf
        """Bytes per second."""

    @property
    def is_used(self) -> bool:
        """True if any partition is throttled."""
        return bool(self._partitions)

    @property
    def is_exceeded(self) -> bool:
        """True if the rate is above its bound."""
        return self.per_second > self.bound

    @property
    def per_second(self) -> float:
        """Bytes per second of late."""
        return self._rate.per_second(self._clock.now_ms)

    def is_throttled(self, key: TopicIdPartition) -> bool:
        """Return True for a partition that counts here."""
        if not self._partitions:
            return False
        topic_id, number = key
        numbers = self._partitions.get(topic_id, frozenset())
        return numbers is None or number in numbers

    def record(self, size_bytes: int) -> None:
        """Count bytes of throttled partitions; they may exceed the quota."""
        self._rate.record(size_bytes, self._clock.now_ms)

    def mark(self, topic_id: TopicId, numbers: frozenset[int] | None) -> None:
        """Throttle these partitions of a topic, None for all, and no others of it."""
        if numbers is None or numbers:
            self._partitions[topic_id] = numbers
        else:
            self._partitions.pop(topic_id, None)


class ReplicationQuotas:
    """Both quotas of a broker, as the image has them."""

    def __init__(self, node_id: NodeId, window: QuotaWindow, clock: Clock) -> None:
        self._node_id = node_id
        self.leader = ReplicationQuota(window, clock)
        self.follower = ReplicationQuota(window, clock)
        self._ids: dict[str, TopicId] = {}
        """Of the topics that have had one of the configs."""

    def publish(self, image: Image, delta: MetadataDelta) -> None:
        """Take the next image."""
        has_rates = False
        for kind, name in delta.configs:
            if kind == CONFIG_TOPIC:
                self._take_topic(image, name)
            elif kind == CONFIG_BROKER:
                has_rates = True
        if has_rates:
            self.leader.bound = self._bound(image, LEADER_RATE)
            self.follower.bound = self._bound(image, FOLLOWER_RATE)

    def _take_topic(self, image: Image, name: str) -> None:
        """Throttle the partitions that the configs of a topic name; one that is gone has none."""
        known = self._ids.pop(name, None)
        if known is not None:
            self.leader.mark(known, frozenset())
            self.follower.mark(known, frozenset())
        topic_id, configs = image.topic_id_by_name.get(name), image.config(CONFIG_TOPIC, name)
        leaders, followers = configs.get(LEADER_REPLICAS), configs.get(FOLLOWER_REPLICAS)
        if topic_id is not None and (leaders or followers):
            self._ids[name] = topic_id
            self.leader.mark(topic_id, partitions_of(leaders, self._node_id))
            self.follower.mark(topic_id, partitions_of(followers, self._node_id))

    def _bound(self, image: Image, name: str) -> float:
        """The rate of this broker, else that of all brokers; there is no static one."""
        for resource in (str(self._node_id), ""):
            text = image.config(CONFIG_BROKER, resource).get(name)
            if text is not None:
                bound = int(text)
                return inf if bound == _RATE_MAX else bound
        return inf


def partitions_of(text: str | None, node_id: NodeId) -> frozenset[int] | None:
    """Numbers of the partitions whose replica here is named; None for all."""
    text = (text or "").strip()
    if text == ALL:
        return None
    replicas = [each.split(":") for each in text.split(",")] if text else []
    return frozenset(int(number) for number, broker in replicas if int(broker) == node_id)
