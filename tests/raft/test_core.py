"""Behaviours of one core, after the scenarios of Kafka's own tests."""

import random

import msgspec
import pytest

from raft import effects as fx
from raft import error_codes as codes
from raft import events as ev
from raft import messages as m
from raft.config import RaftConfig
from raft.core import RaftCore
from raft.elections.epoch_messages import end_epoch_backoff_ms
from raft.quorum import VoteResult, VoteTally, majority, majority_offset
from raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from wire.types import Endpoint, OffsetAndEpoch, ReplicaKey

LISTENERS = (Endpoint("INSIDE", "here", 1), Endpoint("OUTSIDE", "proxy", 2))


def core(node_id=1, voters=(1, 2, 3), *, evidence=False, timing=None, **options):
    endpoints = tuple((i, Endpoint("CONTROLLER", f"n{i}", 9093)) for i in voters)
    config = RaftConfig(
        node_id=node_id, cluster_id="c", voters=endpoints, listeners=LISTENERS, evidence=evidence,
        **(timing or {}),
    )  # fmt: skip
    made = RaftCore(config, rng=random.Random(1), now_ms=0, **options)
    made.step(ev.TimeAdvanced(), 0)
    return made


def ask(target, request, now_ms=1):
    effects = target.step(ev.RequestReceived(reply_token=9, request=request), now_ms)
    answers = [e for e in effects.send if getattr(e, "reply_token", None) == 9]
    return effects, (answers[0].response if answers else None)


def vote(epoch, *, replica=2, pre=False, last_epoch=0, end=0, voter=None, cluster="c"):
    return m.VoteRequest(
        cluster_id=cluster, voter_id=voter, voter_directory_id=None, replica_id=replica,
        replica_directory_id=None, replica_epoch=epoch, last_epoch=last_epoch,
        last_end_offset=end, pre_vote=pre,
    )  # fmt: skip


def fetch(epoch, offset=0, last=0, *, replica=2, wait=500, hw=-1, cluster="c"):
    return m.FetchRequest(
        cluster_id=cluster, replica_id=replica, replica_directory_id=None,
        current_leader_epoch=epoch, fetch_offset=offset, last_fetched_epoch=last,
        max_wait_ms=wait, max_bytes=1000, high_watermark=hw,
    )  # fmt: skip


def begin(leader, epoch, voter=None):
    return m.BeginQuorumEpochRequest(
        cluster_id="c",
        voter_id=voter,
        voter_directory_id=None,
        leader_id=leader,
        leader_epoch=epoch,
    )


def end(leader, epoch, preferred):
    return m.EndQuorumEpochRequest(
        cluster_id="c",
        leader_id=leader,
        leader_epoch=epoch,
        preferred_candidates=tuple(map(ReplicaKey, preferred)),
    )


def follower(node_id=1, leader=2, epoch=5, **options):
    made = core(node_id, **options)
    ask(made, begin(leader, epoch), 0)
    assert isinstance(made.role, Follower)
    return made


def leader():
    """Node 1 of three leads epoch 1; LeaderChange at 0 is written and flushed."""
    made = core()
    now = made.next_deadline_ms()
    while not isinstance(made.role, Prospective):
        now = made.next_deadline_ms()
        effects = made.step(ev.TimeAdvanced(), now)
    for granted_epoch in (0, 1):
        request = next(e for e in effects.send if isinstance(e.request, m.VoteRequest))
        effects = made.step(
            ev.ResponseReceived(
                destination_id=request.destination_id, correlation_id=request.correlation_id,
                response=m.VoteResponse(leader_epoch=granted_epoch, vote_granted=True),
            ), now,
        )  # fmt: skip
    assert made.is_leader, made.role
    made.step(ev.Appended(end_offset=1, last_epoch=1, generation=0), now)
    made.step(ev.Flushed(end_offset=1, epoch=1, generation=0), now)
    return made, now, effects


def test_sole_voter_leads_without_messages_and_waits_for_its_own_flush():
    made = core(1, (1,))
    assert made.is_leader
    assert made.epoch == 1
    assert made.high_watermark is None
    made.step(ev.Appended(end_offset=1, last_epoch=1, generation=0), 1)
    assert made.high_watermark is None
    effects = made.step(ev.Flushed(end_offset=1, epoch=1, generation=0), 1)
    assert [type(e) for e in effects.notify] == [fx.HighWatermarkAdvanced, fx.Claimed]


def test_sole_voter_restarted_as_leader_leads_the_next_epoch():
    assert core(1, (1,), election_epoch=4, election_leader_id=1).epoch == 5


def test_restarted_leader_is_resigned_and_rejects_votes_of_its_epoch():
    made = core(1, election_epoch=4, election_leader_id=1)
    assert isinstance(made.role, Resigned)
    assert not ask(made, vote(4))[1].vote_granted
    effects, answer = ask(made, vote(5), 2)
    assert answer.vote_granted
    assert effects.persist == [fx.PersistElection(epoch=5, leader_id=None, voted_key=ReplicaKey(2))]


def test_restarted_candidate_rejects_others_in_its_epoch():
    made = core(1, election_epoch=4, election_voted_key=ReplicaKey(1))
    assert isinstance(made.role, Candidate)
    assert not ask(made, vote(4))[1].vote_granted


def test_log_epoch_above_stored_epoch_is_adopted():
    made = core(1, election_epoch=2, log_end_offset=3, epoch_entries=(ev.EpochStart(6, 0),))
    assert (made.epoch, type(made.role)) == (6, Unattached)


def test_candidate_leads_after_one_grant_of_two_and_starts_with_leader_change():
    _, _, effects = leader()
    kinds = [type(e) for e in effects.persist]
    assert kinds == [fx.PersistElection, fx.AppendLeaderChange]
    assert effects.persist[1].granting_voters[0] == 1


@pytest.mark.parametrize("same", [True, False])
def test_voted_replica_grants_only_the_same_candidate_again(same):
    made = core(1)
    assert ask(made, vote(3, replica=2))[1].vote_granted
    assert ask(made, vote(3, replica=2 if same else 3), 2)[1].vote_granted is same


def test_follower_rejects_standard_vote_and_names_its_leader():
    answer = ask(follower(), vote(5, replica=3))[1]
    assert (answer.vote_granted, answer.leader_id, answer.leader_epoch) == (False, 2, 5)
    assert answer.leader_endpoint.host == "n2"


def test_vote_of_older_epoch_is_fenced():
    assert ask(follower(), vote(4))[1].error_code == codes.FENCED_LEADER_EPOCH


def test_observer_grants_votes():
    assert ask(core(9), vote(1))[1].vote_granted


@pytest.mark.parametrize("last_epoch", [3, -1])
def test_impossible_vote_is_invalid(last_epoch):
    assert ask(core(), vote(3, last_epoch=last_epoch))[1].error_code == codes.INVALID_REQUEST


def test_wrong_voter_key_is_refused_but_the_epoch_adopted():
    made = core()
    assert ask(made, vote(8, voter=3))[1].error_code == codes.INVALID_VOTER_KEY
    assert made.epoch == 8


@pytest.mark.parametrize("request_", [vote(1, cluster="other"), fetch(1, cluster="other")])
def test_other_cluster_is_refused(request_):
    assert ask(core(), request_)[1].top_error_code == codes.INCONSISTENT_CLUSTER_ID


def test_log_behind_gets_no_vote():
    made = core(1, election_epoch=2, log_end_offset=3, epoch_entries=(ev.EpochStart(2, 0),))
    assert not ask(made, vote(3, last_epoch=2, end=2))[1].vote_granted


def test_pre_vote_is_granted_by_a_fresh_follower_and_not_persisted():
    effects, answer = ask(follower(), vote(5, replica=3, pre=True))
    assert answer.vote_granted
    assert effects.persist == []


def test_leader_ignores_votes_of_its_epoch():
    made, now, _ = leader()
    assert not ask(made, vote(1, pre=True), now)[1].vote_granted
    assert not ask(made, vote(1), now)[1].vote_granted
    assert made.is_leader


def test_follower_becomes_prospective_after_the_fetch_timeout():
    made = follower()
    made.step(ev.TimeAdvanced(), 2_000)
    assert isinstance(made.role, Prospective)
    assert made.leader.leader_id == 2


def test_observer_never_campaigns():
    made = core(9)
    made.step(ev.TimeAdvanced(), 100_000)
    assert isinstance(made.role, Unattached)


def test_evidence_starts_a_pre_vote_and_makes_a_follower_grant():
    made = follower(evidence=True)
    made.step(ev.LeaderUnreachable(leader_id=2, epoch=5), 10)
    made.step(ev.TimeAdvanced(), 10)
    assert isinstance(made.role, Prospective)


@pytest.mark.parametrize(("lost", "epoch"), [(3, 5), (2, 4)])
def test_stale_evidence_is_dropped(lost, epoch):
    made = follower(evidence=True)
    made.step(ev.LeaderUnreachable(leader_id=lost, epoch=epoch), 10)
    made.step(ev.TimeAdvanced(), 200)
    assert isinstance(made.role, Follower)


def test_evidence_about_an_older_epoch_wakes_nobody():
    made = follower(3, evidence=True)
    made.step(ev.LeaderUnreachable(leader_id=2, epoch=5), 10)
    evidence_due_ms = made.next_deadline_ms()
    assert evidence_due_ms == 10 + 50  # node 1 may stand before it
    ask(made, begin(1, 6), 20)
    assert made.role.fetch_deadline_ms > evidence_due_ms
    made.step(ev.TimeAdvanced(), evidence_due_ms)
    assert made.next_deadline_ms() > evidence_due_ms
    assert isinstance(made.role, Follower)


def test_new_leader_sends_begin_quorum_epoch_at_once():
    effects = leader()[2]
    sent = [e for e in effects.send if isinstance(e.request, m.BeginQuorumEpochRequest)]
    assert [e.destination_id for e in sent] == [2, 3]


def test_a_leader_names_its_own_listeners_and_a_follower_the_voters_endpoint():
    made, now, effects = leader()
    sent = [e for e in effects.send if isinstance(e.request, m.BeginQuorumEpochRequest)]
    assert [e.request.leader_endpoints for e in sent] == [LISTENERS, LISTENERS]
    _, answer = ask(made, vote(1, pre=True), now)
    assert (answer.leader_id, answer.leader_endpoint) == (1, Endpoint("", "here", 1))
    _, answer = ask(follower(), vote(5, replica=3, pre=True))
    assert (answer.leader_id, answer.leader_endpoint) == (2, Endpoint("", "n2", 9093))


def test_leader_without_fetches_resigns():
    made, now, _ = leader()
    made.step(ev.TimeAdvanced(), now + 3_000)
    assert isinstance(made.role, Resigned)


def test_a_majority_that_fetches_keeps_a_leader():
    made, now, _ = leader()
    ask(made, fetch(1, 1, 1, replica=2), now + 2_500)
    made.step(ev.TimeAdvanced(), now + 3_000)
    assert isinstance(made.role, Leader)
    assert made.role.check_quorum_deadline_ms == now + 2_500 + 3_000


@pytest.mark.parametrize(("error", "pauses"), [(codes.NONE, False), (codes.INVALID_REQUEST, True)])
def test_only_a_useful_answer_to_begin_quorum_epoch_spares_the_pause(error, pauses):
    made, now, effects = leader()
    begun = next(e for e in effects.send if isinstance(e.request, m.BeginQuorumEpochRequest))
    response = m.BeginQuorumEpochResponse(error_code=error, leader_id=1, leader_epoch=1)
    made.step(
        ev.ResponseReceived(
            destination_id=begun.destination_id, correlation_id=begun.correlation_id,
            response=response,
        ), now,
    )  # fmt: skip
    ready_ms = made._state.request_manager.ready_at(begun.destination_id, now)
    assert (ready_ms > now) is pauses


def test_nobody_follows_who_is_no_voter():
    made = core()
    ask(made, vote(5))
    before = made.role
    for leader_id in (9, 1):  # 1 is itself
        made._state.observe(leader_id, 5)
        assert made.role is before
    made._state.observe(3, 5)
    assert isinstance(made.role, Follower)


def test_first_successor_campaigns_at_once_and_second_waits():
    first, second = follower(), follower()
    ask(first, end(2, 5, (1, 3)), 10)
    assert isinstance(first.role, Prospective)
    ask(second, end(2, 5, (3, 1)), 10)
    assert isinstance(second.role, Follower)
    assert second.role.fetch_deadline_ms == 10 + 500


def test_end_quorum_epoch_of_older_epoch_is_fenced():
    assert ask(follower(), end(2, 4, ()))[1].error_code == codes.FENCED_LEADER_EPOCH


def test_end_epoch_backoff():
    assert [end_epoch_backoff_ms(p, 3, 1000) for p in (0, 1, 2, None)] == [0, 250, 500, 1000]


def test_resigning_answers_parked_fetches_and_orders_successors():
    made, now, _ = leader()
    ask(made, fetch(1, 1, 1, replica=3), now)
    effects = made.step(ev.ShutdownRequested(), now)
    refused = [e for e in effects.send if isinstance(e, fx.SendResponse)]
    assert [e.response.error_code for e in refused] == [codes.NOT_LEADER_OR_FOLLOWER] * len(refused)
    assert made.role.preferred_candidates == (ReplicaKey(3), ReplicaKey(2))
    assert [type(e) for e in effects.notify] == [fx.LeaderChanged]


def test_follower_shuts_down_at_once():
    effects = follower().step(ev.ShutdownRequested(), 5)
    assert fx.ShutdownComplete() in effects.notify


def test_a_resigned_leader_without_a_quorum_is_done_at_once():
    made, now, _ = leader()
    made.step(ev.ShutdownRequested(), now)
    assert made.step(ev.QuorumGone(), now).notify == [fx.ShutdownComplete()]


def test_who_does_not_shut_down_goes_on_without_a_quorum():
    made, now, _ = leader()
    assert made.step(ev.QuorumGone(), now).notify == []
    assert made.is_leader


def test_resign_of_older_epoch_is_ignored():
    made, now, _ = leader()
    made.step(ev.ResignRequested(epoch=0), now)
    assert made.is_leader


def test_propose_assigns_offsets_at_once_and_is_refused_in_another_epoch():
    made, now, _ = leader()
    first = made.step(ev.Propose(epoch=1, values=(b"a", b"b")), now).persist
    second = made.step(ev.Propose(epoch=1, values=(b"c",)), now).persist
    assert (first[0].base_offset, second[0].base_offset, made.log_end_offset) == (1, 3, 4)
    assert made.step(ev.Propose(epoch=2, values=(b"c",)), now).persist == []


def test_fetch_acknowledges_and_commits_only_what_the_leader_flushed():
    made, now, _ = leader()
    ask(made, fetch(1, 1, 1), now)
    assert made.high_watermark == 1
    made.step(ev.Propose(epoch=1, values=(b"a",)), now)
    released = made.step(ev.Appended(end_offset=2, last_epoch=1, generation=0), now)
    ask(made, fetch(1, 2, 1, hw=1), now)
    assert made.high_watermark == 1
    effects = made.step(ev.Flushed(end_offset=2, epoch=1, generation=0), now)
    assert made.high_watermark == 2
    assert effects.send[0].response.high_watermark == 2
    assert released.send == []


def test_parked_fetch_is_released_by_a_write_before_the_flush():
    made, now, _ = leader()
    ask(made, fetch(1, 1, 1, hw=1), now)
    made.step(ev.Propose(epoch=1, values=(b"a",)), now)
    effects = made.step(ev.Appended(end_offset=2, last_epoch=1, generation=0), now)
    assert [type(e) for e in effects.send] == [fx.ReadAndSendFetch]


def test_parked_fetch_gets_an_empty_answer_after_its_wait():
    made, now, _ = leader()
    ask(made, fetch(1, 1, 1, hw=1), now)
    effects = made.step(ev.TimeAdvanced(), now + 500)
    assert any(isinstance(e, fx.SendResponse) and e.response.records == b"" for e in effects.send)


def test_divergence_is_answered_at_once():
    made, now, _ = leader()
    assert ask(made, fetch(1, 7, 1), now)[1].diverging_epoch == OffsetAndEpoch(1, 1)


@pytest.mark.parametrize(
    ("epoch", "code"), [(0, codes.FENCED_LEADER_EPOCH), (2, codes.UNKNOWN_LEADER_EPOCH)]
)
def test_fetch_epoch_is_validated_without_transition(epoch, code):
    made, now, _ = leader()
    assert ask(made, fetch(epoch), now)[1].error_code == code
    assert made.is_leader


def test_anonymous_fetch_is_served_and_not_tracked():
    made, now, _ = leader()
    _, answer = ask(made, fetch(1, replica=None), now)
    assert answer.error_code == 0
    assert ask(made, m.DescribeQuorumRequest(), now)[1].observers == ()
    assert made.observer_count == 0


def test_an_observer_that_fetches_is_counted_by_the_leader_alone():
    made, now, _ = leader()
    ask(made, fetch(1, replica=9), now)
    assert made.observer_count == 1
    made.step(ev.ResignRequested(epoch=1), now)
    assert made.observer_count is None


def fetched(made, now, **fields):
    sent = next(
        e for e in made.step(ev.TimeAdvanced(), now).send if isinstance(e.request, m.FetchRequest)
    )
    return sent, fields


def test_follower_fetches_again_only_after_its_flush():
    made = core(1)
    effects, _ = ask(made, begin(2, 5), 0)
    sent = next(e for e in effects.send if isinstance(e, fx.SendRequest))
    answer = m.FetchResponse(leader_id=2, leader_epoch=5, high_watermark=1, records=b"r")
    reply = ev.ResponseReceived(
        destination_id=2, correlation_id=sent.correlation_id, response=answer
    )
    assert [type(e) for e in made.step(reply, 1).persist] == [fx.AppendFetched]
    written = ev.Appended(end_offset=2, last_epoch=5, generation=0, epochs=(ev.EpochStart(5, 0),))
    assert made.step(written, 1).send == []
    assert made.high_watermark == 1
    again = made.step(ev.Flushed(end_offset=2, epoch=5, generation=0), 2).send
    assert again[0].request.fetch_offset == 2
    late = msgspec.structs.replace(reply)
    assert made.step(late, 3).persist == []


def test_majority_maths():
    assert [majority(n) for n in (1, 2, 3, 4, 5)] == [1, 2, 2, 3, 3]
    assert majority_offset([3, 3, None]) == 3
    assert majority_offset([3, None, None]) is None
    tally = VoteTally(frozenset(map(ReplicaKey, (1, 2, 3))), frozenset({ReplicaKey(1)}))
    assert tally.result is VoteResult.UNDECIDED
    assert tally.record(ReplicaKey(2), granted=True).result is VoteResult.WON
    assert (
        tally.record(ReplicaKey(2), granted=False).record(ReplicaKey(3), granted=False).result
        is VoteResult.LOST
    )
    assert isinstance(leader()[0].role, Leader)


def test_retention_may_move_the_log_start_before_any_leader_is_heard():
    """A snapshot that was there at the start is committed, whatever high watermark is known."""
    kept = core(
        log_end_offset=9,
        epoch_entries=(ev.EpochStart(1, 0),),
        earliest_snapshot=OffsetAndEpoch(4, 1),
        latest_snapshot=OffsetAndEpoch(7, 1),
    )
    assert kept.high_watermark is None
    kept.step(ev.SnapshotAdded(snapshot_id=OffsetAndEpoch(7, 1), log_start_offset=7), 1)
    assert kept.log_start_offset == 7
    with pytest.raises(AssertionError):
        kept.step(ev.SnapshotAdded(snapshot_id=OffsetAndEpoch(8, 1), log_start_offset=7), 2)


@pytest.mark.parametrize("pre", [False, True])
def test_an_epoch_that_leaves_no_room_for_elections_is_refused(pre):
    target = core()
    for request in (vote(2**31 - 1, pre=pre), begin(2, 2**31 - 2)):
        _, answer = ask(target, request)
        assert answer.error_code == codes.INVALID_REQUEST
    assert target.epoch < 10


def test_who_shuts_down_votes_and_stands_no_more():
    made = core(1, election_epoch=4, election_leader_id=1)
    made.step(ev.ShutdownRequested(), 1)
    _, answer = ask(made, vote(6, replica=2), 2)
    assert answer.vote_granted
    now_ms = 2
    while (deadline_ms := made.next_deadline_ms()) is not None and deadline_ms < 60_000:
        assert deadline_ms > now_ms or made.next_deadline_ms() is None
        now_ms = deadline_ms
        effects = made.step(ev.TimeAdvanced(), now_ms)
        assert not isinstance(made.role, Prospective | Candidate | Leader), made.role
        if any(isinstance(e, fx.ShutdownComplete) for e in effects.notify):
            return
    raise AssertionError(f"it never ended: {made.role}")


def test_a_high_watermark_beyond_the_log_is_refused_with_the_offsets_of_the_log():
    state = core()._state
    with pytest.raises(AssertionError, match=r"high_watermark=1 LogView\(start=0 .* end=0 "):
        state.advance_high_watermark(1)
