"""Elections: pre-votes, votes, granting and counting (KIP-595, KIP-996).

INV-DISK-1: while its disk refuses appends, a voter that is not alone neither campaigns nor leads.

INV-PROOF-1 (proof.py): an unproven voter grants to empty logs only.

INV-VOTE-1: one vote per epoch, durable before its response. INV-VOTE-2: a standard vote is granted
only to a log that is at least as up to date, so an elected leader has all committed records.
"""

from typing import Final

from raft import error_codes
from raft.effects import AppendLeaderChange
from raft.elections.leader_loss import Cause
from raft.elections.proof import may_vote_for, note_vote
from raft.events import EpochStart
from raft.fetching.progress import Progress
from raft.membership.voter_history import BOOTSTRAP_OFFSET, Membership
from raft.membership.voters import Voter, VoterSet, replica_order
from raft.messages import VoteRequest, VoteResponse
from raft.quorum import VoteResult, own_tally
from raft.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from raft.state import RaftState
from wire.types import (
    EPOCH_MAX,
    DirectoryId,
    LeaderEpoch,
    NodeId,
    Offset,
    OffsetAndEpoch,
    ReplicaKey,
)

EPOCH_START_RECORDS: Final = 3
"""LeaderChange, KRaftVersion and Voters."""


def on_vote_request(state: RaftState, reply_token: int, request: VoteRequest) -> None:
    """Answer Vote; a higher epoch, of a pre-vote too, is adopted before the key check."""
    if state.refuses_cluster(reply_token, request.cluster_id, VoteResponse):
        return
    error = _request_error(state, request)
    granted = False
    if error == error_codes.NONE:
        if request.replica_epoch > state.epoch:
            _note_candidacy(state, request)
            state.become_unattached(request.replica_epoch)
        error = voter_key_error(state, request.voter_id, request.voter_directory_id)
    if error == error_codes.NONE:
        granted = _grant(state, request)
    state.answer_voter(reply_token, VoteResponse, error, vote_granted=granted)


def _note_candidacy(state: RaftState, request: VoteRequest) -> None:
    """Note the higher epoch of a candidate as the end of this one."""
    cause = Cause.FENCED if isinstance(state.role, Leader) else Cause.CANDIDACY
    kind = "pre-vote" if request.pre_vote else "vote"
    state.note_loss(
        cause, f"voter {request.replica_id} asked for a {kind} in epoch {request.replica_epoch}"
    )


def voter_key_error(
    state: RaftState, voter_id: NodeId | None, directory_id: DirectoryId | None
) -> int:
    """Return INVALID_VOTER_KEY if the request names another voter, else NONE."""
    if voter_id is None:
        return error_codes.NONE
    if voter_id != state.config.node_id:
        return error_codes.INVALID_VOTER_KEY
    mine = state.config.directory_id
    if directory_id is not None and mine is not None and directory_id != mine:
        return error_codes.INVALID_VOTER_KEY
    return error_codes.NONE


def _request_error(state: RaftState, request: VoteRequest) -> int:
    """Return INVALID_REQUEST for impossible values, FENCED_LEADER_EPOCH for an old epoch."""
    epoch_limit = request.replica_epoch + (1 if request.pre_vote else 0)
    if request.replica_epoch > EPOCH_MAX:
        return error_codes.INVALID_REQUEST
    if request.last_end_offset < 0 or not 0 <= request.last_epoch < epoch_limit:
        return error_codes.INVALID_REQUEST
    if request.replica_epoch < state.epoch:
        return error_codes.FENCED_LEADER_EPOCH
    return error_codes.INVALID_REQUEST if request.replica_id < 0 else error_codes.NONE


def _grant(state: RaftState, request: VoteRequest) -> bool:
    """Grant or reject (apache/kafka: raft/.../EpochState.java); a standard grant is recorded."""
    theirs = OffsetAndEpoch(Offset(request.last_end_offset), request.last_epoch)
    is_up_to_date = not theirs.is_before(state.log.last_position)
    if request.pre_vote:
        if not is_up_to_date:
            state.fast_election.overtake(request.replica_id, state.now_ms)
        granted = _grant_pre_vote(state, is_up_to_date=is_up_to_date)
        return granted and may_vote_for(state, request.replica_id, theirs)
    role = state.role
    if not isinstance(role, Unattached | Prospective):
        return False
    candidate = ReplicaKey(request.replica_id, request.replica_directory_id)
    if role.voted_key is not None:
        voted = role.voted_key
        return voted.id == candidate.id and voted.directory_id in (None, candidate.directory_id)
    if role.leader_id is not None or not is_up_to_date:
        return False
    if not may_vote_for(state, request.replica_id, theirs):
        return False
    deadline = state.new_election_deadline_ms()
    if isinstance(role, Unattached):
        state.become(
            Unattached(
                epoch=role.epoch,
                voted_key=candidate,
                election_deadline_ms=deadline if state.is_voter else None,
            )
        )
    else:
        state.become(
            Prospective(
                epoch=role.epoch,
                voted_key=candidate,
                votes=own_tally(state.voters, state.self_key),
                election_deadline_ms=deadline,
            )
        )
    note_vote(state)
    state.fast_election.forget()
    assert state.role.voted_key == candidate, f"{state.role=}"
    return True


def _grant_pre_vote(state: RaftState, *, is_up_to_date: bool) -> bool:
    """Grant or reject a pre-vote, unrecorded; leaders and fetching followers reject."""
    role = state.role
    if isinstance(role, Leader) or not is_up_to_date:
        return False
    if isinstance(role, Follower) and role.has_fetched:
        return False
    if isinstance(role, Follower):
        state.fast_election.postpone(role.epoch, state.now_ms)
    return True


def become_prospective(state: RaftState) -> None:
    """Become Prospective; a lost leader counts as a rejection, for it will not respond."""
    assert state.may_become_candidate, f"INV-DISK-1 INV-PROOF-1 {state.role=}"
    assert state.loss is not None, "a campaign has a cause"
    role = state.role
    lost_leader_id = state.fast_election.lost_leader_id(role.epoch)
    votes = own_tally(state.voters, state.self_key, lost_leader_id)
    if votes.result is VoteResult.LOST:  # no majority is left without it
        votes = own_tally(state.voters, state.self_key)
    state.become(
        Prospective(
            epoch=role.epoch,
            leader_id=role.leader_id,
            leader_endpoint=state.other_leader_endpoint,
            voted_key=role.voted_key,
            votes=votes,
            election_deadline_ms=state.new_election_deadline_ms(),
        )
    )
    decide(state)


def _become_candidate(state: RaftState) -> None:
    """Become Candidate in the next epoch; its own vote is durable before any request."""
    assert isinstance(state.role, Prospective), f"{state.role=}"
    assert state.may_become_candidate, f"INV-DISK-1 INV-PROOF-1 {state.role=}"
    epoch = LeaderEpoch(state.role.epoch + 1)
    timeout_ms = state.config.draw_election_timeout_ms(state.rng)
    wait_ms = state.fast_election.candidate_wait_ms(state.role.epoch, timeout_ms)
    state.become(
        Candidate(
            epoch=epoch,
            voted_key=state.config.self_key,
            votes=own_tally(state.voters, state.self_key),
            election_deadline_ms=state.now_ms + wait_ms,
        )
    )
    decide(state)


def _become_leader(state: RaftState) -> None:
    """Become Leader; the epoch starts with a LeaderChange record at the log end."""
    role = state.role
    assert isinstance(role, Candidate), f"{role=}"
    assert role.votes.result is VoteResult.WON, f"{role=}"
    start = state.log.end_offset
    granting = tuple(sorted([voter.id for voter in role.votes.granted]))
    state.fast_election.forget()
    state.become(
        Leader(
            epoch=role.epoch,
            leader_id=state.config.node_id,
            epoch_start_offset=start,
            check_quorum_deadline_ms=state.now_ms + state.config.check_quorum_ms,
            progress={voter: Progress() for voter in state.others},
            observers={},
            fetched_voters=set(),
        )
    )
    state.log.assign_epoch(EpochStart(role.epoch, start))
    membership = _membership_to_write(state)
    state.log.extend(Offset(start + (1 if membership is None else EPOCH_START_RECORDS)))
    state.effects.persist.append(
        AppendLeaderChange(
            base_offset=start,
            epoch=role.epoch,
            leader_id=state.config.node_id,
            voters=state.voters.ids,
            granting_voters=granting,
            membership=membership,
        )
    )


def _membership_to_write(state: RaftState) -> Membership | None:
    """Return level and voters for the first batch of an epoch; None if the log has them already.

    The log lacks those of the 0-0 checkpoint, which is never sent to others, and what this voter
    itself has changed: its listeners or its range of kraft.version.
    """
    config, history = state.config, state.log.voter_history
    if history.kraft_version == 0:
        return None
    assert config.node_id in history.latest.by_id, f"an elected node votes {history=}"
    me = Voter(state.self_key, config.listeners, 0, config.kraft_version_max)
    voters = VoterSet(history.latest.by_id | ({config.node_id: me} if config.listeners else {}))
    if history.latest_offset != BOOTSTRAP_OFFSET and voters == history.latest:
        return None
    return Membership(history.kraft_version, voters)


def decide(state: RaftState) -> None:
    """Act on the tally: become Candidate or Leader, or abandon a lost round of pre-votes."""
    role = state.role
    assert isinstance(role, Prospective | Candidate), f"{role=}"
    result = role.votes.result
    if result is VoteResult.WON:
        if isinstance(role, Prospective):
            _become_candidate(state)
        else:
            _become_leader(state)
    elif result is VoteResult.LOST and isinstance(role, Prospective):
        give_up_pre_vote(state)


def give_up_pre_vote(state: RaftState) -> None:
    """Return to Follower when the leader is known, else become Unattached."""
    role = state.role
    assert isinstance(role, Prospective), f"{role=}"
    is_lost = role.votes.result is VoteResult.LOST
    endpoint = state.other_leader_endpoint
    if role.leader_id in (None, state.config.node_id) or endpoint is None:
        state.become_unattached(role.epoch)
    else:
        state.become_follower(role.epoch, role.leader_id, endpoint)
    state.fast_election.spend_round(role.epoch, state.now_ms, is_lost=is_lost)


def send_votes(state: RaftState) -> None:
    """Send Vote to every voter that has not responded and whose connection is ready.

    INV-VOTE-1: the log position that a candidate sends is durable. Else it could lose the tail,
    restart in the same epoch and win with votes granted for a log it no longer has.
    """
    role = state.role
    assert isinstance(role, Prospective | Candidate), f"{role=}"
    if not state.log.is_durable:
        return  # the poll after the flush sends them
    if role.votes.result is not VoteResult.UNDECIDED:
        return
    for voter in role.votes.unanswered:
        request = VoteRequest(
            cluster_id=state.config.cluster_id,
            voter_id=voter.id,
            voter_directory_id=voter.directory_id,
            replica_id=state.config.node_id,
            replica_directory_id=state.config.directory_id,
            replica_epoch=role.epoch,
            last_epoch=state.log.last_epoch,
            last_end_offset=state.log.end_offset,
            pre_vote=isinstance(role, Prospective),
        )
        state.send_if_ready(voter.id, request)


def on_vote_response(state: RaftState, request: VoteRequest, response: VoteResponse) -> None:
    """Count a vote; the caller has already adopted the response's leader and epoch.

    The role is the one that asked: a change of role drops the requests in flight (INV-RPC-1).
    """
    role = state.role
    assert isinstance(role, Prospective | Candidate), f"INV-RPC-1 {role=}"
    assert response.leader_epoch == role.epoch, f"{response=} {role=}"
    assert request.voter_id is not None, f"{request=}"
    voter = ReplicaKey(request.voter_id, request.voter_directory_id)
    role.votes = role.votes.record(voter, granted=response.vote_granted)
    decide(state)


def on_pre_vote_unsupported(state: RaftState) -> None:
    """Become Candidate at once: a peer lacks Vote v2 (KIP-996, mixed versions)."""
    if isinstance(state.role, Prospective):
        _become_candidate(state)


def start_first_election(state: RaftState, voter_id: NodeId) -> None:
    """Count a voter without a known leader; a majority of them starts the first election."""
    if isinstance(state.role, Unattached) and state.role.leader_id is None:
        state.fast_election.note_leaderless(state.role, voter_id, state.now_ms)
        if state.fast_election.is_valid(state.epoch):
            state.note_loss(Cause.NO_LEADER, "a majority of the voters knows no leader")


def resign(state: RaftState, successor: ReplicaKey | None = None) -> None:
    """Become Resigned; preferred successors are the voters by fetch offset, descending.

    A successor that was chosen comes before them, and the others are refused their parked fetches
    only behind EndQuorumEpoch: it says who campaigns first, a refusal says that they may.
    """
    role = state.role
    assert isinstance(role, Leader), f"{role=}"
    assert state.loss is not None, "a resignation has a cause"

    def order(voter: ReplicaKey) -> tuple[bool, int, tuple[NodeId, bytes]]:
        end = role.progress[voter].end_offset
        return (voter != successor, 1 if end is None else -end, replica_order(voter))

    state.become(
        Resigned(
            epoch=role.epoch,
            leader_id=role.leader_id,
            preferred_candidates=tuple(sorted(role.progress, key=order)),
            unacknowledged={voter.id for voter in role.progress},
            tried=set(),
            refused_late=frozenset()
            if successor is None
            else frozenset([voter.id for voter in role.progress if voter != successor]),
            election_deadline_ms=state.new_election_deadline_ms(),
        )
    )


def on_disk_full(state: RaftState) -> None:
    """Resign and drop the refused records; a sole voter keeps leadership and records.

    A leader without its LeaderChange record commits nothing, and yet its followers keep fetching:
    only the leader can end its epoch. With the refused records its log would count as longer, and
    it would reject every candidate without them. Kafka stops the node (failed log directory).
    """
    state.is_disk_full = True
    if state.may_become_candidate:
        return
    if isinstance(state.role, Leader):
        state.note_loss(Cause.DISK_FULL, "the disk refused an append")
        resign(state)
    state.log.drop_unwritten()
