"""Counts of what a broker did as the coordinator of groups, and of the groups that it has.

apache/kafka: group-coordinator/.../metrics/GroupCoordinatorMetrics.java, GroupMetadataManager.java,
OffsetMetadataManager.java, 4.3
"""

from collections.abc import Mapping

import msgspec

from coordinator.group.classic.states import ClassicGroupState
from coordinator.group.consumer.group import GroupState


class GroupCounts(msgspec.Struct):
    """Counts since the start, raised as something is decided; other threads get a copy."""

    offset_commits: int = 0
    """Offsets of accepted commits, those of transactions too."""
    offset_expirations: int = 0
    offset_deletions: int = 0
    """Offsets that clients have deleted."""
    completed_rebalances: int = 0
    """Of classic groups: an assignment was committed."""
    consumer_rebalances: int = 0
    """Of groups of KIP-848: the epoch was raised by a member or by topics, not by a departure."""


class GroupNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """Groups and offsets that there are."""

    offsets: int = 0
    """Committed ones, without those of open transactions."""
    classic: Mapping[ClassicGroupState, int]
    """Groups by state; one that has only offsets is Empty."""
    consumer: Mapping[GroupState, int]
