"""Writes and reads that fail, disks that lie, disks whose faults last."""

import contextlib
import errno

import pytest
from msgspec.structs import replace

from simulator.campaign.arguments import parse
from simulator.campaign.draw import Options
from simulator.campaign.run import run_seed, settings_of
from simulator.checks.raft.log_mirror import FOLDER, segment_paths
from simulator.checks.violation import Violation
from simulator.faults.decision import Decision
from simulator.faults.disks import START_READS_AHEAD_MAX
from simulator.faults.failing_files import FailingRead, FailingWrites
from tests.selection import thinned
from tests.simulator.worlds import (
    SECOND_US,
    append,
    follower,
    leader,
    observer,
    quiet_world,
    run_on,
    strike,
)

FAST = Options(duration_us=4_000_000, write_count=15)


@pytest.fixture
def world():
    return quiet_world()


# ---- slow disks ----------------------------------------------------------------------------------


def test_a_slow_disk_takes_longer_for_each_flush_until_it_is_over(world):
    slow, other = follower(world), leader(world)

    def took_us(machine):
        before = world._disk.getstate()
        duration_us = world._flush_us(machine.id)
        world._disk.setstate(before)
        return duration_us

    usual_us = took_us(slow)
    strike(world, "slow_disk", slow, amount=4, length_us=SECOND_US)
    assert (took_us(slow), took_us(other)) == (20 * usual_us, usual_us)
    run_on(world, 2 * SECOND_US)
    usual_us = took_us(other)
    assert took_us(slow) == usual_us > 0


# ---- failed writes -------------------------------------------------------------------------------


def test_the_nth_write_of_the_log_fails_once_or_until_it_is_over():
    path = "/data/__cluster_metadata-0/00000000000000000000.log"
    once, lasting = (FailingWrites(2, is_lasting=is_lasting) for is_lasting in (False, True))
    calls = [("write", path), ("truncate", path), ("write", path), ("truncate", path)]
    calls += [("write", path), ("sync", path)]
    assert [once(*call) for call in calls] == [None, None, errno.EIO, None, None, None]
    assert [lasting(*call) for call in calls] == [None, None, *[errno.EIO] * 3, None]


@pytest.mark.parametrize(
    "path", ["/data/__cluster_metadata-0/quorum-state", "/data/topic-0/00000000000000000000.log"]
)
def test_no_other_file_is_struck(path):
    assert FailingWrites(1, is_lasting=True)("write", path) is None


@pytest.mark.parametrize("amount", [5, 10])  # the next write; once, and until it is over
@pytest.mark.parametrize("who", thinned([follower, leader, observer], every=3))
def test_a_node_that_cannot_write_its_log_stops_and_comes_back(world, who, amount):
    machine = who(world)
    before, end_offset = machine.incarnation, machine.kernel.core.log_end_offset
    strike(world, "write_error", machine, amount=amount, length_us=5 * SECOND_US)
    other = observer(world) if who is follower else follower(world)
    other.kill()  # so that something is written: it is fenced
    run_on(world, 12 * SECOND_US)
    assert world.probes.counts["node_stopped_by_write_error"] == 1
    assert machine.incarnation >= before + 2
    world.restart(other)
    world.restart(machine)
    run_on(world, 10 * SECOND_US)
    assert machine.kernel.core.log_end_offset > end_offset
    assert machine.vfs.failing is None


def test_a_half_written_batch_is_cut_at_the_next_start(world):
    machine = observer(world)
    strike(world, "write_error", machine, amount=10)
    path = segment_paths(machine.vfs)[-1]
    size = machine.vfs.size(path)
    with pytest.raises(OSError, match="injected into truncate"):
        append(machine, 1)
    assert machine.vfs.size(path) > size
    machine.kill()
    run_on(world, 2 * SECOND_US)
    assert world.probes.counts["torn_tail_repaired"] == 1
    assert machine.kernel.log.end_offset > 0


def test_a_minority_of_the_voters_has_such_a_disk(world):
    voters = [world.machines[number] for number in sorted(world.voters)]
    strike(world, "write_error", *voters, observer(world))
    assert [m.vfs.failing is not None for m in voters] == [True, False, False]
    assert observer(world).vfs.failing is not None
    world.nemesis.stop()
    assert all(m.vfs.failing is None for m in world.machines.values())


# ---- disks that lie ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", thinned(range(1, 6), 2))
def test_a_seed_with_disks_that_lie_fails(seed):
    outcome = run_seed(seed, replace(FAST, faults=("fsync_lie",)))
    assert outcome.invariant == "I10", outcome.text
    assert "durable there at the voters" in outcome.text


def test_they_are_never_drawn():
    assert not any("fsync_lie" in settings_of(seed, Options())[0].faults for seed in range(500))


def test_they_are_asked_for_alone(capsys):
    assert parse(["--faults", "fsync_lie"]).options.faults == ("fsync_lie",)
    with pytest.raises(SystemExit) as refused:
        parse(["--faults", "kill,fsync_lie"])
    assert refused.value.code == 2
    assert "fsync_lie is asked for alone: the run has to fail" in capsys.readouterr().err


def test_i18_a_node_whose_disk_lied_is_named_when_the_power_fails(world):
    """Its record of the flushed end, which reached the disk, says more than its log has."""
    machine = observer(world)
    strike(world, "fsync_lie", machine, length_us=15 * SECOND_US)
    follower(world).kill()  # so that something is written: it is fenced
    run_on(world, 14 * SECOND_US)
    machine.vfs.open(f"{FOLDER}/flushed-end-offset").sync()
    with pytest.raises(Violation, match=r"I18: node 101 refused to start: .*its disk is not"):
        run_on(world, 2 * SECOND_US)


def test_a_disk_is_honest_and_durable_when_faults_have_stopped(world):
    machine = observer(world)
    strike(world, "fsync_lie", machine)
    append(machine, 1)
    machine.kernel.log.flush()
    path = segment_paths(machine.vfs)[-1]
    assert machine.vfs.durable_content(path) != machine.vfs.written_content(path)
    world.nemesis.stop()
    assert machine.vfs.sync_lies is None
    assert machine.vfs.durable_content(path) == machine.vfs.written_content(path)


# ---- reads of a start ----------------------------------------------------------------------------


def test_the_nth_read_fails_once():
    failing = FailingRead(2)
    calls = [("read", "a"), ("write", "b"), ("read", "c"), ("read", "d")]
    assert [failing(*call) for call in calls] == [None, None, errno.EIO, None]
    assert failing.path == "c"


@pytest.mark.parametrize("amount", thinned(range(4), 2))
@pytest.mark.parametrize("who", [leader, follower, observer])
def test_a_start_that_cannot_read_is_refused_and_the_next_one_is_not(world, who, amount):
    machine = who(world)
    end_offset = machine.kernel.core.log_end_offset
    strike(world, "start_read_error", machine, amount=amount)
    assert not machine.is_up
    assert world.probes.counts["start_refused_by_read_error"] == 1
    assert machine.vfs.failing is None
    run_on(world, 2 * SECOND_US)
    assert machine.is_up
    assert machine.kernel.core.log_end_offset >= end_offset


def test_a_start_that_reads_less_is_none_that_failed(world):
    machine = follower(world)
    strike(world, "start_read_error", machine, amount=START_READS_AHEAD_MAX - 1)
    assert machine.is_up
    assert world.probes.counts["start_refused_by_read_error"] == 0


def test_i18_a_node_that_starts_without_what_it_could_not_read_is_named(world):
    machine = follower(world)
    begin_read = machine.vfs.begin_read

    def swallowing(path):
        with contextlib.suppress(OSError):
            begin_read(path)

    machine.vfs.begin_read = swallowing
    with pytest.raises(Violation, match=r"I18: node \d+: it started and could not read /data/"):
        strike(world, "start_read_error", machine, amount=0)


# ---- disk faults that last -----------------------------------------------------------------------


def lasting_world():
    decision = Decision(at_us=10**9, kind="lasting_disk_fault", targets=(1,), length_us=1, amount=1)
    return quiet_world([decision])


def test_without_them_a_power_failure_makes_room_as_it_always_did(world):
    machine = observer(world)
    strike(world, "disk_full", machine, length_us=5 * SECOND_US)
    machine.power_off()
    assert machine.vfs.bytes_max is None


def test_a_full_disk_is_full_after_a_power_failure_until_the_fault_is_over():
    world = lasting_world()
    machine = observer(world)
    strike(world, "lasting_disk_fault", machine, amount=1, length_us=3 * SECOND_US)
    first, size = machine.vfs, machine.vfs.bytes_max
    assert size is not None
    run_on(world, SECOND_US + 1)
    assert machine.vfs is not first
    assert machine.vfs.bytes_max == size
    assert world.probes.counts["power_failed_on_a_faulty_disk"] == 1
    run_on(world, 5 * SECOND_US)
    assert machine.vfs.bytes_max is None
    assert machine.is_up


def test_a_disk_that_takes_no_writes_takes_none_after_a_power_failure():
    world = lasting_world()
    machine = observer(world)
    strike(world, "lasting_disk_fault", machine, amount=10, length_us=6 * SECOND_US)
    failing = machine.vfs.failing
    assert failing.is_lasting
    with pytest.raises(OSError, match="injected into"):
        append(machine, 1)
    machine.kill()
    run_on(world, 3 * SECOND_US)
    assert machine.vfs.failing is failing
    run_on(world, 10 * SECOND_US)
    assert machine.vfs.failing is None
    assert machine.is_up


def test_a_damaged_machine_keeps_its_power():
    world = lasting_world()
    machine = observer(world)
    strike(world, "lost_write", machine, amount=2, length_us=9 * SECOND_US)
    assert machine.id in world._damages._damages
    vfs = machine.vfs
    strike(world, "lasting_disk_fault", machine, length_us=3 * SECOND_US)
    run_on(world, 5 * SECOND_US)
    assert machine.vfs is vfs
    run_on(world, 10 * SECOND_US)
    assert machine.is_up


def test_a_disk_whose_next_sync_fails_is_another_one_after_a_power_failure():
    world = lasting_world()
    machine = observer(world)
    strike(world, "sync_error", machine)
    assert machine.vfs.failing is not None
    machine.power_off()
    assert machine.vfs.failing is None
