"""Roles of a partition at this broker beside that of its leader, and what changes them."""

import msgspec

from replication.leader.leadership import UNCHANGED, Changed
from wire.errors import ErrorCode
from wire.types import LeaderEpoch, NodeId, PartitionEpoch


class Following(msgspec.Struct, frozen=True):
    """Role of a follower; without a leader while there is none."""

    leader_id: NodeId | None
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch


class Offline(msgspec.Struct, frozen=True):
    """Role without a log, or without metadata; the epochs are the last that were taken."""

    code: ErrorCode = ErrorCode.not_leader_or_follower
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    partition_epoch: PartitionEpoch = PartitionEpoch(-1)


class PartitionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the topic."""

    min_insync_replicas: int = 1
    deletes: bool = True
    """True if `cleanup.policy` has `delete`."""


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """Change of the role by metadata."""

    is_taken: bool = False
    """False for metadata that are older than what is known, or wait for the log."""
    is_new_leader: bool = False
    """True if this broker was not the leader, and is."""
    is_new_leader_epoch: bool = False
    """True if a follower has to fetch from the start of another epoch, maybe from another."""
    changed: Changed = UNCHANGED
