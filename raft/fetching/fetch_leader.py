"""The leader's side of replication: Fetch, FetchSnapshot, long poll, check quorum, high watermark.

Followers pull; records are never pushed. INV-HW-1: a majority has all below the high watermark
durably; a voter acknowledges by its fetch offset, the leader itself by Flushed. INV-HW-3: it only
advances beyond the start of the current epoch (Raft thesis 3.6.2).
Source: KIP-595; apache/kafka: raft/.../{KafkaRaftClient,LeaderState}.java.
"""

import msgspec

from raft import error_codes
from raft.config import OBSERVERS_MAX, PARKED_FETCHES_MAX
from raft.effects import Claimed, ReadAndSendFetch, ReadAndSendSnapshotChunk
from raft.elections.transfer import note_target
from raft.fetching.epoch_cache import Validity
from raft.fetching.progress import ParkedFetch, Progress, contacted, fetched, recent_observers
from raft.membership.voter_changes import note_commit
from raft.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from raft.quorum import majority, majority_offset
from raft.roles import Leader
from raft.state import RaftState
from wire.types import LeaderEpoch, Offset, ReplicaKey


def on_fetch_request(
    state: RaftState,
    reply_token: int,
    request: FetchRequest,
    wall_ms: int,
    connection_id: int | None = None,
) -> None:
    """Answer a Fetch now, or park it until there are records or a higher high watermark."""
    if state.refuses_cluster(reply_token, request.cluster_id, FetchResponse):
        return
    response = _evaluate(state, request, wall_ms, connection_id)
    if not _may_park(state, request, response):
        _send(state, reply_token, request, response)
        return
    if state.parked:
        _answer_older_of_same_replica(state, request)
    state.parked.append(
        ParkedFetch(
            reply_token=reply_token,
            request=request,
            deadline_ms=state.now_ms + request.max_wait_ms,
            wall_ms=wall_ms,
            response=response,
            connection_id=connection_id,
        )
    )


def leader_error(state: RaftState, epoch: LeaderEpoch) -> int:
    """Validate a request to the leader: epochs first, then the role; no transition."""
    role = state.role
    if epoch < role.epoch:
        return error_codes.FENCED_LEADER_EPOCH
    if epoch > role.epoch:
        return error_codes.UNKNOWN_LEADER_EPOCH
    if type(role) is not Leader:
        return error_codes.NOT_LEADER_OR_FOLLOWER
    return error_codes.NONE


def _evaluate(
    state: RaftState, request: FetchRequest, wall_ms: int, connection_id: int | None
) -> FetchResponse:
    """Return the current response; a valid fetch updates the replica's progress first."""
    error = _fetch_error(state, request)
    if error != error_codes.NONE:
        return state.fetch_refusal(error)
    _note_for_reads(state, request, connection_id)
    log = state.log
    latest = log.latest_snapshot
    if request.fetch_offset == 0 and latest is not None and latest.offset > 0:
        return _response(state, snapshot=True)
    validity, end = log.validate(request.fetch_offset, request.last_fetched_epoch)
    if validity is Validity.SNAPSHOT:
        return _response(state, snapshot=True)
    if validity is Validity.DIVERGING:
        assert end is not None, f"{request=}"
        return msgspec.structs.replace(_response(state), diverging_epoch=end)
    if request.max_bytes < 0:
        # Kafka fails to read and does not update progress either (4.3.1; at the log end it waits).
        return state.fetch_refusal(error_codes.UNKNOWN_SERVER_ERROR)
    _track(state, request, wall_ms)
    return _response(state)


def _fetch_error(state: RaftState, request: FetchRequest) -> int:
    """Return the error that is independent of the log position; NONE if there is none."""
    is_possible = (
        request.max_wait_ms >= 0
        and request.fetch_offset >= 0
        and 0 <= request.last_fetched_epoch <= max(request.current_leader_epoch, 0)
    )
    if not is_possible:
        return error_codes.INVALID_REQUEST
    error = leader_error(state, request.current_leader_epoch)
    if error == error_codes.NONE and request.replica_id == state.config.node_id:
        return error_codes.INVALID_REQUEST
    return error


def _note_for_reads(state: RaftState, request: FetchRequest, connection_id: int | None) -> None:
    """Note a Fetch of a voter for the reads: it is of this epoch, whatever its position."""
    role = state.role
    assert type(role) is Leader, f"{role=}"
    if role.reads.round is not None:
        voter = state.voters.key_of(request.replica_id, request.replica_directory_id)
        if voter is not None:
            role.reads.note_fetch(voter, connection_id)


def _is_awaited(state: RaftState, request: FetchRequest) -> bool:
    """True if a read waits for the next Fetch of the voter: this one must be answered for it."""
    role = state.role
    if type(role) is not Leader or role.reads.round is None:
        return False
    voter = state.voters.key_of(request.replica_id, request.replica_directory_id)
    return role.reads.awaits(voter)


def _response(state: RaftState, *, snapshot: bool = False) -> FetchResponse:
    """Make a response without error: leader, high watermark, log start."""
    role, log, watermark = state.role, state.log, state.high_watermark
    return FetchResponse(
        leader_id=role.leader_id,
        leader_epoch=role.epoch,
        leader_endpoint=state.leader_endpoint,
        high_watermark=-1 if watermark is None else watermark,
        log_start_offset=log.start_offset,
        snapshot_id=log.latest_snapshot if snapshot else None,
    )


def _is_plain(response: FetchResponse) -> bool:
    """True if the response has neither error, diverging epoch nor snapshot id."""
    return (
        response.error_code == error_codes.NONE
        and response.diverging_epoch is None
        and response.snapshot_id is None
    )


def _may_park(state: RaftState, request: FetchRequest, response: FetchResponse) -> bool:
    """True if the response has nothing new for the replica and the request may wait."""
    return (
        request.high_watermark >= response.high_watermark
        and request.fetch_offset >= state.log.written_end_offset
        and request.max_wait_ms > 0
        and len(state.parked) < PARKED_FETCHES_MAX
        and _is_plain(response)
        and not _is_awaited(state, request)
    )


def _send(
    state: RaftState, reply_token: int, request: FetchRequest, response: FetchResponse
) -> None:
    """Answer, with records if the position is valid and below the written end."""
    if request.fetch_offset < state.log.written_end_offset and _is_plain(response):
        state.effects.send.append(
            ReadAndSendFetch(reply_token=reply_token, request=request, response=response)
        )
    else:
        state.answer(reply_token, response)


def _answer_older_of_same_replica(state: RaftState, request: FetchRequest) -> None:
    """Answer an older parked fetch of the same replica: its connection must have been lost."""
    replica_id = request.replica_id
    if replica_id is None:
        return
    for fetch in list(state.parked):
        same_id = fetch.request.replica_id == replica_id
        if same_id and fetch.request.replica_directory_id == request.replica_directory_id:
            state.parked.remove(fetch)
            state.answer(fetch.reply_token, fetch.response)


def _track(state: RaftState, request: FetchRequest, wall_ms: int) -> None:
    """Update the replica's progress, check quorum and the high watermark after a valid fetch."""
    role = state.role
    assert type(role) is Leader, f"{role=}"
    replica_id = request.replica_id
    if replica_id is None:
        return
    end = state.log.end_offset
    voter = state.voters.key_of(replica_id, request.replica_directory_id)
    if voter is not None:
        assert voter in role.progress, f"{voter=} {role=}"
        seen = role.progress[voter]
        role.progress[voter] = fetched(seen, request.fetch_offset, end, state.now_ms, wall_ms)
        if state.transfer is not None:
            note_target(state, voter)
        _note_contact(state, role, voter)
        update_high_watermark(state)
        return
    key = ReplicaKey(replica_id, request.replica_directory_id)
    if key not in role.observers:
        role.observers = recent_observers(role.observers, state.now_ms)
    if key in role.observers or len(role.observers) < OBSERVERS_MAX:
        known = role.observers.get(key, Progress())
        role.observers[key] = fetched(known, request.fetch_offset, end, state.now_ms, wall_ms)


def _note_contact(state: RaftState, role: Leader, voter: ReplicaKey) -> None:
    """Restart the check-quorum timer when a majority has fetched; a leader that votes is of it."""
    assert voter in role.progress, f"{voter=} is not another voter"
    role.fetched_voters.add(voter)
    if len(role.fetched_voters) + state.is_voter >= majority(len(state.voters)):
        role.fetched_voters.clear()
        role.check_quorum_deadline_ms = state.now_ms + state.config.check_quorum_ms


def follow_voters(state: RaftState) -> None:
    """Track the replicas by the voter set of a record just written (KIP-853).

    A promoted observer keeps its progress, a removed voter too, as an observer. A static voter that
    has a directory from now on begins anew.
    """
    role = state.role
    assert type(role) is Leader, f"{role=}"
    assert not role.observers.keys() & role.progress.keys(), f"{role=}"
    known = role.observers | role.progress
    role.progress = {key: known.get(key, Progress()) for key in state.others}
    assert len(role.progress) + state.is_voter == len(state.voters), f"{role=}"
    replaced = {ReplicaKey(voter_id) for voter_id in state.voters.ids}
    role.observers = {
        key: seen for key, seen in known.items() if key not in role.progress and key not in replaced
    }
    role.fetched_voters &= role.progress.keys()
    # A sole voter waited for no fetch, and a new voter has not fetched as one yet.
    role.check_quorum_deadline_ms = state.now_ms + state.config.check_quorum_ms
    update_high_watermark(state)


def update_high_watermark(state: RaftState) -> None:
    """Advance the high watermark to the majority's offset, then answer parked fetches."""
    role = state.role
    assert type(role) is Leader, f"{role=}"
    ends: list[Offset | None] = [seen.end_offset for seen in role.progress.values()]
    if state.is_voter:  # one that is being removed leads on, and does not count (KIP-853)
        ends.append(state.log.flushed_end_offset)
    assert len(ends) == len(state.voters), f"{role=}"
    reached = majority_offset(ends)
    if reached is None or reached <= role.epoch_start_offset:
        return
    if not state.advance_high_watermark(reached):
        return
    if not role.is_claimed:
        role.is_claimed = True
        state.effects.notify.append(Claimed(epoch=role.epoch, end_offset=state.log.end_offset))
    note_commit(state)
    release_parked(state, 0)


def release_parked(state: RaftState, threshold: int) -> None:
    """Re-evaluate and answer parked fetches with offsets below `threshold`; 0 answers all."""
    if not state.parked:
        return
    _release(
        state, [f for f in state.parked if threshold == 0 or f.request.fetch_offset < threshold]
    )


def release_voters(state: RaftState) -> set[int]:
    """Answer the parked fetches of voters; return their connections."""
    ready = [
        fetch
        for fetch in state.parked
        if state.voters.key_of(fetch.request.replica_id, fetch.request.replica_directory_id)
    ]
    _release(state, ready)
    return {fetch.connection_id for fetch in ready if fetch.connection_id is not None}


def _release(state: RaftState, ready: list[ParkedFetch]) -> None:
    if not ready:
        return
    tokens = {fetch.reply_token for fetch in ready}
    state.parked = [f for f in state.parked if f.reply_token not in tokens]
    response = _response(state)
    for fetch in ready:
        error = leader_error(state, fetch.request.current_leader_epoch)
        if error != error_codes.NONE:
            state.answer(fetch.reply_token, state.fetch_refusal(error))
        else:
            _send(state, fetch.reply_token, fetch.request, response)


def expire_parked(state: RaftState) -> None:
    """Answer expired parked fetches with the response made at their arrival.

    A leader that resigned for a transfer refuses them: it would be taken for the leader.
    """
    if not state.parked:
        return
    due = [fetch for fetch in state.parked if fetch.deadline_ms <= state.now_ms]
    if due:
        state.parked = [fetch for fetch in state.parked if fetch.deadline_ms > state.now_ms]
        is_leader = type(state.role) is Leader
        refused = None if is_leader else state.fetch_refusal(error_codes.NOT_LEADER_OR_FOLLOWER)
        for fetch in due:
            state.answer(fetch.reply_token, refused or fetch.response)


def on_fetch_snapshot_request(
    state: RaftState, reply_token: int, request: FetchSnapshotRequest
) -> None:
    """Serve a snapshot chunk; it counts for check quorum but acknowledges no offset."""
    if state.refuses_cluster(reply_token, request.cluster_id, FetchSnapshotResponse):
        return
    error = leader_error(state, request.current_leader_epoch)
    if error == error_codes.NONE:
        role = state.role
        assert isinstance(role, Leader), f"{role=}"
        voter = state.voters.key_of(request.replica_id, request.replica_directory_id)
        if voter in role.progress:
            role.progress[voter] = contacted(role.progress[voter], state.now_ms)
            _note_contact(state, role, voter)
        if request.snapshot_id.offset == 0 or state.log.latest_snapshot is None:
            error = error_codes.SNAPSHOT_NOT_FOUND
        elif request.position_bytes < 0:
            error = error_codes.POSITION_OUT_OF_RANGE
    response = FetchSnapshotResponse(
        error_code=error,
        leader_id=state.role.leader_id,
        leader_epoch=state.epoch,
        leader_endpoint=state.leader_endpoint,
        snapshot_id=request.snapshot_id,
        position_bytes=request.position_bytes,
    )
    if error != error_codes.NONE:
        state.answer(reply_token, response)
        return
    assert request.max_bytes >= 0, f"{request=}"
    state.effects.send.append(
        ReadAndSendSnapshotChunk(
            reply_token=reply_token,
            snapshot_id=request.snapshot_id,
            position_bytes=request.position_bytes,
            max_bytes=request.max_bytes,
            response=response,
        )
    )
