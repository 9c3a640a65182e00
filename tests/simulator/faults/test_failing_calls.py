"""Calls that fail: the node ends as in production, and only a fault explains it."""

import pytest

from simulator.campaign.draw import Options
from simulator.campaign.run import run_seed
from simulator.checks.violation import Violation
from simulator.faults.decision import Decision
from simulator.faults.failing_calls import (
    READ_ERROR,
    WITHOUT_MEMORY,
    fail_allocation,
    fail_read,
)
from storage.errors import CorruptFileError
from tests.selection import thinned
from tests.simulator.worlds import follower, leader, observer, quiet_world

SECOND_US = 1_000_000


@pytest.fixture
def world():
    return quiet_world()


def strike(world, machine, amount, length_us=SECOND_US, kind="out_of_memory"):
    decision = Decision(
        at_us=world.scheduler.now_us,
        kind=kind,
        targets=(machine.id,),
        length_us=length_us,
        amount=amount,
    )
    world.nemesis._fire(decision)


@pytest.mark.parametrize("amount", thinned([1, 2, 7, 8], every=2))
def test_a_node_without_memory_ends_and_comes_back(world, amount):
    machine = follower(world)
    before = machine.incarnation
    strike(world, machine, amount)
    world.run(world.scheduler.now_us + 2 * SECOND_US)
    assert world.probes.counts[WITHOUT_MEMORY] == 1
    assert machine.incarnation == before + 2
    world.run(world.scheduler.now_us + 2 * SECOND_US)
    assert machine.kernel.core.leader == leader(world).kernel.core.leader


def test_no_allocation_fails_when_the_fault_is_over(world):
    machine = follower(world)
    strike(world, machine, 30, length_us=1)
    world.run(world.scheduler.now_us + 5 * SECOND_US)
    assert machine.is_up
    strike(world, machine, 30)
    world.nemesis.stop()
    world.run(world.scheduler.now_us + 5 * SECOND_US)
    assert world.probes.counts[WITHOUT_MEMORY] == 0


@pytest.mark.parametrize("countdown", thinned(range(1, 5), every=2))
def test_it_fails_once_and_every_second_time_behind_the_buffer(world, countdown):
    log, hits = leader(world).kernel.log, []
    fail_allocation(leader(world).kernel, countdown, lambda: True, hits.append)
    for _ in range(1, countdown):
        assert log.read(0, 1)
    with pytest.raises(MemoryError, match="injected into read"):
        log.read(0, 1)
    assert log.read(0, 1)
    assert hits == [WITHOUT_MEMORY]


@pytest.mark.parametrize("fail", [fail_allocation, fail_read])
def test_the_invariants_read_the_log_all_the_same(world, fail):
    machine, hits = leader(world), []
    fail(machine.kernel, 1, lambda: True, hits.append)
    entry = world.invariants.ledger.entries[-1]
    assert len(world.invariants._stored(machine, entry)) > 60
    assert hits == []


@pytest.mark.parametrize("countdown", [1, 2])
def test_a_read_fails_once(world, countdown):
    log, hits = leader(world).kernel.log, []
    fail_read(leader(world).kernel, countdown, lambda: True, hits.append)
    for _ in range(1, countdown):
        assert log.read(0, 1)
    with pytest.raises(OSError, match="injected into read"):
        log.read(0, 1)
    assert log.read(0, 1)
    assert hits == [READ_ERROR]


def test_a_node_that_cannot_read_its_log_ends_and_comes_back(world):
    machine = leader(world)
    strike(world, machine, 0, 4 * SECOND_US, kind="read_error")
    world.run(world.scheduler.now_us + 5 * SECOND_US)
    assert world.probes.counts[READ_ERROR] == 1
    assert machine.is_up


def test_i20_a_node_that_runs_out_of_memory_by_itself(world):
    def hungry(*_args):
        raise MemoryError("5 TiB asked for")

    machine = leader(world)
    machine.kernel.connections.received = hungry
    with pytest.raises(Violation, match=r"I20: .* stopped: 5 TiB asked for"):
        world.run(world.scheduler.now_us + 10 * SECOND_US)


@pytest.mark.parametrize(
    "error", [CorruptFileError("/data/a-0", "of another topic"), MemoryError()]
)
def test_an_error_of_folder_work_is_told_and_does_not_end_the_node(world, error):
    machine = observer(world)

    def work():
        raise error

    machine.kernel.folders._run(work)
    world.run(world.scheduler.now_us + SECOND_US)
    assert machine.is_up
    assert [log.event for _, log in machine.logs].count("local_changes_failed") == 1


@pytest.mark.parametrize("seed", thinned([4, 7], every=2))
def test_seeds_with_nothing_but_failing_calls_hold(seed):
    faults = ("out_of_memory", "read_error")
    options = Options(faults=faults, duration_us=6_000_000, write_count=20)
    outcome = run_seed(seed, options)
    assert outcome.invariant is None, outcome.text
    assert outcome.marks[WITHOUT_MEMORY] + outcome.marks[READ_ERROR] > 0
