"""Time-outs and back-offs of 0, which Kafka's validators take: a quorum, and no busy loop."""

from typing import Final

import pytest

from kernel.config import QuorumConfig
from tests.kernel.harness import World
from wire.errors import ErrorCode

ZEROS: Final = {
    "election": QuorumConfig(election_timeout_ms=0),
    "retry": QuorumConfig(retry_backoff_ms=0),
    "both": QuorumConfig(election_timeout_ms=0, retry_backoff_ms=0),
    "fetch": QuorumConfig(fetch_timeout_ms=0),
    "request": QuorumConfig(request_timeout_ms=0),
    "all": QuorumConfig(
        election_timeout_ms=0, fetch_timeout_ms=0, request_timeout_ms=0, retry_backoff_ms=0
    ),
}
STEPS_A_SECOND_MAX: Final = 1_000


def steps_of(world: World, duration_ms: int) -> int:
    before = world.steps
    world.run_for(duration_ms)
    return world.steps - before


@pytest.mark.parametrize("name", ZEROS)
@pytest.mark.parametrize("count", [1, 3])
def test_a_quorum_with_a_time_of_0_elects_serves_and_is_quiet(name: str, count: int) -> None:
    world = World(count, quorum=ZEROS[name])
    world.start_all()
    world.run_until(world.is_ready)
    assert world.client(1).create_topic("a").error_code is ErrorCode.none
    assert steps_of(world, 2_000) < 2 * STEPS_A_SECOND_MAX


@pytest.mark.parametrize("name", ZEROS)
def test_who_is_left_alone_with_a_time_of_0_is_quiet_and_elects_again(name: str) -> None:
    """Elections that nobody answers, requests that nobody takes; then one that is stopped."""
    world = World(3, quorum=ZEROS[name])
    world.start_all()
    world.run_until(world.is_ready)
    world.kill(2)
    world.kill(3)
    assert steps_of(world, 2_000) < 2 * STEPS_A_SECOND_MAX
    world.start(2)
    world.start(3)
    world.run_until(world.is_ready)
    paused = world.active()
    assert paused is not None
    world.pause(paused)
    others = [i for i in world.alive if i != paused]
    world.run_until(lambda: any(world.kernel(i).state.is_active for i in others))
