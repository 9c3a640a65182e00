"""BeginQuorumEpoch and EndQuorumEpoch, sent and received.

Source: KIP-595; apache/kafka: raft/.../KafkaRaftClient.java (handleBegin/EndQuorumEpochRequest).
"""

import msgspec

from raft import error_codes
from raft.elections.leader_loss import Cause
from raft.elections.vote import voter_key_error
from raft.membership.voters import listener_endpoint
from raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
)
from raft.roles import Follower, Leader, Resigned
from raft.state import RaftState
from wire.types import EPOCH_MAX, Endpoint, LeaderEpoch, NodeId, ReplicaKey


def on_begin_request(state: RaftState, reply_token: int, request: BeginQuorumEpochRequest) -> None:
    """Follow the sender; the voter key is validated after the transition."""
    if state.refuses_cluster(reply_token, request.cluster_id, BeginQuorumEpochResponse):
        return
    error = _sender_error(state, request.leader_id, request.leader_epoch)
    if error == error_codes.NONE:
        listeners, name = request.leader_endpoints, state.config.default_listener
        named = listener_endpoint(listeners, name) or (listeners[0] if listeners else None)
        state.observe(request.leader_id, request.leader_epoch, named)
        if named is not None and state.is_dynamic:
            _move_to(state, request.leader_id, named)
        error = voter_key_error(state, request.voter_id, request.voter_directory_id)
    state.answer_voter(reply_token, BeginQuorumEpochResponse, error)


def _move_to(state: RaftState, leader_id: NodeId, named: Endpoint) -> None:
    """Reach the followed leader by the endpoint that it names itself, if another is in use.

    Within an epoch that one may be of an older record, or of a node that had it from one.
    """
    role, used = state.role, state.other_leader_endpoint
    if not isinstance(role, Follower) or role.leader_id != leader_id:
        return
    if used is not None and (used.host, used.port) != (named.host, named.port):
        state.request_manager.forget(leader_id)
    role.leader_endpoint = named


def on_end_request(state: RaftState, reply_token: int, request: EndQuorumEpochRequest) -> None:
    """Start the election back-off, by this voter's place among the preferred successors."""
    if state.refuses_cluster(reply_token, request.cluster_id, EndQuorumEpochResponse):
        return
    error = _sender_error(state, request.leader_id, request.leader_epoch)
    if error == error_codes.NONE:
        state.observe(request.leader_id, request.leader_epoch)
        role = state.role
        if isinstance(role, Follower) and role.leader_id == request.leader_id and state.is_voter:
            _shorten_timer(state, role, request.preferred_candidates)
    state.answer_voter(reply_token, EndQuorumEpochResponse, error)


def _sender_error(state: RaftState, leader_id: NodeId, epoch: LeaderEpoch) -> int:
    """Validate a voter request's leader: epoch first, then the id."""
    if epoch < state.epoch:
        return error_codes.FENCED_LEADER_EPOCH
    if leader_id < 0 or epoch > EPOCH_MAX:
        return error_codes.INVALID_REQUEST
    return error_codes.NONE


def _shorten_timer(state: RaftState, role: Follower, preferred: tuple[ReplicaKey, ...]) -> None:
    """Set the fetch timer to Kafka's back-off; the resignation is also evidence, if enabled.

    An empty list comes from a leader that restarted after a crash: the rank orders voters then.
    """
    key = state.self_key
    places = [
        place
        for place, each in enumerate(preferred)
        if each.id == key.id and each.directory_id in (None, key.directory_id)
    ]
    place = places[0] if places else None
    backoff_ms = end_epoch_backoff_ms(place, len(preferred), state.config.election_backoff_max_ms)
    role.fetch_deadline_ms = state.now_ms + backoff_ms
    if preferred:
        text = f"EndQuorumEpoch of leader {role.leader_id}"
        state.note_loss(Cause.RESIGNATION, text)
    else:
        text = f"EndQuorumEpoch of leader {role.leader_id} names no successor"
        state.note_loss(Cause.RESTART, text)
    if place is not None:
        state.fast_election.note_resigned(role, place, state.now_ms)
    elif not preferred:
        state.fast_election.note_lost(role, role.leader_id, state.now_ms)


def end_epoch_backoff_ms(place: int | None, count: int, backoff_max_ms: int) -> int:
    """Return the election back-off after EndQuorumEpoch (KIP-595): 0 for the first successor."""
    if place is None:
        return backoff_max_ms
    assert 0 <= place < count, f"{place=} {count=}"
    if place == 0:
        return 0
    return min(backoff_max_ms, (backoff_max_ms >> (count - 1)) << (place - 1))


def send_end_epoch(state: RaftState) -> None:
    """Send EndQuorumEpoch to every voter that has not acknowledged it."""
    role = state.role
    assert isinstance(role, Resigned), f"{role=}"
    for voter_id in sorted(role.unacknowledged):
        request = EndQuorumEpochRequest(
            cluster_id=state.config.cluster_id,
            leader_id=state.config.node_id,
            leader_epoch=role.epoch,
            preferred_candidates=role.preferred_candidates,
        )
        state.send_if_ready(voter_id, request)


def send_begin_epoch(state: RaftState) -> None:
    """Send BeginQuorumEpoch at once, then F/2 after a voter's last fetch or BeginQuorumEpoch."""
    role = state.role
    assert type(role) is Leader, f"{role=}"
    now_ms, begin_epoch_ms = state.now_ms, state.begin_epoch_ms
    due, first_ms, over_ms = [], now_ms, now_ms - begin_epoch_ms
    for voter, seen in role.progress.items():
        newest_ms = seen.last_exchange_ms
        if newest_ms is None or newest_ms <= over_ms:
            due.append(voter)
        elif newest_ms < first_ms:
            first_ms = newest_ms
    if len(due) < len(role.progress):
        state.wake_at(first_ms + begin_epoch_ms)
    if not due:
        return
    for voter in due:
        seen = role.progress[voter]
        request = BeginQuorumEpochRequest(
            cluster_id=state.config.cluster_id,
            voter_id=voter.id,
            voter_directory_id=voter.directory_id,
            leader_id=state.config.node_id,
            leader_epoch=role.epoch,
            leader_endpoints=state.config.listeners,
        )
        if state.send_if_ready(voter.id, request):
            role.progress[voter] = msgspec.structs.replace(seen, last_exchange_ms=now_ms)
            state.wake_at(now_ms + begin_epoch_ms)
