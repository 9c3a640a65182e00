"""The DescribeQuorum response: the leader's view of the replicas (KIP-595, KIP-836)."""

from collections.abc import Iterator

from raft import error_codes
from raft.fetching.progress import Progress, recent_observers
from raft.membership.voters import VoterSet
from raft.messages import DescribeQuorumResponse, ReplicaState
from raft.roles import Leader
from raft.state import RaftState
from wire.types import DirectoryId, Endpoint, NodeId


def describe_quorum(state: RaftState, wall_ms: int) -> DescribeQuorumResponse:
    """Return the leader's view of the replicas; NOT_LEADER_OR_FOLLOWER unless this node leads."""
    role = state.role
    if not isinstance(role, Leader):
        return DescribeQuorumResponse(
            error_code=error_codes.NOT_LEADER_OR_FOLLOWER,
            leader_id=state.role.leader_id,
            leader_epoch=state.epoch,
        )
    mine = Progress(
        end_offset=state.log.end_offset, last_fetch_wall_ms=wall_ms, last_caught_up_wall_ms=wall_ms
    )
    voters = []
    for voter in state.voters.keys:
        seen = mine if voter.id == state.config.node_id else role.progress[voter]
        voters.append(_replica(voter.id, voter.directory_id, seen))
    recent = recent_observers(role.observers, state.now_ms)
    if not state.is_voter:  # it leads until the record that removes it is committed
        recent[state.self_key] = mine
    observers = sorted(recent.items(), key=lambda item: (item[0].id, repr(item[0])))
    watermark = state.high_watermark
    return DescribeQuorumResponse(
        leader_id=state.config.node_id,
        leader_epoch=role.epoch,
        high_watermark=-1 if watermark is None else watermark,
        voters=tuple(voters),
        observers=tuple(_replica(key.id, key.directory_id, seen) for key, seen in observers),
        nodes=tuple(_nodes(state.voters)),
    )


def _nodes(voters: VoterSet) -> Iterator[tuple[NodeId, Endpoint]]:
    for voter_id in voters.ids:
        for endpoint in voters.by_id[voter_id].endpoints:
            yield voter_id, endpoint


def _replica(replica_id: NodeId, directory_id: DirectoryId | None, seen: Progress) -> ReplicaState:
    """One row of DescribeQuorum."""
    return ReplicaState(
        replica_id=replica_id,
        directory_id=directory_id,
        log_end_offset=-1 if seen.end_offset is None else seen.end_offset,
        last_fetch_timestamp_ms=seen.last_fetch_wall_ms,
        last_caught_up_timestamp_ms=seen.last_caught_up_wall_ms,
    )
