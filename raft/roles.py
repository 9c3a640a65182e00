"""The roles of a replica as types: a field exists only where it has a meaning.

The identity of a role (epoch, leader, vote) changes only through `transitions.transition`; its
timers and tallies are mutable.
Source: apache/kafka: raft/.../{Unattached,Prospective,Candidate,Leader,Follower,Resigned}State.java
"""

from typing import final

import msgspec

from raft.fetching.progress import Progress
from raft.fetching.reads import Reads
from raft.membership.voters import Voter
from raft.quorum import VoteTally
from wire.types import Endpoint, LeaderEpoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey


@final
class Unattached(msgspec.Struct, kw_only=True):
    """No usable leader; waits for its election timer, a vote request or a leader."""

    epoch: LeaderEpoch
    leader_id: NodeId | None = None
    voted_key: ReplicaKey | None = None
    election_deadline_ms: int | None = None
    """None for observers, which never campaign."""


@final
class Prospective(msgspec.Struct, kw_only=True):
    """A voter that asks for pre-votes in its unchanged epoch (KIP-996)."""

    epoch: LeaderEpoch
    leader_id: NodeId | None = None
    leader_endpoint: Endpoint | None = None
    """As of the Follower that it was and may be again."""
    voted_key: ReplicaKey | None = None
    votes: VoteTally
    election_deadline_ms: int


@final
class Candidate(msgspec.Struct, kw_only=True):
    """A voter that asks for votes in a new epoch."""

    epoch: LeaderEpoch
    voted_key: ReplicaKey
    votes: VoteTally
    election_deadline_ms: int

    @property
    def leader_id(self) -> NodeId | None:
        """None: a candidate knows no leader."""
        return None


class VoterChange(msgspec.Struct, frozen=True, kw_only=True):
    """An AddRaftVoter or RemoveRaftVoter that is not committed."""

    reply_token: int | None
    """None: it was answered when its record was appended."""
    added: Voter | None = None
    """The new voter; None for a removal."""
    is_answered_at_append: bool = False
    record_offset: Offset | None = None
    """Offset of its VotersRecord; None while the new voter has not answered ApiVersions."""
    deadline_ms: int


class Transfer(msgspec.Struct, frozen=True, kw_only=True):
    """A transfer of the leadership that is not answered yet (elections/transfer.py)."""

    reply_token: int
    target: ReplicaKey
    epoch: LeaderEpoch
    """The epoch that it ends."""
    end_offset: Offset
    """The log end, which stands still until the target has it (INV-TRANSFER-1)."""
    deadline_ms: int
    """Time at which the leader gives up; once it has resigned, the time of the answer."""
    has_fetched: bool = False
    """True once the target, which is alive then, has fetched since the request."""


@final
class Leader(msgspec.Struct, kw_only=True):
    """The leader of `epoch`, which starts at `epoch_start_offset`."""

    epoch: LeaderEpoch
    leader_id: NodeId
    epoch_start_offset: Offset
    check_quorum_deadline_ms: int
    progress: dict[ReplicaKey, Progress]
    """Progress of the other voters, by the keys of the voter set."""
    observers: dict[ReplicaKey, Progress]
    fetched_voters: set[ReplicaKey]
    is_claimed: bool = False
    unflushed_since_ms: int | None = None
    """Time since which a flush is awaited; None if all that is written is durable."""
    voter_change: VoterChange | None = None
    """The change of the voters that is pending; a second one is refused."""
    announced: dict[NodeId, Voter] = msgspec.field(default_factory=dict)
    """Voters as they described themselves to this leader at kraft.version 0."""
    reads: Reads = msgspec.field(default_factory=Reads)
    """Linearizable reads that are not confirmed."""

    @property
    def voted_key(self) -> ReplicaKey | None:
        """None: quorum-state of a leader stores no vote."""
        return None


class SnapshotDownload(msgspec.Struct, frozen=True):
    """A snapshot being fetched; the next chunk starts at `position_bytes`."""

    snapshot_id: OffsetAndEpoch
    position_bytes: int = 0


@final
class Follower(msgspec.Struct, kw_only=True):
    """A replica that fetches from the leader of its epoch."""

    epoch: LeaderEpoch
    leader_id: NodeId
    leader_endpoint: Endpoint | None = None
    """As the leader was named; None at a start: then it is that of the voter set."""
    voted_key: ReplicaKey | None = None
    fetch_deadline_ms: int
    update_voter_ms: int | None = None
    """Earliest time at which this voter describes itself to the leader, if that is needed."""
    has_updated_leader: bool = False
    """True once this leader has taken the description."""
    has_fetched: bool = False
    """True after a successful fetch from this leader: pre-votes are rejected."""
    download: SnapshotDownload | None = None


@final
class Resigned(msgspec.Struct, kw_only=True):
    """The former leader of `epoch`, which sends EndQuorumEpoch. Not stored in quorum-state."""

    epoch: LeaderEpoch
    leader_id: NodeId
    preferred_candidates: tuple[ReplicaKey, ...]
    unacknowledged: set[NodeId]
    """Destinations, and so by id: an answer comes from a connection, not from a directory."""
    tried: set[NodeId]
    """Voters whose EndQuorumEpoch was answered, in whatever way, or failed at least once."""
    refused_late: frozenset[NodeId] = frozenset()
    """Voters whose parked fetches are refused when they are among those tried, not before.

    After a transfer: all but its target. A refused fetch alone would let them campaign at once.
    """
    election_deadline_ms: int

    @property
    def voted_key(self) -> ReplicaKey | None:
        """None: quorum-state still stores this node as leader, and no vote."""
        return None


Role = Unattached | Prospective | Candidate | Leader | Follower | Resigned
