"""Linearizable reads by read index: the leader's high watermark, confirmed by a majority.

A read is confirmed once a majority of the voters was in the leader's epoch after it began: nobody
had been elected in a later epoch before it, so that the high watermark noted at its begin holds all
that was acknowledged by then. Followers pull, so the leader's heartbeat is the answer to a parked
Fetch, and the acknowledgement the next Fetch (INV-READ-1, reads.py).

INV-READ-2: no round begins before a record of the leader's epoch is committed. The high watermark
of a new leader may be lower than what its predecessor acknowledged (Raft thesis 6.4, 3.6.2).
INV-READ-3: the majority is one of the voters now, committed or not. Only one change of them is ever
uncommitted, so any leader of a later epoch was elected by voters that share one with it (KIP-853).

Reads that come while a round is under way share the next one: how many there are does not matter.
"""

from collections import deque

from raft.config import READ_ROUND_MS, READ_TIMEOUT_MS, READS_MAX
from raft.effects import ReadIndexConfirmed, ReadIndexRefused
from raft.events import ReadIndexRequested
from raft.fetching.fetch_leader import release_voters
from raft.fetching.reads import Read, ReadRefusal, Round
from raft.quorum import majority
from raft.roles import Leader
from raft.state import RaftState


def on_read_requested(state: RaftState, event: ReadIndexRequested) -> None:
    """Let a read wait for the next round, which `poll_reads` begins; refuse it at a non-leader."""
    role = state.role
    if not isinstance(role, Leader):
        _refuse(state, (event.token,), ReadRefusal.NOT_LEADER)
    elif role.reads.count >= READS_MAX:
        _refuse(state, (event.token,), ReadRefusal.TOO_MANY)
    else:
        read, waiting = Read(event.token, state.now_ms + READ_TIMEOUT_MS), role.reads.waiting
        assert not waiting or waiting[-1].deadline_ms <= read.deadline_ms, f"{waiting[-1]=} {read=}"
        waiting.append(read)


def poll_reads(state: RaftState, role: Leader) -> None:
    """End the round if it is confirmed, refuse reads that are due, begin the next round."""
    reads = role.reads
    if not reads.count:
        return
    _confirm(state, role)
    _expire(state, role)
    if reads.round is None and reads.waiting and role.is_claimed:
        if reads.next_round_ms <= state.now_ms:
            _begin(state, role)
            _confirm(state, role)  # a sole voter waits for no fetch
        else:
            state.wake_at(reads.next_round_ms)
    oldest = reads.round.reads if reads.round is not None else reads.waiting
    if oldest:
        state.wake_at(oldest[0].deadline_ms)


def _begin(state: RaftState, role: Leader) -> None:
    """Note the high watermark, then answer the parked fetches of the voters."""
    reads, high_watermark = role.reads, state.high_watermark
    assert reads.round is None, "one round at a time"
    assert reads.waiting, "a round is for reads"
    assert high_watermark is not None, "INV-READ-2"
    assert high_watermark > role.epoch_start_offset, f"INV-READ-2 {high_watermark=} {role=}"
    reads.round = Round(
        offset=high_watermark, reads=reads.waiting, answered=release_voters(state), confirmed=set()
    )
    reads.waiting = deque()
    reads.next_round_ms = state.now_ms + READ_ROUND_MS


def _confirm(state: RaftState, role: Leader) -> None:
    """End the round if a majority has confirmed it; a leader that votes is of it."""
    reads = role.reads
    current = reads.round
    if current is None:
        return
    confirmed_count = len(current.confirmed & role.progress.keys()) + state.is_voter
    if confirmed_count < majority(len(state.voters)):
        return
    assert current.reads, "a round without reads is over"
    assert current.offset <= (state.high_watermark or 0), f"INV-HW-2 {current.offset=}"
    reads.round = None
    tokens = tuple([read.token for read in current.reads])
    state.effects.notify.append(ReadIndexConfirmed(tokens=tokens, offset=current.offset))


def _expire(state: RaftState, role: Leader) -> None:
    """Refuse the reads that are due; a round without reads is over."""
    reads = role.reads
    if reads.round is not None:
        _refuse_due(state, reads.round.reads, ReadRefusal.NO_MAJORITY)
        if not reads.round.reads:
            reads.round = None
    reason = ReadRefusal.NO_MAJORITY if role.is_claimed else ReadRefusal.NOT_COMMITTED
    _refuse_due(state, reads.waiting, reason)


def _refuse_due(state: RaftState, reads: deque[Read], reason: ReadRefusal) -> None:
    due = []
    while reads and reads[0].deadline_ms <= state.now_ms:
        due.append(reads.popleft().token)
    if due:
        _refuse(state, tuple(due), reason)


def _refuse(state: RaftState, tokens: tuple[int, ...], reason: ReadRefusal) -> None:
    state.effects.notify.append(ReadIndexRefused(tokens=tokens, reason=reason))
