"""A voter describes itself to its leader: directory, listeners, range of kraft.version (KIP-853).

From level 1 on it does so when the log says something else of it, for instance after its listeners
changed, and the leader appends a VotersRecord. At level 0 it tells each new leader once, which the
leader remembers to be able to raise the level. The request takes the place of a Fetch, one fetch
time-out after the leader is known, or later.
Source: apache/kafka: raft/.../KafkaRaftClient.java, `pollFollowerAsVoter`, 4.3.
"""

from raft import error_codes
from raft.membership.voters import Voter
from raft.messages import UpdateVoterRequest, UpdateVoterResponse
from raft.roles import Follower
from raft.state import RaftState

_TAKEN = (error_codes.NONE, error_codes.UNSUPPORTED_VERSION)


def is_update_due(state: RaftState, role: Follower) -> bool:
    """True if UpdateRaftVoter is to be sent now, instead of a Fetch."""
    due_ms = role.update_voter_ms
    if due_ms is None or due_ms > state.now_ms:
        return False
    return _is_needed(state, role) and state.request_manager.is_untouched(role.leader_id)


def _is_needed(state: RaftState, role: Follower) -> bool:
    """True if the leader lacks the description of this voter."""
    config, log = state.config, state.log
    if not state.is_voter or not config.listeners:
        return False
    if log.kraft_version > 0:
        return log.voters.by_id[config.node_id] != _description(state)
    return config.announces_voter and not role.has_updated_leader


def _description(state: RaftState) -> Voter:
    config = state.config
    return Voter(state.self_key, config.listeners, 0, config.kraft_version_max)


def send_update_voter(state: RaftState, role: Follower) -> None:
    """Send the description to the leader; the next one is due a fetch time-out later."""
    assert state.is_voter, f"an observer describes itself to nobody {role=}"
    config, me = state.config, _description(state)
    role.update_voter_ms = state.now_ms + config.fetch_timeout_ms
    request = UpdateVoterRequest(
        cluster_id=config.cluster_id,
        current_leader_epoch=role.epoch,
        voter_id=me.key.id,
        directory_id=me.key.directory_id,
        endpoints=me.endpoints,
        kraft_version_min=me.kraft_version_min,
        kraft_version_max=me.kraft_version_max,
    )
    state.send_request(role.leader_id, request)


def on_update_response(state: RaftState, response: UpdateVoterResponse) -> bool:
    """Note that the leader knows this voter, or back off; a leader that answers is alive.

    One that cannot take it now is fetched from, and told later. In a back-off the Fetch would go to
    another voter, and if that one is down, no other Fetch leaves before its time-out (INV-RPC-2).
    """
    role = state.role
    assert isinstance(role, Follower), f"INV-RPC-1 {role=}"
    if response.error_code in _TAKEN:
        role.has_updated_leader = True
    elif response.error_code != error_codes.REQUEST_TIMED_OUT:
        return False
    role.fetch_deadline_ms = state.now_ms + state.config.fetch_timeout_ms
    return True
