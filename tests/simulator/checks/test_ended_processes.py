"""Processes that end by themselves, and those that should and do not."""

import pytest

from kernel.effects import Exit
from simulator.checks.liveness.shutdown import BROKER_MS_MAX, SLACK_MS, VOTER_MS_MAX
from simulator.checks.violation import Violation
from tests.simulator.worlds import follower, observer, quiet_world


@pytest.fixture
def world():
    return quiet_world()


@pytest.mark.parametrize(
    ("code", "is_asked", "said"),
    [(1, False, "exit 1: why"), (1, True, "exit 1: why"), (0, False, "nobody asked")],
)
def test_i20_a_process_that_ends_by_itself(world, code, is_asked, said):
    machine = follower(world)
    machine.is_terminating = is_asked
    with pytest.raises(Violation, match=rf"I20: node {machine.id} .*{said}"):
        machine._exit(Exit(code, "why"))


def test_who_is_asked_to_may_end(world):
    machine = observer(world)
    machine.terminate()
    world.run(world.scheduler.now_us + 1_000_000)
    assert not machine.is_up


@pytest.mark.parametrize(
    ("find", "bound_ms"), [(follower, BROKER_MS_MAX + VOTER_MS_MAX), (observer, BROKER_MS_MAX)]
)
def test_a_shutdown_without_end_is_found(world, find, bound_ms):
    machine, us = find(world), 1_000
    machine.is_terminating, machine._asked_ms = True, machine.now().monotonic_ms
    world.run(world.scheduler.now_us + (bound_ms + SLACK_MS) * us)
    with pytest.raises(Violation, match=rf"liveness: node {machine.id} shuts down for"):
        world.run(world.scheduler.now_us + 2_000_000)


def test_a_shutdown_that_is_paused_is_not_late(world):
    machine = observer(world)
    machine.pause()
    machine.terminate()
    world.run(world.scheduler.now_us + 20_000_000)
    world.check_shutdowns()
    assert machine.is_up
    machine.resume()
    world.run(world.scheduler.now_us + 1_000_000)
    assert not machine.is_up
