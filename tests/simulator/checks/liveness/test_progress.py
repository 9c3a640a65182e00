"""Progress under a slow disk and lost packets."""

import pytest

from simulator.checks.liveness import progress
from simulator.checks.liveness.progress import WRITES, endure
from simulator.checks.violation import Violation
from simulator.cluster.network import RETRANSMIT_US
from tests.simulator.worlds import follower, quiet_world


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(progress, "CHANCE", 1.0)
    return quiet_world()


def acknowledged(world):
    return sum(each.outcome == "ok" for each in world.workload.history)


def test_writes_go_on_and_the_faults_end(world):
    before, sent_before = acknowledged(world), world.network.sent
    endure(world)
    assert acknowledged(world) == before + WRITES
    assert world.network.sent > sent_before
    assert world.probes.counts["progress_under_faults"] == 1
    assert world.network.extra_delay_us is None
    assert world.nemesis.slow_disks == {}


def test_a_cluster_that_stands_still_is_told(world):
    for number in world.voters:
        world.machines[number].pause()
    with pytest.raises(Violation, match=r"liveness: no write for 20 s with a slow disk at node \d"):
        endure(world)
    assert world.network.extra_delay_us is None


def test_a_lost_packet_comes_late_and_holds_what_is_behind_it(world, monkeypatch):
    monkeypatch.setattr(progress, "LOSS", 0.5)
    rng = world.streams.stream("tolerable")
    drawn = {progress._lost_us(rng, b"") for _ in range(50)}
    assert {0, RETRANSMIT_US, 3 * RETRANSMIT_US} <= drawn


def test_three_of_four_seeds_are_spared():
    world = quiet_world()
    rng = world.streams.stream("tolerable")
    state = rng.getstate()
    is_spared = rng.random() >= progress.CHANCE
    rng.setstate(state)
    sent = world.network.sent
    endure(world)
    assert (world.network.sent == sent) is is_spared
    assert follower(world).is_up
