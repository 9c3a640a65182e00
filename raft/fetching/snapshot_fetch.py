"""The follower's side of FetchSnapshot (KIP-630).

INV-SNAP-1: a snapshot replaces the log only when it is complete, and it never ends below the high
watermark.
"""

from raft import error_codes
from raft.config import SNAPSHOT_RETRY_MS
from raft.effects import WriteSnapshotChunk
from raft.events import SnapshotAdded, SnapshotInstalled, SnapshotRefused
from raft.messages import FetchSnapshotRequest, FetchSnapshotResponse
from raft.roles import Follower, SnapshotDownload
from raft.state import RaftState
from wire.types import NodeId


def on_fetch_snapshot_response(
    state: RaftState,
    source_id: NodeId,
    request: FetchSnapshotRequest,
    response: FetchSnapshotResponse,
) -> bool:
    """Write a chunk, or return to Fetch; False = back off before the next request."""
    role = state.role
    if not isinstance(role, Follower) or source_id != role.leader_id or role.download is None:
        return False
    download = role.download
    if request.snapshot_id != download.snapshot_id:
        return False
    if response.error_code != error_codes.NONE:
        role.download = None
        is_missing = response.error_code == error_codes.SNAPSHOT_NOT_FOUND
        if is_missing:
            role.fetch_deadline_ms = state.now_ms + state.config.fetch_timeout_ms
        return is_missing
    position = response.position_bytes
    next_position = position + len(response.chunk)
    is_expected = (
        response.snapshot_id == download.snapshot_id
        and position == download.position_bytes
        and position < next_position <= response.size_bytes
    )
    if not is_expected:
        role.download = None
        return False
    role.has_fetched = True
    role.fetch_deadline_ms = state.now_ms + state.config.fetch_timeout_ms
    is_done = next_position == response.size_bytes
    if is_done:
        state.log.generation += 1
        state.is_installing_snapshot = True
        role.download = None
    else:
        role.download = SnapshotDownload(download.snapshot_id, next_position)
    state.effects.persist.append(
        WriteSnapshotChunk(
            snapshot_id=download.snapshot_id,
            position_bytes=position,
            chunk=response.chunk,
            done=is_done,
            generation=state.log.generation,
        )
    )
    return True


def on_snapshot_installed(state: RaftState, event: SnapshotInstalled) -> None:
    """Restart the empty log at the end of the snapshot, which is committed."""
    assert state.is_installing_snapshot, f"unexpected {event=}"
    assert event.generation == state.log.generation, f"{event=} {state.log.describe()}"
    assert event.snapshot_id.offset >= (state.high_watermark or 0), f"INV-SNAP-1 {event=}"
    state.is_installing_snapshot = False
    state.is_disk_full |= event.is_disk_full
    state.log.restart_at(event.snapshot_id, event.membership)
    if not state.is_voter:
        state.fast_election.forget()  # it has no rank any more, and campaigns no more
    state.advance_high_watermark(event.snapshot_id.offset)


def on_snapshot_refused(state: RaftState, event: SnapshotRefused) -> None:
    """Abandon a download that the driver could not store; fetch again after a pause."""
    state.is_disk_full |= event.is_disk_full
    if state.is_installing_snapshot:
        state.is_installing_snapshot = False
        state.log.generation -= 1  # nothing was truncated: pending flushes remain valid
    if isinstance(state.role, Follower):
        download = state.role.download
        assert download is None or download.snapshot_id == event.snapshot_id, f"{event=}"
        state.role.download = None
    pause_ms = min(SNAPSHOT_RETRY_MS, state.config.fetch_timeout_ms // 2)
    state.fetch_paused_until_ms = state.now_ms + pause_ms


def on_snapshot_added(state: RaftState, event: SnapshotAdded) -> None:
    """Add a local snapshot to the log; it ends at or below the high watermark.

    A snapshot found at start is committed before any high watermark is known. One frozen before a
    fetched snapshot replaced the log, and reported after it, is ignored.
    """
    log_start_offset = state.log.start_offset
    if event.log_start_offset < log_start_offset:
        assert event.snapshot_id.offset <= log_start_offset, f"{event=} {state.log.describe()}"
        return
    highest, latest = state.high_watermark_highest, state.log.latest_snapshot
    committed = max(highest or 0, latest.offset if latest is not None else 0)
    assert event.snapshot_id.offset <= committed, f"{event=} {highest=} {latest=}"
    state.log.snapshot_added(event.snapshot_id, event.log_start_offset)
