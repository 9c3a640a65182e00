"""Links that are full, that take unlike times, and those of clients."""

import pytest
from msgspec.structs import replace

from simulator.campaign.draw import Options
from simulator.campaign.run import prepare
from simulator.faults.decision import Decision
from tests.simulator.worlds import (
    SECOND_US,
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
    assert len({m.kernel.core.epoch for m in world.machines.values()}) == 1


def test_links_hold_everything_again_when_faults_have_stopped(world):
    strike(world, "full_link", leader(world))
    world.nemesis.stop()
    assert world.network.capacities == {}


# ---- uneven links --------------------------------------------------------------------------------


def test_links_of_a_far_node_take_longer_each_way_by_itself(world):
    network, far = world.network, follower(world)
    strike(world, "uneven_links", far, amount=20)
    others = [number for number in world.machines if number != far.id]
    assert set(network.factors) == {pair for n in others for pair in ((n, far.id), (far.id, n))}
    assert set(network.factors.values()) <= set(range(1, 21))
    assert len(set(network.factors.values())) > 3
    assert any(network.factors[a, b] != network.factors[b, a] for a, b in network.factors)
    run_on(world, 2 * SECOND_US)
    assert network.factors == {}


def test_a_far_node_hears_later():
    def delays(factor):
        world = quiet_world()
        led, far = leader(world).id, follower(world).id
        world.network.factors[led, far] = factor
        found = []
        world.network.on_sent = lambda _, way, due_us, __: (
            found.append(due_us - world.scheduler.now_us) if way.link == (led, far) else None
        )
        run_on(world, 3 * SECOND_US)
        return sum(found) / len(found)

    assert 8 * delays(1) < delays(20) < 40 * delays(1)


def test_links_are_alike_when_faults_have_stopped(world):
    strike(world, "uneven_links", *world.machines.values(), amount=20)
    assert world.network.factors
    world.nemesis.stop()
    assert world.network.factors == {}


def test_it_is_drawn_once_for_the_whole_phase_and_mostly_of_one_node():
    plans = [prepare(seed, replace(FAST, faults=("uneven_links",)))[2] for seed in range(40)]
    for (decision,) in plans:
        assert decision.at_us + decision.length_us == FAST.duration_us
    sizes = [len(decision.targets) for (decision,) in plans]
    assert 20 < sizes.count(1) < 40


# ---- links of clients ----------------------------------------------------------------------------

BUSY = {"write_count": 100_000, "think_us": 50_000}


def busy_world():
    """Clients that write all the time; 20 decisions meet every way in which their links break."""
    return quiet_world(**BUSY)


def ended_badly(world):
    return [o for o in world.workload.history if o.error in ("CLOSED", "TIMED_OUT")]


def test_clients_of_a_healthy_broker_are_told_nothing_and_know_nothing():
    world = busy_world()
    assert not ended_badly(world)
    incarnations = [machine.incarnation for machine in world.machines.values()]
    for amount in range(10):
        machine = (leader, follower, observer)[amount % 3](world)
        strike(world, "client_links", machine, amount=amount, length_us=6 * SECOND_US)
        run_on(world, 2 * SECOND_US)
    counts = world.probes.counts
    assert counts["client_connection_reset"] > 0
    assert counts["client_link_cut"] > 0
    assert counts["client_link_clogged"] > 0
    errors = {operation.error for operation in ended_badly(world)}
    assert errors == {"CLOSED", "TIMED_OUT"}
    assert all(operation.outcome == "info" for operation in ended_badly(world))
    assert [machine.incarnation for machine in world.machines.values()] == incarnations


@pytest.mark.long
def test_links_of_clients_are_whole_when_faults_have_stopped():
    world = busy_world()
    for amount in range(40):
        strike(world, "client_links", follower(world), amount=amount, length_us=50 * SECOND_US)
    world.nemesis.stop()
    assert not any(world.network.is_cut(a, b) for a in world.machines for b in range(1_000, 1_004))
    count = len(ended_badly(world))
    run_on(world, 20 * SECOND_US)
    late = [o for o in ended_badly(world)[count:] if o.called_us > 10 * SECOND_US]
    assert not late


def test_a_request_that_was_held_may_run_when_its_client_is_long_gone():
    plan = [
        Decision(at_us=SECOND_US, kind="client_links", targets=(1,), length_us=7, amount=1),
        Decision(at_us=SECOND_US, kind="client_links", targets=(1,), length_us=8, amount=1),
    ]
    world = quiet_world(plan)
    assert {operation.late_us for operation in world.workload.history} == {15}


def test_who_serves_no_clients_is_not_struck():
    options = replace(FAST, faults=("client_links",))
    for seed in range(30):
        settings, _, plan = prepare(seed, options)
        least = 1 if settings.is_combined else 101
        assert all(target >= least for decision in plan for target in decision.targets)
    world = quiet_world(is_combined=False)
    strike(world, "client_links", follower(world), amount=2)
    assert world.nemesis.fired == {"client_links": 1}
    assert world.nemesis.struck == {}
