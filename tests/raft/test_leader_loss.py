"""Causes of elections: the first sign that each replica saw, with its role and the time."""

import pytest

from raft import effects as fx
from raft import error_codes as codes
from raft import events as ev
from raft import messages as m
from raft.elections.leader_loss import Cause
from raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from tests.raft import test_dynamic_voters as dynamic
from tests.raft.test_core import ask, begin, core, end, follower, leader, vote
from wire.types import LeaderAndEpoch

FETCH_TIMEOUT_MS = 2_000
NOT_LEADER = codes.NOT_LEADER_OR_FOLLOWER


def told(effects):
    """The (cause, evidence, role) of the only change of the leader."""
    (changed,) = [e for e in effects.notify if isinstance(e, fx.LeaderChanged)]
    return changed.loss.cause, changed.loss.evidence, changed.loss.role


def noted(made):
    loss = made.leader_loss
    return loss.cause, loss.evidence, loss.role


def answered(made, response, now):
    """The only request in flight is answered."""
    ((destination_id, sent),) = made._state.request_manager._by_id.items()
    event = ev.ResponseReceived(
        destination_id=destination_id, correlation_id=sent.correlation_id, response=response
    )
    return made.step(event, now)


def test_a_start_has_no_cause():
    made = core(1, election_epoch=5, election_leader_id=2)
    assert isinstance(made.role, Follower)
    assert made.leader_loss is None


def test_a_fetch_timeout_says_how_long_the_leader_was_silent():
    made = follower()
    made.step(ev.TimeAdvanced(), FETCH_TIMEOUT_MS - 1)
    assert made.leader_loss is None
    made.step(ev.TimeAdvanced(), FETCH_TIMEOUT_MS + 3)
    assert isinstance(made.role, Prospective)
    assert noted(made) == (Cause.TIME_OUT, "leader 2 answered no fetch for 2003 ms", "follower")
    assert (made.leader_loss.lost_leader_id, made.leader_loss.lost_epoch) == (2, 5)
    assert made.leader_loss.noticed_ms == FETCH_TIMEOUT_MS + 3


def test_an_observer_has_a_timeout_too():
    made = core(4)
    made.step(ev.RequestReceived(reply_token=1, request=begin(2, 5)), 0)
    made.step(ev.TimeAdvanced(), FETCH_TIMEOUT_MS - 1)
    assert isinstance(made.role, Follower)
    made.step(ev.TimeAdvanced(), FETCH_TIMEOUT_MS)
    assert isinstance(made.role, Unattached)
    assert noted(made)[0] is Cause.TIME_OUT


def test_an_election_timeout_without_a_leader():
    made = core()
    made.step(ev.TimeAdvanced(), made.role.election_deadline_ms)
    expected = (Cause.TIME_OUT, "the election time-out expired without a leader", "unattached")
    assert noted(made) == expected


@pytest.mark.parametrize("node_id", [1, 4])
def test_a_refused_connection_is_evidence_to_voter_and_observer(node_id):
    made = core(node_id, evidence=True)
    made.step(ev.RequestReceived(reply_token=1, request=begin(2, 5)), 0)
    made.step(ev.LeaderUnreachable(leader_id=2, epoch=4), 10)
    made.step(ev.LeaderUnreachable(leader_id=3, epoch=5), 10)
    assert made.leader_loss is None
    made.step(ev.LeaderUnreachable(leader_id=2, epoch=5), 10)
    assert noted(made) == (Cause.EVIDENCE, "leader 2 refuses connections", "follower")


def test_a_resignation_and_a_restart_differ_by_the_successors():
    made = follower()
    ask(made, end(2, 5, (3, 1)), 10)
    assert noted(made) == (Cause.RESIGNATION, "EndQuorumEpoch of leader 2", "follower")
    made = follower()
    ask(made, end(2, 5, ()), 10)
    text = "EndQuorumEpoch of leader 2 names no successor"
    assert noted(made) == (Cause.RESTART, text, "follower")


def refused_fetch(node_id, error_code):
    made = core(node_id)
    ask(made, begin(2, 5), 0)
    answered(made, m.FetchResponse(error_code=error_code, leader_id=2, leader_epoch=5), 10)
    return made


@pytest.mark.parametrize("node_id", [1, 4])
def test_a_leader_that_refuses_a_fetch_has_resigned(node_id):
    made = refused_fetch(node_id, NOT_LEADER)
    text = "leader 2 refused a fetch: it leads no more"
    assert noted(made) == (Cause.RESIGNATION, text, "follower")
    assert refused_fetch(node_id, codes.FENCED_LEADER_EPOCH).leader_loss is None


def test_a_candidate_of_a_higher_epoch_was_first():
    made = follower()
    effects, _ = ask(made, vote(6, replica=3), 10)
    text = "voter 3 asked for a vote in epoch 6"
    assert told(effects) == (Cause.CANDIDACY, text, "follower")
    effects, _ = ask(follower(), vote(6, replica=3, pre=True), 10)
    assert told(effects)[1] == "voter 3 asked for a pre-vote in epoch 6"
    made = follower()
    ask(made, vote(5, replica=3), 10)
    assert made.leader_loss is None


def test_a_leader_that_meets_a_higher_epoch_is_fenced():
    made, now, _ = leader()
    effects, _ = ask(made, vote(2, replica=3), now)
    text = "voter 3 asked for a vote in epoch 2"
    assert told(effects) == (Cause.FENCED, text, "leader")
    made, now, _ = leader()
    effects, _ = ask(made, begin(2, 3), now)
    assert told(effects) == (Cause.FENCED, "a message of epoch 3, led by 2", "leader")


def test_check_quorum_says_how_long_nobody_fetched():
    made, now, _ = leader()
    made.step(ev.TimeAdvanced(), now + 2_999)
    assert isinstance(made.role, Leader)
    effects = made.step(ev.TimeAdvanced(), now + 3_010)
    text = "no majority fetched for 3010 ms"
    assert told(effects) == (Cause.CHECK_QUORUM, text, "leader")


@pytest.mark.parametrize(
    ("event", "cause", "evidence"),
    [
        (ev.DiskFull(), Cause.DISK_FULL, "the disk refused an append"),
        (ev.ShutdownRequested(), Cause.OPERATOR, "this node is asked to shut down"),
        (
            ev.ResignRequested(epoch=1),
            Cause.FAULT,
            "the controller of this node asked to resign",
        ),
    ],
)
def test_a_leader_that_is_asked_to_resign(event, cause, evidence):
    made, now, _ = leader()
    effects = made.step(event, now)
    assert isinstance(made.role, Resigned)
    assert told(effects) == (cause, evidence, "leader")


def test_a_restarted_leader_and_a_restarted_candidate_know_it():
    made = core(1, election_epoch=4, election_leader_id=1)
    assert noted(made) == (Cause.RESTART, "this node led epoch 4 before its restart", "resigned")
    made = core(1, election_epoch=4, election_voted_key=m.ReplicaKey(1))
    text = "this node was a candidate of epoch 4 before its restart"
    assert noted(made) == (Cause.NO_LEADER, text, "candidate")


def test_a_sole_voter_is_elected_without_a_wait():
    made = core(1, (1,))
    assert made.leader_loss is None
    made = core(1, (1,), election_epoch=4, election_leader_id=1)
    assert made.is_leader
    assert made.leader_loss is None


def test_a_majority_without_a_leader_starts_the_first_election():
    made = core(evidence=True)
    response = m.FetchResponse(error_code=NOT_LEADER, leader_epoch=0)
    answered(made, response, 2)
    text = "a majority of the voters knows no leader"
    assert noted(made) == (Cause.NO_LEADER, text, "unattached")


def test_the_first_sign_counts_and_the_new_leader_ends_the_loss():
    made = follower()
    ask(made, end(2, 5, (3, 1)), 100)
    ask(made, vote(6, replica=3), 130)
    effects, _ = ask(made, begin(3, 6), 140)
    (changed,) = effects.notify
    assert changed.leader == LeaderAndEpoch(3, 6)
    assert changed.loss.cause is Cause.RESIGNATION
    assert (changed.loss.lost_leader_id, changed.loss.lost_epoch) == (2, 5)
    assert changed.leaderless_ms == 40
    assert made.leader_loss is None


def test_a_leader_that_is_only_named_has_no_time_without_one():
    made = follower()
    effects, _ = ask(made, begin(3, 6), 140)
    (changed,) = effects.notify
    assert told(effects) == (Cause.ANNOUNCED, "a message of epoch 6, led by 3", "follower")
    assert (changed.loss.lost_leader_id, changed.loss.lost_epoch) == (2, 5)
    assert changed.loss.noticed_ms == 140
    assert changed.leaderless_ms is None


def test_an_answered_fetch_makes_the_loss_void():
    made = follower()
    made.step(ev.LeaderUnreachable(leader_id=2, epoch=5), 10)
    assert made.leader_loss is not None
    answered(made, m.FetchResponse(leader_id=2, leader_epoch=5, high_watermark=0), 20)
    assert made.leader_loss is None


def test_a_removed_leader_says_so():
    made = dynamic.leader(1, 2, 3)
    dynamic.propose(made, 2, 3)
    dynamic.flushed(made)
    dynamic.fetched(made, 2, 4)
    effects = dynamic.fetched(made, 3, 4)
    text = "the voters without this node are committed"
    assert told(effects) == (Cause.REMOVED, text, "leader")


def test_a_higher_epoch_without_a_leader_is_announced_before_its_leader():
    made = follower()
    response = m.FetchResponse(error_code=codes.FENCED_LEADER_EPOCH, leader_epoch=6)
    effects = answered(made, response, 10)
    assert told(effects) == (Cause.ANNOUNCED, "a message of epoch 6", "follower")
    effects, _ = ask(made, begin(3, 6), 30)
    (changed,) = effects.notify
    assert changed.leader == LeaderAndEpoch(3, 6)
    assert changed.loss.evidence == "a message of epoch 6"
    assert changed.leaderless_ms is None
    assert made.leader_loss is None


def test_the_leader_of_the_epoch_of_the_start_is_no_election():
    made = core(1, election_epoch=5)
    effects, _ = ask(made, begin(3, 5), 30)
    (changed,) = effects.notify
    assert changed == fx.LeaderChanged(leader=LeaderAndEpoch(3, 5))


def test_evidence_of_a_lost_candidacy_outlives_the_leader_that_won():
    made = core(evidence=True)
    answered(made, m.FetchResponse(error_code=NOT_LEADER, leader_epoch=0), 2)
    assert isinstance(made.role, Prospective)
    now = 3
    sent = made._state.request_manager._by_id[2]
    won = m.VoteResponse(leader_epoch=0, vote_granted=True)
    made.step(
        ev.ResponseReceived(destination_id=2, correlation_id=sent.correlation_id, response=won),
        now,
    )
    assert isinstance(made.role, Candidate)
    ask(made, begin(3, 1), now)
    assert isinstance(made.role, Prospective)
    assert noted(made)[:2] == (Cause.EVIDENCE, "evidence from before the leader was known")


def test_one_of_five_without_a_leader_is_no_sign():
    made = core(1, (1, 2, 3, 4, 5), evidence=True)
    answered(made, m.FetchResponse(error_code=NOT_LEADER, leader_epoch=0), 2)
    assert made.leader_loss is None
