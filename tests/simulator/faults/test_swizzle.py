"""Links that go one after the other and come back in another order."""

import pytest

from simulator.campaign.draw import Options
from simulator.campaign.run import prepare, run_seed
from simulator.faults.decision import Decision
from tests.selection import thinned
from tests.simulator.worlds import quiet_world

LENGTH_US = 4_000_000
AMOUNT = 8


@pytest.fixture
def world():
    """While it is swizzled; nothing else happens to its links."""
    world = quiet_world()
    at_us = world.scheduler.now_us
    decision = Decision(
        at_us=at_us, kind="swizzle", targets=(1, 2, 101), length_us=LENGTH_US, amount=AMOUNT
    )
    world.nemesis._fire(decision)
    return world


def without_links(world):
    """Nodes that nothing reaches."""
    ids = list(world.machines)
    return {n for n in ids if all(world.network.is_cut(m, n) for m in ids if m != n)}


def test_nodes_lose_their_links_in_order_and_get_them_back_in_another(world):
    started_us, found = world.scheduler.now_us, []
    for step in range(7):
        world.run(started_us + step * (LENGTH_US // 6) + 1)
        found.append(without_links(world))
    assert found[:2] == [{1}, {1, 2}]
    assert found[2] >= {1, 2, 101}
    counts = [len(each & {1, 2, 101}) for each in found]
    assert counts == [1, 2, 3, 2, 1, 0, 0]
    assert {1, 2, 101} - found[3] != {1}, "another order"
    assert world.probes.counts["swizzled"] == 1


def test_a_link_of_two_lost_nodes_is_back_when_both_are(world):
    started_us = world.scheduler.now_us
    world.run(started_us + 3 * (LENGTH_US // 6) + 1)
    lost = without_links(world) & {1, 2, 101}
    assert len(lost) == 2
    one, other = lost
    assert world.network.is_cut(one, other)


def test_nothing_is_cut_any_more_when_faults_have_stopped(world):
    world.nemesis.stop()
    world.run(world.scheduler.now_us + LENGTH_US)
    assert without_links(world) == set()


def test_two_nodes_or_more_are_drawn_where_there_are_any():
    counts = set()
    for seed in range(30):
        settings, _, plan = prepare(seed, Options(faults=("swizzle",)))
        node_count = settings.voter_count + settings.observer_count
        for decision in plan:
            assert len(set(decision.targets)) == len(decision.targets) >= min(2, node_count)
            counts.add(len(decision.targets))
    assert len(counts) > 3


@pytest.mark.parametrize("seed", thinned([4, 1, 7], every=3))
def test_seeds_with_nothing_but_swizzles_hold(seed):
    outcome = run_seed(seed, Options(faults=("swizzle",), duration_us=6_000_000, write_count=20))
    assert outcome.invariant is None, outcome.text
    assert outcome.marks["swizzled"] > 0
