"""The core under faults: 200 seeds, then calm with required progress; failover times."""

import statistics

import pytest

from raft import events as ev
from tests.raft.harness import World, elected
from tests.selection import thinned


def run_seed(seed: int, voters: int, observers: int, events: int) -> World:  # noqa: C901
    world = World(seed, voters, observers, loss=0.05)
    world.start_all()
    chaos = {"on": True}

    def fault():
        if not chaos["on"]:
            return
        rng = world.rng
        node = world.nodes[rng.choice(list(world.nodes))]
        kind = rng.randrange(6)
        if kind <= 1 and node.core:
            world.crash(node.id)
            world.after(rng.randrange(1500), lambda: node.core or node.start())
        elif kind == 2:
            for other in world.nodes:
                world.cut |= {(node.id, other), (other, node.id)} if rng.random() < 0.7 else set()
        elif kind == 3:
            world.cut.clear()
        elif kind == 4 and world.leader():
            leader = world.leader()
            leader.step(ev.ResignRequested(epoch=leader.core.epoch))
        world.after(50 + rng.randrange(400), fault)

    def write():
        world.propose(str(world.events_count))
        world.after(5 + world.rng.randrange(40), write)

    world.after(100, fault)
    world.after(100, write)
    world.run(events=events)
    chaos["on"] = False
    world.cut.clear()
    world.loss = 0.0
    for node in world.nodes.values():
        if node.core is None:
            node.start()
    target = len(world.committed) + 10
    assert world.run(
        until_ms=world.now_ms + 30_000,
        done=lambda: all(n.high_watermark >= target for n in world.nodes.values()),
    ), f"no progress {seed=}"
    for node in world.nodes.values():
        end = node.high_watermark
        assert node.records[:end] == world.committed[:end], f"{seed=}"
    return world


CLUSTERS = ((1, 1), (3, 1), (3, 0), (5, 1))
"""Voters and observers, in turn."""


@pytest.mark.parametrize("block", thinned(range(50), every=25))
def test_safety_under_faults_and_progress_after(block):
    for index, (voters, observers) in enumerate(CLUSTERS):
        run_seed(block * len(CLUSTERS) + index, voters, observers, 2_000)


def test_same_seed_gives_the_same_run():
    first, second = run_seed(7, 3, 1, 1_500), run_seed(7, 3, 1, 1_500)
    assert (first.committed, first.now_ms) == (second.committed, second.now_ms)


def failover_ms(seed: int, voters: int) -> int:
    world = elected(voters, seed=seed)
    world.run(until_ms=world.now_ms + 700)
    leader = world.leader()
    start_ms = world.now_ms
    world.crash(leader.id)
    assert world.run(until_ms=start_ms + 20_000, done=lambda: world.leader() is not None)
    return world.now_ms - start_ms


@pytest.mark.parametrize(
    ("voters", "count"), thinned([(3, 20), (3, 100), (5, 20), (5, 100)], every=2)
)
def test_failover_on_evidence_is_fast(voters, count):
    times = sorted(failover_ms(seed, voters) for seed in range(count))
    assert statistics.median(times) <= 30, times
    assert times[-1] <= 50, times  # a voter that has not noticed yet is soon asked again


def test_first_election_does_not_wait_for_the_timer():
    times = sorted(elected(3, seed=seed).now_ms for seed in range(50))
    assert times[-1] <= 300, times
