"""Timers and periodic requests of each role (KIP-595): timers run first, then requests."""

from collections.abc import Callable
from typing import Any, Final

from raft.elections.epoch_messages import send_begin_epoch, send_end_epoch
from raft.elections.flush_stall import is_stalled, leader_due_ms, note_stalled
from raft.elections.leader_loss import Cause
from raft.elections.transfer import hand_over, has_successor, settle_transfer
from raft.elections.vote import become_prospective, decide, give_up_pre_vote, resign, send_votes
from raft.fetching.fetch_follower import send_fetch
from raft.fetching.fetch_leader import expire_parked
from raft.fetching.read_index import poll_reads
from raft.membership.auto_join import is_join_due, send_join
from raft.membership.update_voter import is_update_due, send_update_voter
from raft.membership.voter_changes import expire_change
from raft.quorum import VoteResult
from raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from raft.state import RaftState
from wire.types import LeaderEpoch

ROLE_CHANGES_MAX = 8
"""Role changes in one poll, at most; a single voter makes three."""
_FETCHING = (Follower, Unattached)


def poll(state: RaftState) -> None:
    """Run due timers until the role is stable, then send the requests of that role."""
    for _ in range(ROLE_CHANGES_MAX):
        before = state.role
        if state.shutdown_deadline_ms is None:
            _TIMERS[type(before)](state, before)
        else:
            _poll_shutdown(state)  # it votes while it waits, and does not campaign
        if state.role is before:
            break
    else:
        raise AssertionError(f"the role does not settle: {state.role=}")
    if state.parked:
        expire_parked(state)
    state.next_send_ms = None
    if not state.is_shut_down:
        _send(state)
    if state.transfer is not None:
        settle_transfer(state, state.transfer)


def _poll_leader(state: RaftState, role: Leader) -> None:
    """Resign when the check-quorum timer expires; a sole voter has no fetches to wait for.

    A leader that is no voter any more resigns when that is committed, one whose flush stalls too.
    """
    expire_change(state, role)
    config = state.config
    if role.check_quorum_deadline_ms <= state.now_ms and not state.is_only_voter:
        silent_ms = state.now_ms - role.check_quorum_deadline_ms + config.check_quorum_ms
        state.note_loss(Cause.CHECK_QUORUM, f"no majority fetched for {silent_ms} ms")
    elif not state.is_voter and state.is_voter_set_committed:
        state.note_loss(Cause.REMOVED, "the voters without this node are committed")
    elif is_stalled(state, role):
        note_stalled(state, role)
    elif has_successor(state, role):
        hand_over(state)
        return
    else:
        return
    resign(state)


def _poll_resigned(state: RaftState, role: Resigned) -> None:
    """Become Unattached in the next epoch when the timer expires; a sole voter campaigns now."""
    if state.parked:
        state.refuse_parked(role.refused_late - role.tried)
    if state.is_only_voter:
        become_prospective(state)
    elif role.election_deadline_ms <= state.now_ms:
        state.become_unattached(LeaderEpoch(role.epoch + 1))


def _poll_candidate(state: RaftState, role: Prospective | Candidate) -> None:
    """End the round on a full disk or an expired timer; a restarted sole voter has won."""
    if not state.may_become_candidate:
        _campaign(state)
    elif role.votes.result is VoteResult.WON:
        decide(state)
    elif role.election_deadline_ms <= state.now_ms:
        if isinstance(role, Prospective):
            give_up_pre_vote(state)
        else:
            become_prospective(state)


def _campaign(state: RaftState) -> None:
    """Ask for pre-votes; on a full disk become Unattached, able to vote for another voter.

    The evidence of a candidacy that another voter won is void only with an answered fetch.
    """
    state.note_loss(Cause.EVIDENCE, "evidence from before the leader was known")
    if state.may_become_candidate:
        become_prospective(state)
    else:
        state.fast_election.forget()
        state.become_unattached(state.role.epoch)


def _poll_follower(state: RaftState, role: Follower) -> None:
    """Campaign after the fetch time-out or on evidence; an observer becomes Unattached."""
    if state.is_shut_down:
        return
    is_due = role.fetch_deadline_ms <= state.now_ms
    if is_due:
        silent_ms = state.now_ms - role.fetch_deadline_ms + state.config.fetch_timeout_ms
        text = f"leader {role.leader_id} answered no fetch for {silent_ms} ms"
        state.note_loss(Cause.TIME_OUT, text)
    if not state.is_voter:
        if is_due:
            state.become_unattached(role.epoch)
    elif is_due or state.fast_election.is_due(role.epoch, state.now_ms):
        _campaign(state)


def _poll_unattached(state: RaftState, role: Unattached) -> None:
    """Campaign when the timer expires or on evidence; a sole voter campaigns at once."""
    if not state.is_voter:
        return
    assert role.election_deadline_ms is not None, f"{role=}"
    is_due = role.election_deadline_ms <= state.now_ms
    if state.is_only_voter:
        state.note_loss(Cause.NO_LEADER, "this node is the only voter")
    elif is_due:
        state.note_loss(Cause.TIME_OUT, "the election time-out expired without a leader")
    if is_due or state.is_only_voter or state.fast_election.is_due(role.epoch, state.now_ms):
        _campaign(state)


def _poll_shutdown(state: RaftState) -> None:
    """Finish when another leader is known, when no voter can be reached, or after the time-out.

    Until then a resigned leader stays to vote: followers that fetched from it recently reject
    pre-votes, so its vote may be the one that its successor needs (scenario
    clean_leader_stop_trace). Once all voters were sent EndQuorumEpoch, the longest back-off of a
    successor is enough to wait.
    """
    role = state.role
    assert state.shutdown_deadline_ms is not None, "not shutting down"
    assert not isinstance(role, Leader), "a leader resigns when it shuts down"
    if isinstance(role, Resigned):
        is_over = role.tried >= {key.id for key in state.others} <= role.unacknowledged
        if not role.unacknowledged - role.tried:
            backoff_end_ms = state.now_ms + state.config.election_backoff_max_ms
            state.shutdown_deadline_ms = min(state.shutdown_deadline_ms, backoff_end_ms)
    else:
        is_over = role.leader_id is not None
    if is_over or state.shutdown_deadline_ms <= state.now_ms:
        state.complete_shutdown()


_TIMERS: Final[dict[type, Callable[[RaftState, Any], None]]] = {
    Follower: _poll_follower,
    Leader: _poll_leader,
    Resigned: _poll_resigned,
    Unattached: _poll_unattached,
    Prospective: _poll_candidate,
    Candidate: _poll_candidate,
}
"""The timers of each role; a call makes at most one role change."""


def _send(state: RaftState) -> None:
    """Send the requests of the role."""
    role = state.role
    if type(role) is Follower and is_update_due(state, role):
        send_update_voter(state, role)
    elif type(role) is Follower and is_join_due(state, role):
        send_join(state, role)
    elif type(role) is Follower or type(role) is Unattached:
        send_fetch(state)
    elif type(role) is Leader:
        send_begin_epoch(state)
        if role.voter_change is not None:
            state.wake_at(role.voter_change.deadline_ms)
        poll_reads(state, role)
    elif type(role) is Resigned:
        send_end_epoch(state)
    else:
        send_votes(state)


def next_deadline_ms(state: RaftState) -> int | None:
    """Return the earliest time at which something is due; None if nothing is timed."""
    parked = state.parked
    first_ms = min([fetch.deadline_ms for fetch in parked]) if parked else None
    if state.is_shut_down:
        return first_ms
    role, due_ms = state.role, state.shutdown_deadline_ms
    is_shutting_down = due_ms is not None
    if not is_shutting_down:
        if type(role) is Follower:
            due_ms = role.fetch_deadline_ms
        elif type(role) is not Leader:
            due_ms = role.election_deadline_ms
        elif not state.is_only_voter:
            due_ms = leader_due_ms(state, role)
    if due_ms is not None and (first_ms is None or due_ms < first_ms):
        first_ms = due_ms
    due_ms = state.next_send_ms
    if due_ms is not None and (first_ms is None or due_ms < first_ms):
        first_ms = due_ms
    fast = state.fast_election
    if fast.evidence is not None and not is_shutting_down and isinstance(role, _FETCHING):
        due_ms = fast.due_ms(role.epoch)
        if due_ms is not None and (first_ms is None or due_ms < first_ms):
            first_ms = due_ms
    return first_ms
