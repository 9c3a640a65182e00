"""Cause of an election: the sign by which a replica noticed the loss of a leader. Not in Kafka.

A replica notes the first sign that its leader is lost (`state.RaftState.note_loss`); later signs of
the same loss change nothing, and an answered fetch makes it void. What it noted is part of
`effects.LeaderChanged` when a leader of another epoch is known.

All of it is local observation. Only a leader that ends its own epoch knows why: EndQuorumEpoch,
whose format is Kafka's, has no field for the reason, so that the same election is `STALLED_FLUSH`
at its former leader, `RESIGNATION` at the voter that was told, and `CANDIDACY` at one that was
asked for its vote before.
"""

from enum import StrEnum
from typing import Final

import msgspec

from raft.roles import Leader, Role
from wire.types import LeaderEpoch, NodeId


class Cause(StrEnum):
    """Cause of an election, as one replica saw it."""

    TIME_OUT = "time_out"
    """The fetch time-out of a follower, or the election time-out of a voter without a leader."""
    EVIDENCE = "evidence"
    """The connection to the leader closed, and another one was refused."""
    RESIGNATION = "resignation"
    """The leader said that it leads no more, and not why."""
    RESTART = "restart"
    """The process of the leader was restarted."""
    CANDIDACY = "candidacy"
    """Another voter asked for a vote in a higher epoch: it saw the loss first."""
    ANNOUNCED = "announced"
    """A message had a higher epoch, and nothing was seen before."""
    NO_LEADER = "no_leader"
    """A majority of the voters knew no leader, or the only voter did not."""
    FENCED = "fenced"
    """This node led, and met a higher epoch."""
    CHECK_QUORUM = "check_quorum"
    """This node led, and no majority fetched from it any more."""
    STALLED_FLUSH = "stalled_flush"
    """This node led, and its flush stalled (raft/elections/flush_stall.py)."""
    DISK_FULL = "disk_full"
    """This node led, and its disk refused an append."""
    OPERATOR = "operator"
    """This node led, and was asked to shut down, or to hand over to another voter."""
    REMOVED = "removed"
    """This node led, and is no voter any more."""
    FAULT = "fault"
    """This node led, and its controller asked to resign."""


OF_LEADERS: Final = frozenset(
    {
        Cause.FENCED,
        Cause.CHECK_QUORUM,
        Cause.STALLED_FLUSH,
        Cause.DISK_FULL,
        Cause.OPERATOR,
        Cause.REMOVED,
        Cause.FAULT,
    }
)
"""Causes that only the leader itself sees."""


class LeaderLoss(msgspec.Struct, frozen=True, kw_only=True):
    """First sign that a leader is lost."""

    cause: Cause
    evidence: str
    """The sign in words, with ids, offsets and times."""
    role: str
    """Role of this replica at the time, in one word: leader, follower, unattached, ..."""
    lost_epoch: LeaderEpoch
    """The epoch that is over."""
    lost_leader_id: NodeId | None
    """Its leader, None if that was unknown."""
    noticed_ms: int
    """Monotonic time of the sign."""


def loss_of(role: Role, cause: Cause, evidence: str, now_ms: int) -> LeaderLoss:
    """Return the loss of the leader that a replica in `role` knows."""
    assert evidence, f"{cause=} without a sign"
    assert isinstance(role, Leader) or cause not in OF_LEADERS, f"{cause=} {role=}"
    return LeaderLoss(
        cause=cause,
        evidence=evidence,
        role=type(role).__name__.lower(),
        lost_epoch=role.epoch,
        lost_leader_id=role.leader_id,
        noticed_ms=now_ms,
    )


def loss_by_epoch(old: Role, new: Role, now_ms: int) -> LeaderLoss:
    """Return the loss of a leader of which only a higher epoch is known, by some message."""
    cause = Cause.FENCED if isinstance(old, Leader) else Cause.ANNOUNCED
    named = "" if new.leader_id is None else f", led by {new.leader_id}"
    return loss_of(old, cause, f"a message of epoch {new.epoch}{named}", now_ms)
