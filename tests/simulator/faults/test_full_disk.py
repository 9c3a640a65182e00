"""A full disk among three, its node next in line: an active controller within virtual seconds."""

import pytest

from tests.simulator.worlds import SECOND_US, leader, quiet_world, run_on, strike

ELECTED_US = 6 * SECOND_US
"""Two fetch time-outs of the quiet world, and an election."""


@pytest.mark.parametrize("place", [0, 1])
def test_a_voter_with_space_leads_while_one_disk_is_full(place):
    world = quiet_world()
    killed = leader(world)
    successors = [world.machines[i] for i in sorted(world.voters) if i != killed.id]
    full = successors[place]
    strike(world, "disk_full", full, length_us=1_000 * SECOND_US)
    killed.power_off()
    run_on(world, SECOND_US // 2)
    world.restart(killed)
    run_on(world, ELECTED_US)
    assert world.probes.counts["disk_full"] > 0
    assert leader(world).id != full.id
    epoch = full.kernel.core.epoch
    run_on(world, 15 * SECOND_US)
    assert full.kernel.core.epoch == epoch, "the full disk disturbs nobody"
