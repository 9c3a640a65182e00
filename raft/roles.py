"""The roles of a replica as types: a field exists only where it has a meaning.

What identifies a role (epoch, leader, vote) changes only through `transitions.transition`; the
timers and tallies beside it move within the role.
Source: apache/kafka: raft/.../{Unattached,Prospective,Candidate,Leader,Follower,Resigned}State.java
"""

from typing import final

import msgspec

from raft.progress import Progress
from raft.quorum import VoteTally
from wire.types import LeaderEpoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey


@final
class Unattached(msgspec.Struct, kw_only=True):
    """No usable leader; waits for a timer, a vote or news."""

    epoch: LeaderEpoch
    leader_id: NodeId | None = None
    voted_key: ReplicaKey | None = None
    election_deadline_ms: int | None = None
    """None for observers: they never stand."""


@final
class Prospective(msgspec.Struct, kw_only=True):
    """Asks for pre-votes in its unchanged epoch (KIP-996)."""

    epoch: LeaderEpoch
    leader_id: NodeId | None = None
    voted_key: ReplicaKey | None = None
    votes: VoteTally
    election_deadline_ms: int


@final
class Candidate(msgspec.Struct, kw_only=True):
    """Asks for votes in an epoch of its own."""

    epoch: LeaderEpoch
    voted_key: ReplicaKey
    votes: VoteTally
    election_deadline_ms: int

    @property
    def leader_id(self) -> NodeId | None:
        """A candidate knows no leader."""
        return None


@final
class Leader(msgspec.Struct, kw_only=True):
    """Leads `epoch`, whose first record is at `epoch_start_offset`."""

    epoch: LeaderEpoch
    leader_id: NodeId
    epoch_start_offset: Offset
    check_quorum_deadline_ms: int
    progress: dict[NodeId, Progress]
    """The other voters."""
    observers: dict[ReplicaKey, Progress]
    fetched_voters: set[NodeId]
    is_claimed: bool = False

    @property
    def voted_key(self) -> ReplicaKey | None:
        """A leader's file names no vote."""
        return None


class SnapshotDownload(msgspec.Struct, frozen=True):
    """A snapshot being fetched: the next byte is at `position_bytes`."""

    snapshot_id: OffsetAndEpoch
    position_bytes: int = 0


@final
class Follower(msgspec.Struct, kw_only=True):
    """Fetches from the leader of its epoch."""

    epoch: LeaderEpoch
    leader_id: NodeId
    voted_key: ReplicaKey | None = None
    fetch_deadline_ms: int
    has_fetched: bool = False
    """Whether a fetch from this leader succeeded: then pre-votes are refused."""
    download: SnapshotDownload | None = None


@final
class Resigned(msgspec.Struct, kw_only=True):
    """Led `epoch` and leads no more; tells the others. Known in memory only."""

    epoch: LeaderEpoch
    leader_id: NodeId
    preferred_candidates: tuple[NodeId, ...]
    unacknowledged: set[NodeId]
    tried: set[NodeId]
    """Voters that were told at least once, whatever came of it."""
    election_deadline_ms: int

    @property
    def voted_key(self) -> ReplicaKey | None:
        """Its file names it as leader and no vote."""
        return None


Role = Unattached | Prospective | Candidate | Leader | Follower | Resigned
