"""The assignor `uniform` for members that all subscribe the same topics.

Balance comes first: the numbers of partitions of two members differ by one at most. Then
stickiness: a member keeps what it has up to its quota, and only the rest moves.
(apache/kafka: UniformHomogeneousAssignmentBuilder)
"""

from collections.abc import Mapping
from typing import Final

from coordinator.group.consumer.assignors.heterogeneous import assign_heterogeneous
from coordinator.group.consumer.assignors.spec import GroupSpec
from coordinator.group.consumer.member import PartitionsByTopic
from wire.types import TopicId, TopicIdPartition

NAME: Final = "uniform"


def assign_uniform(spec: GroupSpec) -> Mapping[str, PartitionsByTopic]:
    """Targets of the members, balanced and as sticky as balance allows."""
    if not spec.members:
        return {}
    if spec.is_homogeneous:
        return _Homogeneous(spec).assign()
    return assign_heterogeneous(spec)


class _Homogeneous:
    """One computation of targets."""

    def __init__(self, spec: GroupSpec) -> None:
        self._members = spec.members
        self._counts = spec.partition_counts
        self._topic_ids = next(iter(spec.members.values())).topic_ids
        self._unassigned: list[TopicIdPartition] = []
        self._unfilled: list[tuple[str, int]] = []
        """Members with room, and how much they have."""
        self._targets: dict[str, PartitionsByTopic] = {}
        total = sum(self._counts[topic_id] for topic_id in self._topic_ids)
        self._quota_min, self._extra_count = divmod(total, len(spec.members))

    def assign(self) -> Mapping[str, PartitionsByTopic]:
        """Targets of all members."""
        if not self._topic_ids:
            return {}
        self._collect_unassigned()
        self._revoke()
        self._fill()
        return self._targets

    def _collect_unassigned(self) -> None:
        """Collect the partitions that no target has."""
        assigned: dict[TopicId, list[int]] = {topic_id: [] for topic_id in self._topic_ids}
        for member in self._members.values():
            for topic_id, partitions in member.target.items():
                if topic_id in assigned:
                    assigned[topic_id] += partitions
        for topic_id in sorted(self._topic_ids):
            taken = set(assigned[topic_id])
            self._unassigned += [
                (topic_id, partition)
                for partition in range(self._counts[topic_id])
                if partition not in taken
            ]

    def _revoke(self) -> None:
        """Decide what each member keeps, and which have room."""
        extra_count, left = self._extra_count, len(self._members)
        for member_id, member in self._members.items():
            has_extra = extra_count > 0
            target, room = self._kept(member.target, self._quota_min + has_extra)
            if room > 0 and has_extra and left > extra_count:
                # Another member may already have one more; this one only must take it if the
                # members that are left are as many as the extra partitions.
                room -= 1
                has_extra = False
            if room > 0:
                self._unfilled.append((member_id, room))
            extra_count -= has_extra
            left -= 1
            self._targets[member_id] = target

    def _kept(self, target: PartitionsByTopic, quota: int) -> tuple[PartitionsByTopic, int]:
        """The part of its target that a member keeps, and what is left of its quota."""
        room, topic_ids = quota, self._topic_ids
        for topic_id, partitions in target.items():
            room -= len(partitions)
            if room < 0 or topic_id not in topic_ids:
                return self._cut(target, quota)
        return target, room

    def _cut(self, target: PartitionsByTopic, quota: int) -> tuple[PartitionsByTopic, int]:
        """As `_kept`, of a target that is too large or has topics that are not subscribed."""
        kept: dict[TopicId, tuple[int, ...]] = {}
        for topic_id, partitions in target.items():
            if topic_id not in self._topic_ids:
                continue
            keep, over = partitions[:quota], partitions[quota:]
            quota -= len(keep)
            self._unassigned += [(topic_id, partition) for partition in over]
            if keep:
                kept[topic_id] = keep
        return kept, quota

    def _fill(self) -> None:
        """Give the partitions without a member to the members with room."""
        position = 0
        for member_id, room in self._unfilled:
            given = self._unassigned[position : position + room]
            position += len(given)
            if given:
                self._targets[member_id] = _with_partitions(self._targets[member_id], given)
        assert position == len(self._unassigned), "the quotas add up to all partitions"


def _with_partitions(target: PartitionsByTopic, given: list[TopicIdPartition]) -> PartitionsByTopic:
    added: dict[TopicId, list[int]] = {}
    for topic_id, partition in given:
        added.setdefault(topic_id, []).append(partition)
    return {
        **target,
        **{
            topic_id: tuple(sorted((*target.get(topic_id, ()), *partitions)))
            for topic_id, partitions in added.items()
        },
    }
