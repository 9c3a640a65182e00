"""The assignor `uniform` for members that subscribe different topics.

Each member keeps what it still subscribes; partitions without a member go to the least loaded
subscribers, topics with many partitions for a subscriber first; then partitions move from the most
to the least loaded subscribers of each topic, until a round over the topics moves none or the
rounds are used up. (apache/kafka: UniformHeterogeneousAssignmentBuilder)
"""

from collections.abc import Mapping
from typing import Final

from coordinator.group.consumer.assignors.balancer import Balancer
from coordinator.group.consumer.assignors.spec import GroupSpec
from coordinator.group.consumer.member import PartitionsByTopic
from wire.types import TopicId

ROUNDS_MAX: Final = 16
"""Rounds over the topics: each about halves the imbalance of overlapping subscriptions."""

_FREE: Final = -1
"""Owner of a partition without a member."""


def assign_heterogeneous(spec: GroupSpec) -> Mapping[str, PartitionsByTopic]:
    """Targets of the members, balanced as far as subscriptions allow, else as they were."""
    assignment = _Heterogeneous(spec)
    if not assignment.topic_ids:
        return {}
    assignment.fill()
    assignment.balance()
    return assignment.targets()


class _Heterogeneous:
    """One computation of targets; members are numbers in the order of the spec."""

    def __init__(self, spec: GroupSpec) -> None:
        self._members = spec.members
        self._loads = [0] * len(spec.members)
        self._subscribers: dict[TopicId, list[int]] = {}
        for number, member in enumerate(spec.members.values()):
            for topic_id in member.topic_ids:
                self._subscribers.setdefault(topic_id, []).append(number)
        counts = spec.partition_counts
        self._owners = {topic_id: [_FREE] * counts[topic_id] for topic_id in self._subscribers}
        self.topic_ids = sorted(self._subscribers, key=self._rank)
        self._keep()

    def _rank(self, topic_id: TopicId) -> tuple[float, int, TopicId]:
        """Topics with the most partitions for a subscriber first, then those with few of them."""
        subscriber_count = len(self._subscribers[topic_id])
        return (-len(self._owners[topic_id]) / subscriber_count, subscriber_count, topic_id)

    def _keep(self) -> None:
        """Start with what the members have and still subscribe."""
        for number, member in enumerate(self._members.values()):
            for topic_id, partitions in member.target.items():
                if topic_id in member.topic_ids:
                    self._loads[number] += len(partitions)
                    owners = self._owners[topic_id]
                    for partition in partitions:
                        owners[partition] = number

    def fill(self) -> None:
        """Give partitions without a member to the least loaded subscribers."""
        for topic_id in self.topic_ids:
            owners = self._owners[topic_id]
            free = [partition for partition, owner in enumerate(owners) if owner == _FREE]
            if not free:
                continue
            balancer = Balancer(self._loads, self._subscribers[topic_id])
            for partition in free:
                number = balancer.next_least_loaded()
                owners[partition] = number
                self._loads[number] += 1

    def balance(self) -> None:
        """Move partitions until a round over the topics moves none, or the rounds are used up."""
        topic_ids = [
            topic_id for topic_id in self.topic_ids if len(self._subscribers[topic_id]) > 1
        ]
        last_moved: TopicId | None = None
        for _ in range(ROUNDS_MAX):
            for topic_id in topic_ids:
                if topic_id == last_moved:
                    return
                if self._balance_topic(topic_id) or last_moved is None:
                    last_moved = topic_id

    def _balance_topic(self, topic_id: TopicId) -> bool:
        """Move partitions of one topic between its subscribers; True if one moved."""
        balancer = Balancer(self._loads, self._subscribers[topic_id])
        if balancer.imbalance <= 1:
            return False
        owners = self._owners[topic_id]
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            owned.setdefault(owner, []).append(partition)
        has_moved = False
        while not balancer.is_balanced:
            giver = _next_giver(balancer, owned)
            if giver is None:
                break
            partition = owned[giver].pop()
            taker = balancer.next_least_loaded()
            if balancer.is_balanced:
                break
            owners[partition] = taker
            self._loads[giver] -= 1
            self._loads[taker] += 1
            has_moved = True
        return has_moved

    def targets(self) -> Mapping[str, PartitionsByTopic]:
        """The targets by member id."""
        found: list[dict[TopicId, list[int]]] = [{} for _ in self._members]
        for topic_id in sorted(self._owners):
            for partition, number in enumerate(self._owners[topic_id]):
                assert number != _FREE, f"{topic_id.hex()=} {partition=}"
                found[number].setdefault(topic_id, []).append(partition)
        targets: dict[str, PartitionsByTopic] = {}
        for (member_id, member), rows in zip(self._members.items(), found, strict=True):
            target = {topic_id: tuple(partitions) for topic_id, partitions in rows.items()}
            targets[member_id] = member.target if target == member.target else target
        return targets


def _next_giver(balancer: Balancer, owned: Mapping[int, list[int]]) -> int | None:
    """The most loaded member that has a partition of the topic left, None without one."""
    while (giver := balancer.next_most_loaded()) is not None:
        if owned.get(giver):
            return giver
        balancer.exclude_most_loaded()
    return None
