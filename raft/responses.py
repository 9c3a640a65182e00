"""Common handling of peers' responses: drop stale ones, adopt higher epochs and leaders.

Source: apache/kafka: raft/.../KafkaRaftClient.java, `maybeHandleCommonResponse`.
"""

from typing import Final

from raft import error_codes
from raft.elections.leader_loss import Cause
from raft.elections.vote import on_pre_vote_unsupported, on_vote_response, start_first_election
from raft.events import RequestFailed, ResponseReceived
from raft.fetching.fetch_follower import on_fetch_response
from raft.fetching.snapshot_fetch import on_fetch_snapshot_response
from raft.membership.auto_join import on_join_response
from raft.membership.reconfig import on_api_versions, on_api_versions_failed
from raft.membership.update_voter import on_update_response
from raft.messages import (
    AddVoterResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    BeginQuorumEpochResponse,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderResponse,
    RaftRequest,
    RemoveVoterResponse,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
)
from raft.roles import Follower, Resigned
from raft.state import RaftState
from wire.types import EPOCH_MAX, NodeId

_REFUSALS: Final = (error_codes.FENCED_LEADER_EPOCH, error_codes.NOT_LEADER_OR_FOLLOWER)


def on_response(state: RaftState, event: ResponseReceived) -> None:
    """Handle a response whose request is still in flight on its connection (INV-RPC-1)."""
    source_id = event.destination_id
    request = state.request_manager.take(source_id, event.correlation_id)
    if request is None:
        return
    if type(state.role) is Resigned:
        state.role.tried.add(source_id)
    response = event.response
    if type(response) is not FetchResponse:
        if isinstance(response, ApiVersionsResponse):
            _finish(state, source_id, is_success=on_api_versions(state, source_id, response))
            return
        if isinstance(response, AddVoterResponse | RemoveVoterResponse):
            _finish(state, source_id, is_success=on_join_response(state, response))
            return
        assert isinstance(response, LeaderResponse), f"never asked of a controller {response=}"
    is_possible = response.leader_epoch <= EPOCH_MAX
    is_success = is_possible and _handle(state, source_id, request, response)
    _finish(state, source_id, is_success=is_success)


def _finish(state: RaftState, source_id: NodeId, *, is_success: bool) -> None:
    """Make the destination ready, or back off."""
    if is_success:
        state.request_manager.succeeded(source_id)
    else:
        state.request_manager.failed(source_id, state.now_ms)


def on_request_failed(state: RaftState, event: RequestFailed) -> None:
    """Back off; if the peer does not support pre-votes, become Candidate at once."""
    request = state.request_manager.take(event.destination_id, event.correlation_id)
    if request is None:
        return
    if isinstance(state.role, Resigned):
        state.role.tried.add(event.destination_id)
    state.request_manager.failed(event.destination_id, state.now_ms)
    if isinstance(request, ApiVersionsRequest):
        on_api_versions_failed(state, event.destination_id, event.error_code)
    is_pre_vote = isinstance(request, VoteRequest) and request.pre_vote
    if is_pre_vote and event.error_code == error_codes.UNSUPPORTED_VERSION:
        on_pre_vote_unsupported(state)


def _handle(
    state: RaftState, source_id: NodeId, request: RaftRequest, response: LeaderResponse
) -> bool:
    """Handle a current response; return False to back off on its connection."""
    if response.top_error_code != error_codes.NONE:
        unsupported = response.top_error_code == error_codes.UNSUPPORTED_VERSION
        if unsupported and isinstance(request, VoteRequest) and request.pre_vote:
            on_pre_vote_unsupported(state)
            return True  # the vote that follows is sent at once, to this voter too
        return False
    before = state.role
    if response.leader_epoch < before.epoch or (
        response.error_code == error_codes.UNKNOWN_LEADER_EPOCH
    ):
        return _stale(state, source_id, request, response)
    state.observe(response.leader_id, response.leader_epoch, response.leader_endpoint)
    if state.role is not before:
        _note_leaderless(state, source_id, response)
        return True  # connections were reset; the rest of the response is for the old role
    if response.error_code in _REFUSALS:
        _note_leaderless(state, source_id, response)
        _note_abdication(state, source_id, response)
        return not isinstance(request, FetchRequest | FetchSnapshotRequest)
    return _dispatch(state, source_id, request, response)


def _stale(
    state: RaftState, source_id: NodeId, request: RaftRequest, response: LeaderResponse
) -> bool:
    """Handle a response of a lower epoch; it may count as a voter without a known leader."""
    _note_leaderless(state, source_id, response)
    return not isinstance(request, FetchRequest | FetchSnapshotRequest | VoteRequest)


def _dispatch(
    state: RaftState, source_id: NodeId, request: RaftRequest, response: LeaderResponse
) -> bool:
    """Pass a response of the current epoch to its handler; False = back off."""
    role = state.role
    if type(response) is FetchResponse:
        assert type(request) is FetchRequest, f"{request=}"
        return on_fetch_response(state, source_id, request, response)
    if isinstance(response, VoteResponse):
        if response.error_code != error_codes.NONE:
            return False
        assert isinstance(request, VoteRequest), f"{request=}"
        on_vote_response(state, request, response)
        return True
    if isinstance(response, FetchSnapshotResponse):
        assert isinstance(request, FetchSnapshotRequest), f"{request=}"
        return on_fetch_snapshot_response(state, source_id, request, response)
    if isinstance(response, UpdateVoterResponse):
        return on_update_response(state, response)
    assert isinstance(response, BeginQuorumEpochResponse | EndQuorumEpochResponse), f"{response=}"
    if isinstance(role, Resigned) and response.error_code == error_codes.NONE:
        role.unacknowledged.discard(source_id)
    return response.error_code == error_codes.NONE


def _note_leaderless(state: RaftState, source_id: NodeId, response: LeaderResponse) -> None:
    """Count a voter that answers a Fetch without naming a leader (first election)."""
    if source_id not in state.voters.by_id:
        return
    if isinstance(response, FetchResponse) and response.leader_id is None:
        start_first_election(state, source_id)


def _note_abdication(state: RaftState, source_id: NodeId, response: LeaderResponse) -> None:
    """Note evidence when the followed leader answers that it no longer leads."""
    role = state.role
    if not isinstance(role, Follower) or source_id != role.leader_id:
        return
    if isinstance(response, FetchResponse | FetchSnapshotResponse):
        if response.error_code != error_codes.NOT_LEADER_OR_FOLLOWER:
            return
        state.note_loss(Cause.RESIGNATION, f"leader {source_id} refused a fetch: it leads no more")
        state.fast_election.note_lost(role, role.leader_id, state.now_ms)
