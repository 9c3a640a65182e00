"""Linearizable reads that a leader has not confirmed: those that wait, and the round under way.

INV-READ-1: a Fetch counts for a read only if it was sent after the read began. Receipt proves
nothing: a Fetch that waited in the socket of a stopped leader may be older than an election. It was
sent after it if the Fetch before it on its connection was answered after the read began, since a
replica has one Fetch in flight on a connection. Both ends make sure of that: the replica closes a
link whose Fetch it has given up before it sends another (network/peers.py), and the leader closes a
connection with two (kernel/quorum/replica.py).
Source: Raft thesis 6.4; fetches as heartbeats are of KIP-595.
"""

from collections import deque
from enum import Enum
from typing import final

import msgspec

from wire.types import Offset, ReplicaKey


class ReadRefusal(Enum):
    """Reason why a read is not linearizable at this node."""

    NOT_LEADER = "this node does not lead the quorum"
    LEADERSHIP_LOST = "this node has lost the leadership"
    NOT_COMMITTED = "no record of the leader's epoch was committed in time"
    NO_MAJORITY = "no majority of the voters confirmed the leader in time"
    TOO_MANY = "too many reads wait"


class Read(msgspec.Struct, frozen=True):
    """A read, by its token; it is refused at `deadline_ms`."""

    token: int
    deadline_ms: int


@final
class Round(msgspec.Struct, kw_only=True):
    """Reads that a majority of fetches confirms together."""

    offset: Offset
    """The high watermark when the round began, after all of its reads."""
    reads: deque[Read]
    answered: set[int]
    """Connections on which a Fetch was answered since the round began."""
    confirmed: set[ReplicaKey]
    """Voters that sent a Fetch of the leader's epoch since then."""


@final
class Reads(msgspec.Struct, kw_only=True):
    """The reads of a leader. All wait equally long, so that the oldest ones are due first."""

    waiting: deque[Read] = msgspec.field(default_factory=deque)
    """Reads that came since the round began: they need a later one."""
    round: Round | None = None
    next_round_ms: int = 0
    """Earliest time of the next round."""

    @property
    def count(self) -> int:
        """Number of reads that are not confirmed."""
        return len(self.waiting) + (0 if self.round is None else len(self.round.reads))

    @property
    def tokens(self) -> tuple[int, ...]:
        """Tokens of the reads that are not confirmed, oldest first."""
        asked = [] if self.round is None else [read.token for read in self.round.reads]
        return (*asked, *[read.token for read in self.waiting])

    def note_fetch(self, voter: ReplicaKey, connection_id: int | None) -> None:
        """Note a Fetch of the leader's epoch from a voter.

        The first one on a connection may have been sent before the round began. It is answered
        before the next one is sent, which then counts.
        """
        if self.round is None or connection_id is None:
            return
        assert self.round.reads, "a round is for reads"
        if connection_id in self.round.answered:
            self.round.confirmed.add(voter)
        else:
            self.round.answered.add(connection_id)

    def awaits(self, voter: ReplicaKey | None) -> bool:
        """True if the round needs the next Fetch of a voter: this one is not parked."""
        return self.round is not None and voter is not None and voter not in self.round.confirmed
