"""An observer that comes back with an empty disk: its history begins anew, not the cluster's."""

import pytest

from simulator.campaign.draw import Options
from simulator.campaign.run import prepare, run_seed
from simulator.checks.violation import Violation
from simulator.faults.decision import Decision
from tests.selection import thinned
from tests.simulator.worlds import follower, leader, observer, quiet_world

SECOND_US = 1_000_000


@pytest.fixture
def world():
    return quiet_world()


def strike(world, machine):
    decision = Decision(
        at_us=world.scheduler.now_us, kind="empty_disk", targets=(machine.id,), length_us=1_000
    )
    world.nemesis._fire(decision)


def observer_ids(world):
    role = leader(world).kernel.core.role
    return {key.directory_id for key in role.observers if key.id == observer(world).id}


def test_it_fetches_everything_anew_as_another_directory(world):
    machine = observer(world)
    before, end_offset = machine.directory_id, machine.kernel.loader.end_offset
    assert end_offset > 10
    strike(world, machine)
    assert not machine.vfs.exists("/data/__cluster_metadata-0")
    world.run(world.scheduler.now_us + SECOND_US)
    assert machine.kernel.loader.end_offset >= end_offset
    assert observer_ids(world) == {before, machine.directory_id}
    assert world.probes.counts["disk_replaced"] == 1


def test_its_broker_registers_with_the_new_directory(world):
    machine = observer(world)
    strike(world, machine)
    world.run(world.scheduler.now_us + 20 * SECOND_US)
    assert machine.kernel.is_unfenced
    (registered,) = leader(world).kernel.cache.image.brokers[machine.id].log_dirs
    assert registered == machine.directory_id


def test_a_log_that_begins_above_0_is_filled_by_a_snapshot():
    world = quiet_world(record_bytes_between_snapshots=300, retention_bytes=300)
    world.run(world.scheduler.now_us + 4 * SECOND_US)
    assert leader(world).kernel.core.log_start_offset > 0
    before = world.probes.counts["snapshot_fetched"]
    strike(world, observer(world))
    world.run(world.scheduler.now_us + SECOND_US)
    assert world.probes.counts["snapshot_fetched"] == before + 1


def test_a_voter_keeps_its_disk(world):
    machine = follower(world)
    strike(world, machine)
    assert machine.is_up
    assert world.probes.counts["disk_replaced"] == 0


def test_i18_a_disk_that_empties_itself(world):
    machine = observer(world)
    machine.kill()
    machine.replace_disk()
    with pytest.raises(Violation, match=r"I18: node 101: the log ended durably at \d+"):
        machine.start()


def test_i19_an_observer_more_than_disks_there_were(world):
    for _ in range(2):
        strike(world, observer(world))
        world.run(world.scheduler.now_us + SECOND_US)
    assert len(observer_ids(world)) == 3
    rows = {name: (size, most) for name, size, most in _rows(world)}
    assert rows["observers"] == (3, 3 + 2)


def _rows(world):
    machine = leader(world)
    return world.resources.rows(machine.id, machine.kernel)


def test_only_observers_are_drawn_and_only_where_there_are_any():
    only = ("empty_disk",)
    for seed in range(20):
        settings, _, plan = prepare(seed, Options(faults=only))
        assert settings.faults == only
        assert all(target > 100 for decision in plan for target in decision.targets)
        assert bool(plan) == (settings.observer_count > 0)


def test_what_was_added_shifts_no_other_fault_of_a_seed():
    for seed in range(40):
        first, _, earlier = prepare(seed, Options(draws=1))
        now, _, plan = prepare(seed, Options(draws=4))
        assert now.faults[: len(first.faults)] == first.faults
        kept = [decision for decision in plan if decision.kind in first.faults]
        assert kept == earlier


@pytest.mark.parametrize("seed", thinned(range(1, 4), every=3))
def test_seeds_with_nothing_but_empty_disks_hold(seed):
    options = Options(
        observer_count=2, faults=("empty_disk",), duration_us=6_000_000, write_count=20
    )
    outcome = run_seed(seed, options)
    assert outcome.invariant is None, outcome.text
    assert outcome.marks["disk_replaced"] > 0
