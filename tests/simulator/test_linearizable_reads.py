"""Linearizable reads in seeds: they show all that was acknowledged; a deposed leader's do not."""

import pytest
from msgspec.structs import replace

from simulator.campaign.draw import Options
from simulator.campaign.run import settings_of
from simulator.cluster.machine import Power
from simulator.cluster.workload import LINEARIZABLE
from simulator.mutants.catalogue import MUTANTS
from tests.simulator.worlds import leader, quiet_world


@pytest.fixture(scope="module")
def world():
    return quiet_world(
        write_count=60,
        duration_us=2_000_000,
        think_us=50_000,
        has_lookups=True,
        has_linearizable_reads=True,
    )


def test_lookups_are_read_at_the_leader_and_prove_the_state(world):
    reads = [each for each in world.workload.history if each.kind in ("exists", "read")]
    ended = [each for each in reads if each.returned_us is not None]
    assert len(ended) > 5
    assert {each.target for each in ended} == {leader(world).id}
    assert {(each.outcome, each.proof) for each in ended} == {("ok", LINEARIZABLE)}


def test_a_stopped_process_takes_a_read_before_what_arrived_meanwhile(world):
    stopped, answered = leader(world), []
    stopped.pause()
    world.run(world.scheduler.now_us + 50_000)
    waiting = len(stopped._paused)
    assert waiting
    world.workload.linearizable_reads.begin(stopped.id, answered.append)
    world.run(world.scheduler.now_us + 5_000)
    assert len(stopped._paused) > waiting
    assert type(stopped._paused[0]).__name__ == "ReadAsked"
    stopped.resume()
    assert stopped.power is Power.UP
    world.run(world.scheduler.now_us + 500_000)
    (image,) = answered
    assert image is not None


def read_of_a_stopped_leader():
    """The image of a leader that was stopped until another one had created a topic, if any."""
    world = quiet_world(write_count=0, has_lookups=True, has_linearizable_reads=True)
    stopped, answered = leader(world), []
    stopped.pause()
    others = [m for m in world.machines.values() if m is not stopped and m.id in world.voters]
    assert world.run_until(
        lambda: any(m.kernel.state.is_active for m in others), world.scheduler.now_us + 3_000_000
    )
    created = world.workload.create_fresh("fresh", others[0].id)
    assert world.run_until(created.has_returned, world.scheduler.now_us + 500_000)
    assert created.outcome == "ok"
    world.workload.linearizable_reads.begin(stopped.id, answered.append)
    world.run(world.scheduler.now_us + 5_000)
    assert stopped.kernel.core.is_leader
    stopped.resume()
    world.run(world.scheduler.now_us + 500_000)
    (image,) = answered
    return image


def test_a_leader_that_was_stopped_is_stale_where_it_does_not_ask_the_others():
    """The control: what a node has itself is not linearizable."""
    assert read_of_a_stopped_leader() is None
    (unchecked,) = [mutant for mutant in MUTANTS if mutant.key == "M33"]
    with unchecked.apply():
        image = read_of_a_stopped_leader()
    assert image is not None
    assert image.topic_named("fresh") is None


def test_reads_are_drawn_for_a_quarter_of_the_seeds():
    found = []
    for seed in range(200):
        newest, _ = settings_of(seed, Options(draws=10))
        before, _ = settings_of(seed, Options(draws=9))
        assert not before.has_linearizable_reads
        found.append(newest.has_linearizable_reads)
        if newest.has_linearizable_reads:
            assert "stop_leader" in newest.faults
            assert newest.client_count == 8 or "operation_mix" in newest.faults
        elif "stop_leader" not in newest.faults:
            assert newest == before
    assert 0.17 < sum(found) / len(found) < 0.33


def test_reads_may_be_asked_for_and_their_fault_left_out():
    asked = Options(has_linearizable_reads=True)
    assert settings_of(1, asked)[0].has_linearizable_reads
    assert "stop_leader" not in settings_of(1, replace(asked, faults=("pause",)))[0].faults
    assert settings_of(1, replace(asked, faults=("stop_leader",)))[0].faults == ("stop_leader",)
    assert not settings_of(1, replace(asked, draws=2))[0].has_linearizable_reads
