"""The fault that knows who leads: cut off, and let back in when somebody else has a newer epoch."""

import pytest

from simulator.checks.leadership import epoch_of
from simulator.faults.decision import Decision
from tests.selection import thinned
from tests.simulator.worlds import leader, quiet_world, strike

SECOND_US = 1_000_000


def deposing(amount):
    return Decision(at_us=1_900_000, kind="depose_leader", targets=(1,), length_us=1, amount=amount)


@pytest.mark.parametrize(("amount", "elections"), thinned([(2, 2), (3, 3), (5, 3)], every=3))
def test_the_leader_loses_its_office_and_every_link_heals(amount, elections):
    before = leader(quiet_world()).id
    world = quiet_world([deposing(amount)])
    assert leader(world).id == before
    assert world.network.cut_links
    world.run(world.scheduler.now_us + 10 * SECOND_US)
    assert not world.network.cut_links
    assert world.invariants.elections >= elections
    epochs = {epoch_of(machine) for machine in world.machines.values()}
    assert len(epochs) == 1


def test_without_a_leader_nothing_is_cut():
    world = quiet_world()
    machine = leader(world)
    machine.kill()
    strike(world, "depose_leader", machine, amount=2)
    assert world.nemesis.struck == {}
    assert not world.network.cut_links
