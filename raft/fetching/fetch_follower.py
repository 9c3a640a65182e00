"""The follower's side of replication: one fetch at a time, append, flush, fetch again.

INV-ACK-1: a voter's fetch offset is durable: its next Fetch is sent only when its whole log is
flushed, because the fetch offset is an acknowledgement. INV-HW-4: nothing below the high watermark
is ever truncated. INV-APPEND-1: after AppendFetched, or a last WriteSnapshotChunk, the very next
event is the log's answer (writes are synchronous; flushes are not).
Source: KIP-595; apache/kafka: raft/.../KafkaRaftClient.java.
"""

from raft import error_codes
from raft.config import BOOTSTRAP_ID_MAX, DISK_FULL_RETRY_MS
from raft.effects import AppendFetched, TruncateLog
from raft.elections.flush_stall import note_appended, note_flushed
from raft.elections.proof import is_counted, note_caught_up, note_fetched, prove_flushed
from raft.events import Appended, Flushed
from raft.fetching.fetch_leader import follow_voters, release_parked, update_high_watermark
from raft.messages import FetchRequest, FetchResponse, FetchSnapshotRequest
from raft.roles import Follower, Leader, SnapshotDownload, Unattached
from raft.state import PendingAppend, RaftInvariantError, RaftState
from wire.types import NodeId, Offset, OffsetAndEpoch


def send_fetch(state: RaftState) -> None:
    """Fetch from the leader, or from another voter while the leader does not respond."""
    role, log = state.role, state.log
    assert type(role) is Follower or type(role) is Unattached, f"{role=}"
    assert state.pending_append is None, "INV-APPEND-1"
    held_end_offset = log.flushed_end_offset if state.acknowledges else log.written_end_offset
    if held_end_offset != log.end_offset:
        return
    paused_until_ms = state.fetch_paused_until_ms
    if paused_until_ms is not None:
        if paused_until_ms > state.now_ms:
            state.wake_at(paused_until_ms)
            return
        state.fetch_paused_until_ms = None
    in_flight_until = state.request_manager.fetch_in_flight_until(state.now_ms)
    if in_flight_until is not None:
        state.wake_at(in_flight_until)
        return
    destination_id = _destination(state)
    if destination_id is None:
        return
    is_leader = type(role) is Follower and destination_id == role.leader_id
    download = role.download if type(role) is Follower and is_leader else None
    if download is not None:
        state.send_request(destination_id, _snapshot_request(state, download))
    else:
        state.send_request(destination_id, _fetch_request(state))


def _destination(state: RaftState) -> NodeId | None:
    """Return the leader, another controller while it backs off, or None (wake-up) until later."""
    role, now_ms, requests = state.role, state.now_ms, state.request_manager
    leader_id = role.leader_id if type(role) is Follower else None
    if leader_id is None:
        return _other(state, None)
    if requests.is_untouched(leader_id):
        return leader_id
    if requests.has_timed_out(leader_id, now_ms):
        requests.forget(leader_id)
    elif requests.is_ready(leader_id, now_ms):
        return leader_id
    elif requests.is_in_flight(leader_id):  # UpdateRaftVoter, whose answer comes first
        state.wake_at(requests.ready_at(leader_id, now_ms))
        return None
    other_id = _other(state, leader_id)
    if other_id is None and requests.is_ready(leader_id, now_ms):
        return leader_id
    return other_id


def _other(state: RaftState, leader_id: NodeId | None) -> NodeId | None:
    """Draw one of the controllers that are ready; None (wake-up) while all back off."""
    ready = []
    for node_id in _askable(state):
        ready_ms = state.request_manager.ready_at(node_id, state.now_ms)
        if ready_ms > state.now_ms:
            state.wake_at(ready_ms)
        elif node_id != leader_id:
            ready.append(node_id)
    return ready[state.rng.randrange(len(ready))] if ready else None


def _askable(state: RaftState) -> list[NodeId]:
    """Return the other voters, and the bootstrap controllers by their destination ids."""
    bootstrap = [NodeId(BOOTSTRAP_ID_MAX - n) for n in range(len(state.config.bootstrap))]
    return [*[voter.id for voter in state.others], *bootstrap]


def _fetch_request(state: RaftState) -> FetchRequest:
    """Make a Fetch at the log end."""
    config, log, watermark = state.config, state.log, state.high_watermark
    return FetchRequest(
        cluster_id=config.cluster_id,
        replica_id=config.node_id if is_counted(state) else None,
        replica_directory_id=config.directory_id,
        current_leader_epoch=state.role.epoch,
        fetch_offset=log.end_offset,
        last_fetched_epoch=log.last_epoch,
        max_wait_ms=state.fetch_wait_ms,
        max_bytes=config.fetch_max_bytes,
        high_watermark=-1 if watermark is None else watermark,
    )


def _snapshot_request(state: RaftState, download: SnapshotDownload) -> FetchSnapshotRequest:
    """Make the FetchSnapshot of the next chunk."""
    return FetchSnapshotRequest(
        cluster_id=state.config.cluster_id,
        replica_id=state.config.node_id if is_counted(state) else None,
        replica_directory_id=state.config.directory_id,
        current_leader_epoch=state.epoch,
        snapshot_id=download.snapshot_id,
        position_bytes=download.position_bytes,
        max_bytes=state.config.fetch_snapshot_max_bytes,
    )


def on_fetch_response(
    state: RaftState, source_id: NodeId, request: FetchRequest, response: FetchResponse
) -> bool:
    """Handle a Fetch response; False = back off before the next request."""
    role = state.role
    if response.error_code != error_codes.NONE or type(role) is not Follower:
        return False
    if source_id != role.leader_id:
        return False
    log = state.log
    assert request.fetch_offset == log.end_offset, f"{request=} {log.describe()}"
    assert state.pending_append is None, "INV-APPEND-1"
    role.has_fetched = True
    role.fetch_deadline_ms = state.now_ms + state.config.fetch_timeout_ms
    state.fast_election.forget()
    state.loss = None
    if response.diverging_epoch is not None:
        _truncate(state, response.diverging_epoch)
    elif response.snapshot_id is not None:
        if (state.high_watermark or 0) > response.snapshot_id.offset:
            return False
        if response.snapshot_id.epoch > role.epoch:
            return False  # the log of this leader cannot hold such an epoch
        if response.snapshot_id.offset <= 0:
            return False  # 0-0 is never sent to others
        role.download = SnapshotDownload(response.snapshot_id)
    elif response.records:
        state.pending_append = PendingAppend(response.high_watermark)
        state.effects.persist.append(
            AppendFetched(
                base_offset=log.end_offset,
                epoch=role.epoch,
                records=response.records,
                flush=state.acknowledges,
            )
        )
    else:
        _take_high_watermark(state, response.high_watermark)
        note_caught_up(state)
    return True


def _truncate(state: RaftState, diverging: OffsetAndEpoch) -> None:
    """Truncate to the common log; no committed record can be lost by it (INV-HW-4)."""
    end_offset = max(state.log.truncation_point(diverging), state.log.start_offset)
    if end_offset < (state.high_watermark or 0):
        raise RaftInvariantError(
            f"INV-HW-4 {diverging=} {state.high_watermark=} {state.log.describe()}"
        )
    state.log.truncate(Offset(end_offset))
    state.effects.persist.append(
        TruncateLog(end_offset=Offset(end_offset), generation=state.log.generation)
    )


def _take_high_watermark(state: RaftState, high_watermark: int) -> None:
    """Adopt the leader's high watermark up to the local log end; a lower one is ignored."""
    if state.is_unproven:
        note_fetched(state, high_watermark)
    if high_watermark >= 0:
        reached = min(high_watermark, state.log.end_offset)
        if reached > (-1 if state.high_watermark is None else state.high_watermark):
            state.advance_high_watermark(Offset(reached))


def on_appended(state: RaftState, event: Appended) -> None:
    """Release parked fetches (leader) or adopt the fetched high watermark (follower)."""
    pending, state.pending_append = state.pending_append, None
    if event.is_disk_full:
        state.is_disk_full = True
        pause_ms = min(DISK_FULL_RETRY_MS, state.config.fetch_timeout_ms // 2)
        state.fetch_paused_until_ms = state.now_ms + pause_ms
    log = state.log
    if event.generation != log.generation:
        assert event.generation < log.generation, f"{event=} {log.describe()}"
        assert pending is None, f"INV-APPEND-1 {event=}"
        return
    if pending is None:
        assert event.end_offset <= log.end_offset, f"never assigned {event=} {log.describe()}"
    for start in event.epochs:
        log.assign_epoch(start)
    log.wrote(event.end_offset)
    for record in event.voter_records:
        log.add_voters(record)
    if log.is_settled and event.end_offset > log.start_offset:
        assert event.last_epoch == log.last_epoch, f"{event=} {log.describe()}"
    if type(state.role) is Leader:
        assert pending is None, f"INV-APPEND-1 {event=}"
        state.is_disk_full = False  # what a sole voter kept is written: maybe a second voter
        note_appended(state, state.role)
        if event.voter_records:
            follow_voters(state)
        release_parked(state, log.written_end_offset)
    elif pending is not None:
        _take_high_watermark(state, pending.high_watermark)


def on_flushed(state: RaftState, event: Flushed) -> None:
    """Advance the flushed end: a leader may advance the high watermark, a follower may fetch.

    A flush that began before a truncation is ignored. A leader also ignores one of an older epoch,
    since its LeaderChange is flushed later anyway; for a follower it remains valid.
    """
    if event.generation != state.log.generation:
        assert event.generation < state.log.generation, f"{event=} {state.log.describe()}"
        return
    role = state.role
    assert event.epoch <= role.epoch, f"{event=} is from the future, {state.epoch=}"
    if type(role) is Leader:
        if event.epoch == role.epoch:
            state.log.flushed(event.end_offset)
            note_flushed(state, role)
            update_high_watermark(state)
    else:
        state.log.flushed(event.end_offset)
        if state.is_unproven:
            prove_flushed(state)
