"""The input of an assignor: a group, its members and topics.

(apache/kafka: GroupSpec, SubscribedTopicDescriber)
"""

from collections.abc import Callable, Mapping

import msgspec

from coordinator.group.consumer.member import PartitionsByTopic
from wire.types import TopicId


class MemberSpec(msgspec.Struct, frozen=True):
    """A member: its instance id, the topics that it subscribes, its target until now."""

    instance_id: str | None
    topic_ids: frozenset[TopicId]
    """Those that exist."""
    target: PartitionsByTopic


class GroupSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A group that needs a new target assignment."""

    members: Mapping[str, MemberSpec]
    """By member id, in the order in which an assignor looks at them."""
    is_homogeneous: bool
    """True if all members subscribe the same topics."""
    partition_counts: Mapping[TopicId, int]
    """Of every topic that a member subscribes."""


Assignor = Callable[[GroupSpec], Mapping[str, PartitionsByTopic]]
"""Gives each member its target; a target that does not change is the same object as before.

A member that the result does not have gets nothing.
"""
