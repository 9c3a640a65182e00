"""Full links, failed writes, restart storms, disks that lie; and that they shift no other seed."""

import errno

import pytest
from msgspec.structs import replace

from simulator.arguments import parse
from simulator.draw import FOURTH_FAULTS, Options
from simulator.failing_writes import FailingWrites
from simulator.fourth_faults import STARTS
from simulator.invariants import Violation
from simulator.log_mirror import FOLDER, segment_paths
from simulator.run import prepare, run_seed
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


# ---- draws ---------------------------------------------------------------------------------------


def has_fourth(seed):
    return bool(set(prepare(seed, FAST)[0].faults) & set(FOURTH_FAULTS))


def test_each_is_on_in_one_of_twelve_seeds_and_one_of_them_in_a_third():
    seeds = range(1_200)
    on = [set(prepare(seed, Options())[0].faults) & set(FOURTH_FAULTS) for seed in seeds]
    for name in FOURTH_FAULTS:
        assert 70 <= sum(name in each for each in on) <= 130
    assert 350 <= sum(bool(each) for each in on) <= 490


def test_a_seed_without_them_is_the_same_plan_as_before():
    for seed in range(200):
        settings, _, plan = prepare(seed, Options(draws=4))
        before, _, earlier = prepare(seed, Options(draws=3))
        kept = tuple(name for name in settings.faults if name not in FOURTH_FAULTS)
        assert replace(settings, faults=kept) == before
        assert [decision for decision in plan if decision.kind not in FOURTH_FAULTS] == earlier


@pytest.mark.parametrize("seed", thinned([s for s in range(700, 730) if not has_fourth(s)], 30))
def test_a_seed_without_them_has_the_digest_that_it_had(seed):
    now, before = (run_seed(seed, replace(FAST, draws=draws)) for draws in (4, 3))
    assert (now.digest, now.event_count) == (before.digest, before.event_count)


def test_they_need_no_draw_to_be_asked_for():
    settings, _, plan = prepare(1, Options(faults=("restart_storm",), draws=1))
    assert settings.faults == ("restart_storm",)
    assert {decision.kind for decision in plan} == {"restart_storm"}


# ---- full links ----------------------------------------------------------------------------------


def test_links_that_are_full_lose_connections_and_not_the_cluster(world):
    network, machine = world.network, leader(world)
    strike(world, "full_link", machine, length_us=3 * SECOND_US)
    assert list(network.capacities) == [machine.id]
    assert network.capacities[machine.id] in range(2, 21)
    network.capacities[machine.id] = 1
    run_on(world, 2 * SECOND_US)
    counts = world.probes.counts
    assert counts["full_link_reset"] > 0
    assert counts["full_link_told_one_side"] > 0
    run_on(world, 20 * SECOND_US)
    assert network.capacities == {}
    assert len({m.kernel.replica.core.epoch for m in world.machines.values()}) == 1


def test_links_hold_everything_again_when_faults_have_stopped(world):
    strike(world, "full_link", leader(world))
    world.nemesis.stop()
    assert world.network.capacities == {}


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
@pytest.mark.parametrize("who", [leader, follower, observer])
def test_a_node_that_cannot_write_its_log_stops_and_comes_back(world, who, amount):
    machine = who(world)
    before, end_offset = machine.incarnation, machine.kernel.replica.core.log_end_offset
    strike(world, "write_error", machine, amount=amount, length_us=5 * SECOND_US)
    other = observer(world) if who is follower else follower(world)
    other.kill()  # so that something is written: it is fenced
    run_on(world, 12 * SECOND_US)
    assert world.probes.counts["node_stopped_by_write_error"] == 1
    assert machine.incarnation >= before + 2
    world.restart(other)
    world.restart(machine)
    run_on(world, 10 * SECOND_US)
    assert machine.kernel.replica.core.log_end_offset > end_offset
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
    assert machine.kernel.replica.writer.log.end_offset > 0


def test_a_minority_of_the_voters_has_such_a_disk(world):
    voters = [world.machines[number] for number in sorted(world.voters)]
    strike(world, "write_error", *voters, observer(world))
    assert [m.vfs.failing is not None for m in voters] == [True, False, False]
    assert observer(world).vfs.failing is not None
    world.nemesis.stop()
    assert all(m.vfs.failing is None for m in world.machines.values())


# ---- restart storms ------------------------------------------------------------------------------


def test_a_storm_ends_and_starts_a_process_three_to_eight_times(world):
    counts = set()
    for amount in range(1, 13):
        machine = follower(world)
        before = machine.incarnation
        strike(world, "restart_storm", machine, amount=amount)
        run_on(world, 4 * SECOND_US)
        assert machine.is_up
        counts.add((machine.incarnation - before) // 2)
    assert counts <= set(STARTS)
    assert len(counts) > 2
    assert world.probes.counts["restart_storm"] == 12


def test_no_storm_goes_on_when_faults_have_stopped(world):
    machine = follower(world)
    strike(world, "restart_storm", machine, length_us=5 * SECOND_US)
    world.nemesis.stop()
    before = machine.incarnation
    run_on(world, 10 * SECOND_US)
    assert (machine.is_up, machine.incarnation) == (True, before)


# ---- crashes of a start --------------------------------------------------------------------------


@pytest.mark.parametrize("amount", range(1, 12))
def test_power_fails_while_a_process_recovers(world, amount):
    machine = follower(world)
    before = machine.incarnation
    strike(world, "crash_at_start", machine, amount=amount)
    crashes = world.probes.counts["crashed_during_start"]
    assert machine.incarnation - before <= 2 * (2 + amount % 3)
    run_on(world, 3 * SECOND_US)
    assert machine.is_up
    assert machine.vfs.crash_at is None
    assert machine.kernel.replica.core.leader == leader(world).kernel.replica.core.leader
    assert crashes <= 1 + amount % 3


def test_most_of_these_crashes_are_in_a_start(world):
    for amount in range(12):
        strike(world, "crash_at_start", follower(world), amount=amount)
        run_on(world, 3 * SECOND_US)
    assert world.probes.counts["crashed_during_start"] >= 12


@pytest.mark.parametrize("kind", FOURTH_FAULTS)
def test_a_seed_with_nothing_but_one_of_them_holds(kind):
    outcome = run_seed(4, replace(FAST, faults=(kind,)))
    assert outcome.invariant is None, outcome.text
    assert outcome.faults[kind] > 0


# ---- disks that lie ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", thinned(range(1, 6), 2))
def test_a_seed_with_disks_that_lie_fails(seed):
    outcome = run_seed(seed, replace(FAST, faults=("fsync_lie",)))
    assert outcome.invariant == "I10", outcome.text
    assert "durable there at the voters" in outcome.text


def test_they_are_never_drawn():
    assert not any("fsync_lie" in prepare(seed, Options())[0].faults for seed in range(500))


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
    machine.kernel.replica.writer.log.flush()
    path = segment_paths(machine.vfs)[-1]
    assert machine.vfs.durable_content(path) != machine.vfs.written_content(path)
    world.nemesis.stop()
    assert machine.vfs.sync_lies is None
    assert machine.vfs.durable_content(path) == machine.vfs.written_content(path)
