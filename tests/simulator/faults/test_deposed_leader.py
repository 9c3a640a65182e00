"""The fault that knows who leads: cut off, and let back in when somebody else has a newer epoch."""

import pytest

from simulator.checks.raft.leadership import epoch_of, has_newer_epoch
from simulator.faults.decision import Decision
from tests.selection import thinned
from tests.simulator.worlds import leader, quiet_world, run_on, strike

SECOND_US = 1_000_000


def deposing(amount):
    return Decision(at_us=900_000, kind="depose_leader", targets=(1,), length_us=1, amount=amount)


@pytest.mark.parametrize(("amount", "elections"), thinned([(2, 2), (3, 3), (5, 3)], every=3))
def test_the_leader_is_deposed_and_every_link_heals(amount, elections):
    before = leader(quiet_world()).id
    world = quiet_world([deposing(amount)])
    assert leader(world).id == before
    assert world.network.cut_links
    world.run(world.scheduler.now_us + 10 * SECOND_US)
    assert not world.network.cut_links
    assert world.invariants.elections >= elections
    epochs = {epoch_of(machine) for machine in world.machines.values()}
    assert len(epochs) == 1


def test_links_that_are_cut_once_faults_are_over_stay_cut():
    """The heal that is pending then would open links of nodes that stay outside."""
    world = quiet_world()
    machine = leader(world)
    strike(world, "depose_leader", machine, amount=2000)  # heals half a second after its loss
    others = [m for m in world.machines.values() if m is not machine]
    epoch = epoch_of(machine)
    assert world.run_until(lambda: has_newer_epoch(others, epoch, by_leader=False), 10 * SECOND_US)
    run_on(world, 1_000)
    world.nemesis.stop()
    outside = {(machine.id, other.id) for other in others}
    for link in outside:
        world.network.cut(*link)
    run_on(world, SECOND_US)
    assert world.network.cut_links == outside


def test_without_a_leader_nothing_is_cut():
    world = quiet_world()
    machine = leader(world)
    machine.kill()
    strike(world, "depose_leader", machine, amount=2)
    assert world.nemesis.struck == {}
    assert not world.network.cut_links
