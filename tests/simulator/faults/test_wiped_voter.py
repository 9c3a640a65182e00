"""A voter that comes back with an empty disk: still a voter, but one that elects no shorter log."""

import pytest

from simulator.campaign.draw import Options
from simulator.campaign.run import prepare, run_seed
from simulator.checks.liveness.liveness import draw_core
from simulator.checks.raft.wiped_voters import UNPROVEN, is_unproven, remembers
from simulator.cluster.memory_vfs import MemoryVfs
from tests.selection import thinned
from tests.simulator.worlds import (
    SECOND_US,
    follower,
    leader,
    observer,
    quiet_world,
    run_on,
    strike,
)

ONLY = Options(node_count=3, faults=("wiped_voter",), duration_us=4_000_000, write_count=15)


@pytest.fixture
def world():
    return quiet_world()


def test_it_is_the_same_voter_and_is_proven_when_it_has_caught_up(world):
    machine = follower(world)
    before, end_offset = machine.directory_id, machine.kernel.log.end_offset
    strike(world, "wiped_voter", machine, length_us=1_000)
    assert not machine.is_up
    assert is_unproven(machine.vfs)
    assert not remembers(machine.vfs)
    assert world.invariants._wiped.now() == {machine.id}
    run_on(world, SECOND_US)
    assert machine.directory_id != before
    assert machine.kernel.core.is_voter
    assert machine.kernel.log.end_offset >= end_offset
    assert not machine.vfs.exists(UNPROVEN)
    assert remembers(machine.vfs)
    assert world.invariants._wiped.now() == set()
    assert world.probes.counts["voter_wiped"] == world.probes.counts["wiped_voter_proven"] == 1


def test_only_while_a_majority_of_the_others_remembers(world):
    first, second = follower(world), leader(world)
    strike(world, "wiped_voter", first, length_us=60 * SECOND_US)
    strike(world, "wiped_voter", second, length_us=1_000)
    assert second.is_up
    assert world.nemesis.struck == {"wiped_voter": 1}
    strike(world, "wiped_voter", observer(world), length_us=1_000)
    assert world.nemesis.struck == {"wiped_voter": 1}


@pytest.mark.parametrize(
    ("name", "is_kept"), [("quorum-state", False), ("00000000000000000000.log", False), ("x", True)]
)
def test_what_a_voter_remembers_by(world, name, is_kept):
    vfs = follower(world).vfs
    assert remembers(vfs)
    if name != "x":
        vfs.unlink(f"/data/__cluster_metadata-0/{name}")
    assert remembers(vfs) is is_kept
    assert not remembers(MemoryVfs())


def test_a_core_of_a_majority_has_proven_voters_first(world):
    wiped = follower(world)
    strike(world, "wiped_voter", wiped, length_us=60 * SECOND_US)
    cores = [draw_core(world, world.streams.stream("rest")) for _ in range(20)]
    smallest = [core for core in cores if len(set(core) & world.voters) == 2]
    assert smallest
    assert not any(wiped.id in core for core in smallest)


def test_only_voters_are_drawn():
    for seed in range(20):
        settings, _, plan = prepare(seed, Options(faults=("wiped_voter",)))
        assert all(target <= settings.voter_count for each in plan for target in each.targets)


@pytest.mark.parametrize("seed", thinned([1, 3, 5], every=2))
def test_seeds_with_nothing_but_wiped_voters_hold(seed):
    outcome = run_seed(seed, ONLY)
    assert outcome.invariant is None, outcome.text
    assert outcome.marks["wiped_voter_proven"] > 0
