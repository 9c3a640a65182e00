"""The role of a replica at start, from quorum-state and the log: never Leader.

A pair (offset, epoch) identifies one record for ever. A leader that restarts may have lost records
that it had sent but not flushed, so it must not write in that epoch again: it starts as Resigned.
A candidate has written nothing in its epoch and resumes its election.
Source: QuorumState.initialize (apache/kafka: raft/.../QuorumState.java).
"""

import msgspec

from raft.config import RaftConfig
from raft.fetching.epoch_cache import LogView
from raft.quorum import own_tally
from raft.roles import Candidate, Follower, Resigned, Role, Unattached
from wire.types import LeaderEpoch, NodeId, ReplicaKey, Rng


class StoredElection(msgspec.Struct, frozen=True, kw_only=True):
    """The election as read from quorum-state; epoch 0 has neither leader nor records."""

    epoch: LeaderEpoch = LeaderEpoch(0)
    leader_id: NodeId | None = None
    voted_key: ReplicaKey | None = None

    def __post_init__(self) -> None:
        """Assert that the stored election is possible."""
        assert self.epoch >= 0, f"{self=}"
        assert self.epoch > 0 or self.leader_id is None, f"epoch 0 has no leader {self=}"


def initial_role(
    config: RaftConfig,
    log: LogView,
    stored: StoredElection,
    rng: Rng,
    now_ms: int,
) -> Role:
    """Return the role at start: the first that applies.

    1. The log has a later epoch: Unattached in it; the stored election is obsolete, its vote too.
    2. The stored leader is this node: Resigned.
    3. The stored vote is this replica's own (id and directory) and no leader is stored: Candidate.
       Kafka tests the vote before the leader; with both stored the election is over: Follower.
    4. The endpoint of the stored leader is known: Follower, with the vote.
    5. Otherwise Unattached, with leader and vote.
    """
    voters = log.voters
    is_voter = config.can_vote and voters.is_voter(config.self_key)
    deadline_ms = now_ms + config.draw_election_timeout_ms(rng)
    if stored.epoch < log.last_epoch:
        return Unattached(
            epoch=log.last_epoch, election_deadline_ms=deadline_ms if is_voter else None
        )
    if stored.leader_id == config.node_id:
        return Resigned(
            epoch=stored.epoch,
            leader_id=config.node_id,
            preferred_candidates=(),
            unacknowledged={key.id for key in voters.others(config.node_id)},
            tried=set(),
            election_deadline_ms=deadline_ms,
        )
    voted_key = stored.voted_key
    if voted_key is not None and stored.leader_id is None and is_voter:
        is_own_directory = voted_key.directory_id in (None, config.directory_id)
        if voted_key.id == config.node_id and is_own_directory:
            return Candidate(
                epoch=stored.epoch,
                voted_key=voted_key,
                votes=own_tally(voters, config.self_key),
                election_deadline_ms=deadline_ms,
            )
    if stored.leader_id is not None and voters.endpoint(stored.leader_id) is not None:
        return Follower(
            epoch=stored.epoch,
            leader_id=stored.leader_id,
            voted_key=voted_key,
            update_voter_ms=now_ms + config.fetch_timeout_ms,
            fetch_deadline_ms=now_ms + config.fetch_timeout_ms,
        )
    return Unattached(
        epoch=stored.epoch,
        leader_id=stored.leader_id,
        voted_key=voted_key,
        election_deadline_ms=deadline_ms if is_voter else None,
    )
