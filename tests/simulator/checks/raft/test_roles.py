"""The simulator's own table of role changes, and votes that a restart keeps."""

import pytest

from raft.events import TimeAdvanced
from raft.quorum import VoteTally
from raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from simulator.checks.raft.roles import wrong_change
from simulator.checks.violation import Violation
from tests.simulator.worlds import follower, leader, quiet_world, state_of, store
from wire.types import ReplicaKey

FAR = 10**9
TALLY = VoteTally(frozenset(map(ReplicaKey, (1, 2, 3))), frozenset({ReplicaKey(1)}))


def unattached(epoch, leader_id=None, voted=None):
    return Unattached(epoch=epoch, leader_id=leader_id, voted_key=voted, election_deadline_ms=FAR)


def prospective(epoch, voted=None):
    return Prospective(epoch=epoch, voted_key=voted, votes=TALLY, election_deadline_ms=FAR)


def candidate(epoch):
    return Candidate(
        epoch=epoch, voted_key=ReplicaKey(1, None), votes=TALLY, election_deadline_ms=FAR
    )


def follower_of(leader_id, epoch):
    return Follower(epoch=epoch, leader_id=leader_id, fetch_deadline_ms=FAR)


def leading(epoch):
    return Leader(
        epoch=epoch,
        leader_id=1,
        epoch_start_offset=0,
        check_quorum_deadline_ms=FAR,
        progress={},
        observers={},
        fetched_voters=set(),
    )


def resigned(epoch):
    return Resigned(
        epoch=epoch,
        leader_id=1,
        preferred_candidates=(),
        unacknowledged=set(),
        tried=set(),
        election_deadline_ms=FAR,
    )


VOTE = ReplicaKey(2, None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (unattached(3), prospective(3)),
        (prospective(3), candidate(4)),
        (candidate(4), leading(4)),
        (leading(4), resigned(4)),
        (leading(4), follower_of(2, 5)),
        (resigned(4), unattached(5)),
        (unattached(3, voted=VOTE), prospective(3, voted=VOTE)),
    ],
)
def test_what_may_be(before, after):
    assert wrong_change(before, after, is_sole=False) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (leading(4), follower_of(2, 4)),
        (leading(4), unattached(4, leader_id=1)),
        (resigned(4), leading(4)),
        (resigned(4), prospective(4)),
        (follower_of(2, 4), leading(4)),
        (follower_of(2, 4), follower_of(3, 4)),
        (follower_of(2, 4), candidate(5)),
        (unattached(3), candidate(4)),
        (prospective(3), candidate(5)),
        (prospective(3), leading(4)),
        (follower_of(2, 4), unattached(3)),
        (follower_of(2, 4), unattached(4)),
        (unattached(3, voted=VOTE), prospective(3)),
    ],
)
def test_what_may_not_be(before, after):
    assert wrong_change(before, after, is_sole=False) is not None


def test_a_sole_voter_stands_and_wins_in_one_step():
    assert wrong_change(resigned(4), leading(5), is_sole=True) is None
    assert wrong_change(resigned(4), leading(4), is_sole=True) is not None


def test_i16_a_step_of_a_core_that_is_not_in_the_table():
    world = quiet_world()
    machine, second = leader(world), follower(world).id
    core = machine.kernel.core

    def step(event, now_ms):
        effects = type(core).step(core, event, now_ms)
        core._state.role = follower_of(second, core.epoch)
        return effects

    core.step = step
    world._tap.attach(machine.id, core)
    core.step(TimeAdvanced(), machine.now().monotonic_ms)
    with pytest.raises(Violation, match=r"I16: node .*was Leader .* is Follower"):
        world.after_step(machine, None, [])


def test_i3_a_vote_that_a_restart_forgets():
    world = quiet_world()
    machine, led = follower(world), leader(world).id
    core = machine.kernel.core
    store(machine, 9, voted_id=led)
    for role, lost in ((unattached(9, voted=ReplicaKey(led, None)), None), (unattached(9), led)):
        world.invariants.starting(machine)
        state_of(machine).role = role
        said = world.invariants._vote_checks.started(machine, core)
        assert said == (lost and f"it had voted for {lost}, restarted for None")
