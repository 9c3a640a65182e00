"""Checks of votes beyond two logs: dead candidates, recorded leaders, pre-votes."""

import pytest

from kernel import events
from raft.events import LeaderUnreachable, RequestReceived, TimeAdvanced
from raft.messages import EndQuorumEpochRequest, VoteRequest
from raft.quorum import VoteTally
from raft.roles import Candidate, Follower, Prospective, Resigned, Unattached
from simulator.checks.violation import Violation
from tests.simulator.worlds import (
    append,
    broken,
    follower,
    leader,
    look,
    quiet_world,
    state_of,
    store,
)
from wire.types import NodeId, ReplicaKey


@pytest.fixture
def world():
    return quiet_world()


def campaign(world, machine, epoch):
    """Candidate behind everybody's back; what the others know of it stays."""
    voted = ReplicaKey(machine.id, None)
    store(machine, epoch, voted_id=machine.id)
    state_of(machine).role = Candidate(
        epoch=epoch,
        voted_key=voted,
        votes=VoteTally(
            frozenset(map(ReplicaKey, world.voters)), frozenset({ReplicaKey(machine.id)})
        ),
        election_deadline_ms=10**9,
    )
    return voted


def third(world, second):
    """The voter that is neither this one nor the leader."""
    ids = (second.id, leader(world).id)
    return next(world.machines[number] for number in world.voters if number not in ids)


def vote(machine, epoch, candidate_id):
    store(machine, epoch, voted_id=candidate_id)
    voted = ReplicaKey(candidate_id, None)
    state_of(machine).role = Unattached(epoch=epoch, voted_key=voted, election_deadline_ms=10**9)


@pytest.mark.parametrize("is_longer", [True, False])
def test_i4_a_vote_for_a_candidate_that_is_down_by_now(world, is_longer):
    candidate = follower(world)
    voter = leader(world) if is_longer else third(world, candidate)
    if is_longer:
        append(voter, voter.kernel.core.epoch)
        look(world, voter)
    campaign(world, candidate, 9)
    look(world, candidate)
    candidate.kill()
    vote(voter, 9, candidate.id)
    if is_longer:
        assert f"votes for {candidate.id}" in broken(world, voter, "I4")
    else:
        look(world, voter)


def lead_by(machine, epoch, leader_id):
    store(machine, epoch, leader_id=leader_id)
    state_of(machine).role = Follower(epoch=epoch, leader_id=leader_id, fetch_deadline_ms=10**9)


def test_i4_a_vote_where_the_leader_is_recorded(world):
    machine, led = follower(world), leader(world).id
    lead_by(machine, 9, led)
    look(world, machine)
    vote(machine, 9, third(world, machine).id)
    assert f"recorded {led} as leader of epoch 9, then votes for" in broken(world, machine, "I4")


def test_i4_who_voted_and_heard_of_the_leader_still_has_its_vote(world):
    machine, led = follower(world), leader(world).id
    vote(machine, 9, led)
    look(world, machine)
    store(machine, 9, led, led)
    state_of(machine).role = Follower(
        epoch=9, leader_id=led, voted_key=ReplicaKey(led, None), fetch_deadline_ms=10**9
    )
    look(world, machine)


def test_i4_a_leader_that_is_not_on_the_disk(world):
    machine, led = follower(world), leader(world).id
    lead_by(machine, 9, led)
    store(machine, 9)
    assert f"knows the leader {led}, the disk says -1" in broken(world, machine, "I4")


def test_i4_what_an_older_file_forgot_is_not_held_against_the_node(world):
    machine, led = follower(world), leader(world).id
    lead_by(machine, 9, led)
    look(world, machine)
    machine.kill()
    store(machine, 9)
    world.restart(machine)
    vote(machine, 9, led)
    look(world, machine)


def pre_vote(epoch, end_offset=10**6, last_epoch=None):
    return VoteRequest(
        cluster_id=None,
        voter_id=None,
        voter_directory_id=None,
        replica_id=NodeId(1),
        replica_directory_id=None,
        replica_epoch=epoch,
        last_epoch=epoch - 1 if last_epoch is None else last_epoch,
        last_end_offset=end_offset,
        pre_vote=True,
    )


def steps_to(world, machine, event, now_ms, invariant="I3"):
    machine.kernel.core.step(event, now_ms)
    with pytest.raises(Violation, match=f"^{invariant}: node {machine.id}: ") as caught:
        world.after_step(machine, events.TimeAdvanced(), [])
    return str(caught.value)


@pytest.mark.parametrize("later", [0, 1])
def test_i3_an_answer_to_a_pre_vote_that_records_a_vote(world, monkeypatch, later):
    machine = follower(world)
    epoch = machine.kernel.core.epoch + later

    def record(state, *, is_up_to_date):
        voted = ReplicaKey(NodeId(1), None)
        state.become(Unattached(epoch=epoch, voted_key=voted, election_deadline_ms=10**9))
        return is_up_to_date

    state_of(machine).role = Unattached(epoch=epoch - later, election_deadline_ms=10**9)
    monkeypatch.setattr("raft.elections.vote._grant_pre_vote", record)
    request = RequestReceived(reply_token=1, request=pre_vote(epoch))
    text = steps_to(world, machine, request, machine.now().monotonic_ms)
    assert "it answered" in text


def test_i3_who_asks_for_pre_votes_stays_in_its_epoch(world, monkeypatch):
    machine = follower(world)

    def bump(state):
        epoch = state.role.epoch + 1
        votes = VoteTally(
            frozenset(map(ReplicaKey, world.voters)), frozenset({ReplicaKey(machine.id)})
        )
        state.become(Unattached(epoch=epoch, election_deadline_ms=10**9))
        state.become(Prospective(epoch=epoch, votes=votes, election_deadline_ms=10**9))

    monkeypatch.setattr("raft.poll.become_prospective", bump)
    text = steps_to(world, machine, TimeAdvanced(), 10**8)
    assert "it asks for pre-votes" in text


@pytest.mark.parametrize("is_due", [True, False])
def test_who_resigned_answers_a_pre_vote_when_its_time_is_over(world, is_due):
    machine = follower(world)
    now_ms = machine.now().monotonic_ms
    core = machine.kernel.core
    epoch = core.epoch
    resigned = Resigned(
        epoch=epoch, leader_id=NodeId(machine.id), preferred_candidates=(), unacknowledged=set(),
        tried=set(), election_deadline_ms=now_ms if is_due else now_ms + 1,
    )  # fmt: skip
    state_of(machine).role = resigned
    core.step(RequestReceived(reply_token=1, request=pre_vote(epoch)), now_ms)
    assert (core.epoch > epoch) == is_due
    assert world._tap.broken is None


def test_i3_who_resigned_leaves_its_epoch_for_a_pre_vote(world, monkeypatch):
    machine = follower(world)
    now_ms = machine.now().monotonic_ms
    epoch = machine.kernel.core.epoch

    def leave(state, *, is_up_to_date):
        state.become_unattached(epoch + 1)
        return is_up_to_date

    state_of(machine).role = Resigned(
        epoch=epoch, leader_id=NodeId(machine.id), preferred_candidates=(), unacknowledged=set(),
        tried=set(), election_deadline_ms=now_ms + 1_000,
    )  # fmt: skip
    monkeypatch.setattr("raft.elections.vote._grant_pre_vote", leave)
    request = RequestReceived(reply_token=1, request=pre_vote(epoch))
    assert "it answered" in steps_to(world, machine, request, now_ms)


def grants_all(monkeypatch):
    monkeypatch.setattr("raft.elections.vote._grant_pre_vote", lambda state, *, is_up_to_date: True)


def test_i4_a_pre_vote_for_a_worse_log(world, monkeypatch):
    machine = follower(world)
    grants_all(monkeypatch)
    epoch = machine.kernel.core.epoch
    request = RequestReceived(reply_token=1, request=pre_vote(epoch + 1, end_offset=0))
    text = steps_to(world, machine, request, machine.now().monotonic_ms, "I4")
    assert "it grants a pre-vote to 1, which has" in text


def test_i4_a_pre_vote_of_who_hears_its_leader(world, monkeypatch):
    machine = follower(world)
    epoch = machine.kernel.core.epoch
    request = RequestReceived(reply_token=1, request=pre_vote(epoch, last_epoch=epoch))
    machine.kernel.core.step(request, machine.now().monotonic_ms)
    assert world._tap.broken is None, "refused"
    grants_all(monkeypatch)
    text = steps_to(world, machine, request, machine.now().monotonic_ms, "I4")
    assert f"it grants a pre-vote to 1 and fetches from {leader(world).id}" in text


def test_i4_a_pre_vote_of_who_leads(world, monkeypatch):
    machine = leader(world)
    grants_all(monkeypatch)
    epoch = machine.kernel.core.epoch
    request = RequestReceived(reply_token=1, request=pre_vote(epoch, last_epoch=epoch))
    text = steps_to(world, machine, request, machine.now().monotonic_ms, "I4")
    assert "it grants a pre-vote to 1 and leads epoch" in text


def events_of_a_lost_leader(machine):
    core = machine.kernel.core
    led = core.role.leader_id
    yield LeaderUnreachable(leader_id=led, epoch=core.epoch)
    yield RequestReceived(
        reply_token=7,
        request=EndQuorumEpochRequest(
            cluster_id=None, leader_id=led, leader_epoch=core.epoch, preferred_candidates=()
        ),
    )


@pytest.mark.parametrize("number", [0, 1])
def test_a_follower_that_lost_its_leader_may_grant_a_pre_vote(world, number):
    machine = follower(world)
    core, now_ms = machine.kernel.core, machine.now().monotonic_ms
    epoch = core.epoch
    core.step(list(events_of_a_lost_leader(machine))[number], now_ms)
    effects = core.step(
        RequestReceived(reply_token=1, request=pre_vote(epoch, last_epoch=epoch)), now_ms
    )
    answers = [effect for effect in effects.send if getattr(effect, "reply_token", None) == 1]
    assert answers[0].response.vote_granted
    assert world._tap.broken is None


@pytest.mark.parametrize(
    ("epoch", "leader_id", "voted_id", "begins"),
    [
        (9, None, None, "Unattached"),
        (9, 2, None, "Follower"),
        (9, 2, 3, "Follower"),
        (9, None, 3, "Unattached"),
        (9, None, 1, "Candidate"),
        (9, 2, 1, "Follower"),
        (9, 1, None, "Resigned"),
        (0, None, None, "Unattached"),
    ],
)
def test_i16_a_process_begins_as_its_disk_says(world, epoch, leader_id, voted_id, begins):
    machine = world.machines[1]
    machine.kill()
    store(machine, epoch, leader_id, voted_id)
    seen = []
    created = world.invariants.created

    def noted(started):
        seen.append(started.kernel.core.role)
        created(started)

    world.invariants.created = noted
    world.invariants._past[1].highest_epoch = 0
    machine.start()
    (role,) = seen
    assert type(role).__name__ == begins
    assert role.epoch == max(epoch, 1), "the log is of epoch 1"


@pytest.mark.parametrize("lost", ["leader", "vote"])
def test_i16_a_process_that_forgets(world, monkeypatch, lost):
    machine = world.machines[1]
    machine.kill()
    is_leader = lost == "leader"
    store(machine, 9, 2 if is_leader else None, None if is_leader else 1)
    monkeypatch.setattr(
        "raft.core.initial_role", lambda *_: Unattached(epoch=9, election_deadline_ms=10**9)
    )
    with pytest.raises(Violation, match=r"^I16: node 1: it begins as") as caught:
        machine.start()
    expected = "('Follower', 9, 2, -1)" if is_leader else "('Candidate', 9, -1, 1)"
    assert str(caught.value).endswith(f"expected {expected}")
