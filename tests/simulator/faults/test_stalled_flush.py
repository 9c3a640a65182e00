"""A disk that hangs under a leader: it resigns, says why, and the quorum goes on without it."""

import pytest
from msgspec.structs import replace

from raft.elections.leader_loss import Cause
from simulator.checks.violation import Violation
from simulator.mutants.hunt import mutant_of
from tests.simulator.worlds import leader, quiet_world, run_on, state_of, strike

SECOND_US = 1_000_000
HANGS = 100_000
"""Amount of a slow disk whose flushes take a minute."""


def test_a_leader_whose_disk_hangs_resigns_and_another_commits():
    world = quiet_world()
    machine = leader(world)
    strike(world, "slow_disk", machine, amount=HANGS, length_us=60 * SECOND_US)
    run_on(world, 4 * SECOND_US)
    election = machine.kernel.elections.newest[-1]
    assert (election.cause, election.role) == (Cause.STALLED_FLUSH, "leader")
    assert world.probes.counts["leader_resigned_by_stalled_flush"] == 1
    successor = leader(world)
    assert successor is not machine
    assert successor.kernel.elections.newest[-1].cause is not Cause.STALLED_FLUSH
    committed = successor.kernel.core.high_watermark
    run_on(world, SECOND_US)
    assert successor.kernel.core.high_watermark > committed
    assert leader(world) is successor


def test_a_slow_disk_that_flushes_in_time_keeps_its_leader():
    world = quiet_world()
    machine = leader(world)
    strike(world, "slow_disk", machine, amount=400, length_us=60 * SECOND_US)
    run_on(world, 4 * SECOND_US)
    assert leader(world) is machine
    assert world.probes.counts["leader_resigned_by_stalled_flush"] == 0


def test_disks_that_all_hang_cause_no_resignation_by_a_stalled_flush():
    """Nobody has more than the leader; without fetches its check quorum ends later."""
    world = quiet_world()
    machine = leader(world)
    strike(world, "slow_disk", *world.machines.values(), amount=HANGS, length_us=60 * SECOND_US)
    run_on(world, 4 * SECOND_US)
    assert world.probes.counts["leader_resigned_by_stalled_flush"] == 0
    assert machine.kernel.elections.newest[-1].cause is not Cause.STALLED_FLUSH


def test_a_leader_that_leads_on_is_found():
    world = quiet_world()
    machine = leader(world)
    strike(world, "slow_disk", machine, amount=HANGS, length_us=60 * SECOND_US)
    with mutant_of(71).apply(), pytest.raises(Violation, match="is not flushed after") as caught:
        run_on(world, 4 * SECOND_US)
    assert caught.value.invariant == "liveness"
    assert f"node {machine.id}: it leads epoch" in str(caught.value)


@pytest.fixture
def checked():
    """The checks of a leader whose flushed end is behind, and the time that passes."""
    world = quiet_world()
    machine = leader(world)
    role, log = state_of(machine).role, state_of(machine).log
    checks = world.invariants._replication
    log.flushed_end_offset -= 1

    def look(after_ms):
        world.scheduler.now_us += after_ms * 1_000
        return checks._stalled(machine, role)

    return log, role, look


def test_the_check_allows_the_fetch_timeout_and_some_slack(checked):
    _, _, look = checked
    assert look(0) is None
    assert look(2_050) is None
    assert "is not flushed after 2051 ms" in look(1)[1]


def test_the_check_needs_a_voter_with_more(checked):
    log, role, look = checked
    flushed = log.flushed_end_offset
    for key, seen in role.progress.items():
        role.progress[key] = replace(seen, end_offset=flushed)
    look(0)
    assert look(3_000) is None


def test_the_check_begins_anew_with_each_flush(checked):
    log, _, look = checked
    look(0)
    log.flushed_end_offset -= 1
    assert look(3_000) is None
    log.flushed_end_offset += 1
    assert look(3_000) is None
    assert look(2_051) is not None


def test_the_check_does_not_count_the_time_before_the_append(checked):
    log, role, look = checked
    log.flushed_end_offset += 1
    look(0)
    assert look(3_000) is None
    log.written_end_offset += 1
    for key, seen in role.progress.items():
        role.progress[key] = replace(seen, end_offset=log.written_end_offset)
    assert look(1) is None
    assert look(2_051) is not None
