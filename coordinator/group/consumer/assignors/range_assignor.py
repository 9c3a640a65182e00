"""The assignor `range`: each member has consecutive partitions of each topic it subscribes.

Members with an instance id come first, by it, so that a restart changes nothing; then the others by
member id. If all subscribe the same topics of the same size, a member has the same partitions of
each. Nothing else is sticky. (apache/kafka: RangeAssignor)
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from coordinator.group.consumer.assignors.spec import GroupSpec
from coordinator.group.consumer.member import PartitionsByTopic
from wire.types import TopicId

NAME: Final = "range"


def assign_range(spec: GroupSpec) -> Mapping[str, PartitionsByTopic]:
    """Targets of the members by ranges."""
    subscribers = Counter(
        topic_id for member in spec.members.values() for topic_id in member.topic_ids
    )
    shares = {
        topic_id: divmod(spec.partition_counts[topic_id], count)
        for topic_id, count in subscribers.items()
    }
    turns: Counter[TopicId] = Counter()
    targets = {}
    for member_id in sorted(spec.members, key=lambda name: _rank(spec, name)):
        member = spec.members[member_id]
        ranges = {}
        for topic_id in sorted(member.topic_ids):
            quota, extra_count = shares[topic_id]
            turn = turns[topic_id]
            turns[topic_id] += 1
            start = turn * quota + min(turn, extra_count)
            end = start + quota + (turn < extra_count)
            if start < end:
                ranges[topic_id] = tuple(range(start, end))
        targets[member_id] = member.target if ranges == member.target else ranges
    return targets


def _rank(spec: GroupSpec, member_id: str) -> tuple[bool, str]:
    instance_id = spec.members[member_id].instance_id
    return (instance_id is None, member_id if instance_id is None else instance_id)
