"""A controller that is no voter asks to become one (`controller.quorum.auto.join.enable`, KIP-853).

The request takes the place of a Fetch, one fetch time-out after the leader is known or was asked
last. A voter of its id with another directory, whose disk it replaces, is removed first.
Other than Kafka's, one that was removed does not ask (KAFKA-19850): it takes an operator, or a
restart once a snapshot has hidden that it was a voter.
Source: apache/kafka: raft/.../KafkaRaftClient.java, `pollFollowerAsObserver`, 4.3.
"""

from typing import Final

from raft import error_codes
from raft.messages import (
    AddVoterRequest,
    AddVoterResponse,
    RemoveVoterRequest,
    RemoveVoterResponse,
)
from raft.roles import Follower
from raft.state import RaftState

_TAKEN: Final = (
    error_codes.NONE,
    error_codes.REQUEST_TIMED_OUT,
    error_codes.DUPLICATE_VOTER,
    error_codes.VOTER_NOT_FOUND,
)
"""Errors of a leader that is alive and has done what it can; the next request is due in a while."""


def is_join_due(state: RaftState, role: Follower) -> bool:
    """True if the leader is to be asked now, instead of a Fetch."""
    if not state.config.joins:
        return False
    due_ms = role.update_voter_ms
    if due_ms is None or due_ms > state.now_ms or not _may_join(state):
        return False
    return state.request_manager.is_untouched(role.leader_id)


def _may_join(state: RaftState) -> bool:
    """True if this node may become a voter, and is none and was none."""
    if state.log.kraft_version == 0 or state.is_voter or not state.config.listeners:
        return False
    state.has_left = state.has_left or state.log.voter_history.has_left(state.self_key)
    return not state.has_left


def send_join(state: RaftState, role: Follower) -> None:
    """Ask the leader to remove the voter of this id, or to add this node as one."""
    assert not state.is_voter, f"a voter does not join {role=}"
    config, key = state.config, state.self_key
    assert config.joins, f"nobody wants it to join {config=}"
    role.update_voter_ms = state.now_ms + config.fetch_timeout_ms
    known = state.voters.by_id.get(key.id)
    request: AddVoterRequest | RemoveVoterRequest
    if known is not None:
        request = RemoveVoterRequest(
            cluster_id=config.cluster_id,
            voter_id=known.key.id,
            directory_id=known.key.directory_id,
        )
    else:
        request = AddVoterRequest(
            cluster_id=config.cluster_id,
            voter_id=key.id,
            directory_id=key.directory_id,
            endpoints=config.listeners,
            ack_when_committed=False,  # the commit may need this node, which fetches behind it
        )
    state.send_request(role.leader_id, request)


def on_join_response(state: RaftState, response: AddVoterResponse | RemoveVoterResponse) -> bool:
    """Go on fetching from a leader that has done what it can, or back off."""
    role = state.role
    assert isinstance(role, Follower), f"INV-RPC-1 {role=}"
    if response.error_code not in _TAKEN:
        return False
    role.fetch_deadline_ms = state.now_ms + state.config.fetch_timeout_ms
    return True
