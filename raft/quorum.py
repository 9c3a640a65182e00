"""Majority arithmetic: the offset that a majority has, and the three-valued result of a vote.

INV-HW-1: the high watermark is an end offset that a majority of voters has durably.
(KIP-595 "High watermark"; Raft thesis 3.6.2 for the current-epoch rule, applied by the caller.)
"""

from collections.abc import Iterable
from enum import Enum

import msgspec

from raft.membership.voters import VoterSet, replica_order
from wire.types import NodeId, Offset, ReplicaKey


class VoteResult(Enum):
    """Result of a round of votes, possibly still undecided."""

    WON = "won"
    LOST = "lost"
    UNDECIDED = "undecided"


def majority(voter_count: int) -> int:
    """Return the smallest number of voters that is more than half."""
    assert voter_count >= 1, f"{voter_count=}"
    return voter_count // 2 + 1


def majority_offset(end_offsets: Iterable[Offset | None]) -> Offset | None:
    """Return the largest end offset that a majority of the voters has reached.

    Args:
        end_offsets: durable end offset of each voter, None where unknown; not empty.

    Returns:
        An end offset (exclusive); None while the offsets of fewer than a majority are known.
    """
    ordered = sorted([-1 if end is None else end for end in end_offsets], reverse=True)
    assert ordered, "a quorum has voters"
    end = ordered[len(ordered) // 2]  # a majority of the offsets is at or above it
    return None if end < 0 else Offset(end)


class VoteTally(msgspec.Struct, frozen=True):
    """Responses in one round of votes; only a voter's first response counts."""

    voters: frozenset[ReplicaKey]
    granted: frozenset[ReplicaKey] = frozenset()
    rejected: frozenset[ReplicaKey] = frozenset()

    def record(self, voter: ReplicaKey, *, granted: bool) -> "VoteTally":
        """Return the tally with a response; a non-voter's or a repeated one changes nothing."""
        if voter not in self.voters or voter in self.granted | self.rejected:
            return self
        if granted:
            return VoteTally(self.voters, self.granted | {voter}, self.rejected)
        return VoteTally(self.voters, self.granted, self.rejected | {voter})

    @property
    def unanswered(self) -> tuple[ReplicaKey, ...]:
        """Voters without a response, ascending."""
        return tuple(sorted(self.voters - self.granted - self.rejected, key=replica_order))

    @property
    def result(self) -> VoteResult:
        """The result as far as it is certain."""
        needed = majority(len(self.voters))
        assert not self.granted & self.rejected, f"{self=}"
        assert self.granted <= self.voters, f"{self=}"
        assert self.rejected <= self.voters, f"{self=}"
        if len(self.granted) >= needed:
            return VoteResult.WON
        if len(self.voters) - len(self.rejected) < needed:
            return VoteResult.LOST
        return VoteResult.UNDECIDED


def own_tally(voters: VoterSet, key: ReplicaKey, rejected_id: NodeId | None = None) -> VoteTally:
    """Return a tally with the vote of `key`, a voter; that of `rejected_id` counts as a rejection.

    A voter with the id and another directory does not vote by it (KIP-853).
    """
    own = voters.key_of(key.id, key.directory_id)
    assert own is not None, f"{key=} does not vote"
    keys = frozenset(voters.keys)
    assert own in keys, f"{own=} {keys=}"
    rejected = frozenset([voter for voter in keys if voter.id == rejected_id and voter != own])
    return VoteTally(keys, frozenset({own}), rejected)
