"""A leader whose flush stalls resigns. Not in Kafka, whose controllers flush on the raft thread.

A disk may stop without an error. Flushes run beside the step, so such a leader goes on answering:
its followers are in contact, no check-quorum timer expires, and yet it makes nothing durable (the
class of etcd-io/etcd#7970). INV-FLUSH-1: a leader that flushed nothing for the fetch time-out, of
records that another voter has durably, does not lead. Without such a voter it leads on: no other
disk is known to be faster, and an election would begin with a flush too.

As Resigned and later it cannot be elected before its flush is done: votes are requested from a
durable log alone (`vote.send_votes`). Its resignation writes nothing.
"""

from raft.elections.leader_loss import Cause
from raft.roles import Leader
from raft.state import RaftState
from wire.types import NodeId


def note_appended(state: RaftState, role: Leader) -> None:
    """Begin to wait for a flush, unless one is awaited."""
    log = state.log
    is_due = log.flushed_end_offset < log.written_end_offset
    if role.unflushed_since_ms is None and is_due:
        role.unflushed_since_ms = state.now_ms


def note_flushed(state: RaftState, role: Leader) -> None:
    """End the wait, or begin anew for the rest: a disk that flushes slowly does not stall.

    A sole voter with a full disk may get one of its epoch that has no record of the epoch yet.
    """
    assert state.log.flushed_end_offset >= role.epoch_start_offset, "a flush of its own epoch"
    role.unflushed_since_ms = None
    note_appended(state, role)


def leader_due_ms(state: RaftState, role: Leader) -> int:
    """Return the next timer of a leader: check quorum, or the stall of an awaited flush."""
    quorum_ms, since_ms = role.check_quorum_deadline_ms, role.unflushed_since_ms
    if since_ms is None:
        return quorum_ms
    stall_ms = since_ms + state.config.fetch_timeout_ms
    return min(quorum_ms, stall_ms) if stall_ms > state.now_ms else quorum_ms


def is_stalled(state: RaftState, role: Leader) -> bool:
    """True if the flush takes the fetch time-out or longer and another voter has more durably."""
    since_ms = role.unflushed_since_ms
    if since_ms is None or state.now_ms - since_ms < state.config.fetch_timeout_ms:
        return False
    assert state.log.flushed_end_offset < state.log.written_end_offset, "nothing is awaited"
    return bool(_ahead(state, role))


def note_stalled(state: RaftState, role: Leader) -> None:
    """Note the stalled flush as the cause of the resignation that follows."""
    assert role.unflushed_since_ms is not None, f"{role=}"
    log, took_ms = state.log, state.now_ms - role.unflushed_since_ms
    state.note_loss(
        Cause.STALLED_FLUSH,
        f"offsets [{log.flushed_end_offset}, {log.written_end_offset}) are not flushed after "
        f"{took_ms} ms, voter {min(_ahead(state, role))} has flushed more",
    )


def _ahead(state: RaftState, role: Leader) -> list[NodeId]:
    """Return the voters that have durably what this leader has not."""
    flushed = state.log.flushed_end_offset
    return [key.id for key, seen in role.progress.items() if (seen.end_offset or 0) > flushed]
