"""Assignors of clients: which member of a group has which partitions, as the leader decides.

apache/kafka: clients/.../consumer/RangeAssignor.java (without racks), RoundRobinAssignor.java
"""

from collections.abc import Callable, Mapping
from itertools import cycle
from typing import Final

Subscriptions = Mapping[str, tuple[str | None, tuple[str, ...]]]
"""Member -> its instance id, and the topics it subscribes."""
Assignments = dict[str, dict[str, tuple[int, ...]]]
"""Member -> topic -> numbers of partitions; every member is in it."""
Assignor = Callable[[Subscriptions, Mapping[str, int]], Assignments]
"""Function from subscriptions and partition counts by topic to assignments."""


def ordered(subscriptions: Subscriptions) -> list[str]:
    """Members in the order of both assignors: static ones by instance id, then others by id."""
    return sorted(
        subscriptions,
        key=lambda member: (subscriptions[member][0] is None, subscriptions[member][0] or member),
    )


def assign_range(subscriptions: Subscriptions, partition_counts: Mapping[str, int]) -> Assignments:
    """Of each topic neighbouring partitions; the first members have one more if need be."""
    found: Assignments = {member: {} for member in subscriptions}
    members = ordered(subscriptions)
    for topic in sorted(partition_counts):
        readers = [member for member in members if topic in subscriptions[member][1]]
        if not readers:
            continue
        each, more = divmod(partition_counts[topic], len(readers))
        start = 0
        for index, member in enumerate(readers):
            end = start + each + (index < more)
            if end > start:
                found[member][topic] = tuple(range(start, end))
            start = end
    return found


def assign_round_robin(
    subscriptions: Subscriptions, partition_counts: Mapping[str, int]
) -> Assignments:
    """All partitions by topic and number, one after another to the members in turn."""
    taken: dict[str, dict[str, list[int]]] = {member: {} for member in subscriptions}
    subscribed = {topic for _, topics in subscriptions.values() for topic in topics}
    turns = cycle(ordered(subscriptions))
    for topic in sorted(subscribed & partition_counts.keys()):
        for number in range(partition_counts[topic]):
            member = next(m for m in turns if topic in subscriptions[m][1])
            taken[member].setdefault(topic, []).append(number)
    return {
        member: {topic: tuple(numbers) for topic, numbers in topics.items()}
        for member, topics in taken.items()
    }


ASSIGNORS: Final[dict[str, Assignor]] = {
    "range": assign_range,
    "roundrobin": assign_round_robin,
}
"""By the name of their protocol."""
CLASSES: Final = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
}
"""By the name of Kafka's class."""
