"""A broker of which nothing is heard is fenced while a core goes on without it."""

import pytest

from simulator.checks.liveness.sessions import (
    COMMITTED_WITHIN_MS,
    Reign,
    check_silent,
    reign_of,
)
from simulator.checks.violation import Violation
from tests.simulator.worlds import leader, observer, quiet_world


def world_without_a_broker(session_ms):
    """Its observer is dead; the world has run on for the session and what a commit may take."""
    world = quiet_world(session_timeout_ms=session_ms)
    since, silent = reign_of(world), observer(world).id
    world.machines[silent].kill()
    world.run(world.scheduler.now_us + (session_ms + COMMITTED_WITHIN_MS) * 1_000)
    return world, silent, since


@pytest.fixture(scope="module")
def found():
    return world_without_a_broker(1_500)


def test_a_silent_broker_is_fenced(found):
    world, silent, since = found
    assert since.number == leader(world).id
    check_silent(world, (silent,), since)
    assert world.probes.marks["silent_broker_fenced"] == 1


def test_one_that_is_not_is_found(found):
    world, _, since = found
    alive = next(number for number in sorted(world.voters) if number != since.number)
    with pytest.raises(Violation, match=rf"liveness: node {alive} is silent for .* not fenced"):
        check_silent(world, (alive,), since)


@pytest.mark.parametrize("change", ["no reign", "another epoch", "too short"])
def test_without_a_steady_controller_nothing_is_said(found, change):
    world, _, since = found
    alive = next(number for number in sorted(world.voters) if number != since.number)
    began = {
        "no reign": None,
        "another epoch": Reign(since.number, since.epoch - 1, since.seen_ms),
        "too short": Reign(since.number, since.epoch, since.seen_ms + 1),
    }[change]
    check_silent(world, (alive,), began)
