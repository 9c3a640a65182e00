"""Restart storms, crashes of a start, kills between two operations of a disk."""

import pytest

from simulator.campaign.draw import Options
from simulator.checks.raft.log_mirror import segment_paths
from simulator.cluster.memory_vfs import SimulatedCrashError
from simulator.faults.processes import STARTS
from tests.selection import thinned
from tests.simulator.worlds import (
    SECOND_US,
    follower,
    leader,
    log_of,
    observer,
    quiet_world,
    run_on,
    strike,
)

FAST = Options(duration_us=4_000_000, write_count=15)


@pytest.fixture
def world():
    return quiet_world()


# ---- restart storms ------------------------------------------------------------------------------


def test_a_storm_ends_and_starts_a_process_three_to_eight_times(world):
    counts = set()
    for amount in range(1, 7):
        machine = follower(world)
        before = machine.incarnation
        strike(world, "restart_storm", machine, amount=amount)
        run_on(world, 4 * SECOND_US)
        assert machine.is_up
        counts.add((machine.incarnation - before) // 2)
    assert counts <= set(STARTS)
    assert len(counts) > 2
    assert world.probes.counts["restart_storm"] == 6


def test_no_storm_goes_on_when_faults_have_stopped(world):
    machine = follower(world)
    strike(world, "restart_storm", machine, length_us=5 * SECOND_US)
    world.nemesis.stop()
    before = machine.incarnation
    run_on(world, 10 * SECOND_US)
    assert (machine.is_up, machine.incarnation) == (True, before)


# ---- crashes of a start --------------------------------------------------------------------------


@pytest.mark.parametrize("amount", thinned(range(1, 12), 4))
def test_power_fails_while_a_process_recovers(world, amount):
    machine = follower(world)
    before = machine.incarnation
    strike(world, "crash_at_start", machine, amount=amount)
    crashes = world.probes.counts["crashed_during_start"]
    assert machine.incarnation - before <= 2 * (2 + amount % 3)
    run_on(world, 3 * SECOND_US)
    assert machine.is_up
    assert machine.vfs.crash_at is None
    assert machine.kernel.core.leader == leader(world).kernel.core.leader
    assert crashes <= 1 + amount % 3


def test_most_of_these_crashes_are_in_a_start(world):
    for amount in range(6):
        strike(world, "crash_at_start", follower(world), amount=amount)
        run_on(world, 3 * SECOND_US)
    assert world.probes.counts["crashed_during_start"] >= 6


# ---- kills at an operation -----------------------------------------------------------------------


def test_a_kill_between_two_operations_keeps_the_page_cache(world):
    machine = observer(world)
    vfs, before = machine.vfs, machine.incarnation
    strike(world, "kill_at_operation", machine, length_us=5 * SECOND_US)
    follower(world).kill()  # so that something is written: it is fenced
    while machine.is_up:
        run_on(world, 100_000)
    assert machine.vfs is vfs
    assert (machine.kill_at, vfs.crash_at) == (None, None)
    assert world.probes.counts["killed_between_disk_operations"] == 1
    assert world.probes.counts["crashed_between_disk_operations"] == 0
    run_on(world, 10 * SECOND_US)
    assert machine.incarnation == before + 2
    assert machine.kernel.core.leader == leader(world).kernel.core.leader


def test_i18_a_kill_within_a_truncation_may_leave_a_cut_that_was_not_synced():
    unsynced = 0
    for amount in range(11, 16):  # before it the flushed end is recorded
        world = quiet_world()
        machine = follower(world)
        log, vfs = log_of(machine), machine.vfs
        path = segment_paths(vfs)[-1]
        machine.kill_at = vfs.crash_at = vfs.operations + amount
        try:
            log.truncate_to(log.end_offset - 1)
        except SimulatedCrashError as killed:
            machine.crashed(killed)
            unsynced += len(vfs.written_content(path)) < len(vfs.durable_content(path))
            world.restart(machine)
            assert machine.is_up
    assert unsynced > 0


@pytest.mark.parametrize("amount", thinned(range(1, 20, 3), 3))
def test_a_process_may_be_killed_at_any_operation(world, amount):
    machine = follower(world)
    strike(world, "kill_at_operation", machine, amount=amount, length_us=3 * SECOND_US)
    run_on(world, 12 * SECOND_US)
    world.nemesis.stop()  # some came to it when the fault was over
    run_on(world, 10 * SECOND_US)
    assert machine.is_up
    assert machine.kernel.core.leader == leader(world).kernel.core.leader


def test_a_power_failure_that_comes_first_is_one(world):
    machine = observer(world)
    vfs = machine.vfs
    strike(world, "kill_at_operation", machine, amount=5, length_us=50 * SECOND_US)
    strike(world, "crash_at_operation", machine, amount=1, length_us=50 * SECOND_US)
    follower(world).kill()
    while machine.is_up:
        run_on(world, 100_000)
    assert machine.vfs is not vfs
    assert world.probes.counts["killed_between_disk_operations"] == 0
    assert world.probes.counts["crashed_between_disk_operations"] == 1
