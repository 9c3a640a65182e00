"""The quorum as a follower describes it from the leader's answer."""

from collections.abc import Callable
from typing import Any

import pytest

from inspection.quorum_views import QuorumView
from inspection.running_node import RunningNode
from kernel.kernel import Kernel
from tests.inspection.conftest import ready_world
from tests.kernel.harness import World


async def described(meanwhile: Callable[[World, Kernel], None]) -> tuple[QuorumView, Kernel]:
    """The view of a follower, with what happens before the leader's answer arrives."""
    world = ready_world()
    leader = world.active()
    assert leader is not None
    asked = world.client(leader)
    kernel = world.kernel(next(i for i in (1, 2, 3) if i != leader))

    async def ask(api_key: int, body: Any) -> Any:
        answer = asked.call(api_key, body)
        meanwhile(world, kernel)
        return answer

    return await RunningNode(kernel, world._now, ask).quorum(), kernel


def lose_the_leader(world: World, kernel: Kernel) -> None:
    active = world.active()
    assert active is not None
    world.kill(active)
    world.run_until(lambda: kernel.core.leader.leader_id is None)


def change_the_leader(world: World, kernel: Kernel) -> None:
    before = world.active()
    lose_the_leader(world, kernel)
    world.run_until(lambda: kernel.core.leader.leader_id not in (None, before))


async def test_the_leaders_answer_is_shown() -> None:
    view, kernel = await described(lambda world, kernel: None)
    assert (view.leader_id, view.told_by) == (kernel.core.leader.leader_id, "leader")
    shown = {voter.id: voter.status for voter in view.voters}
    assert shown == {i: "leader" if i == view.leader_id else "follower" for i in (1, 2, 3)}
    assert {voter.lag for voter in view.voters} == {0}


@pytest.mark.parametrize("meanwhile", [lose_the_leader, change_the_leader])
async def test_the_answer_of_a_leader_lost_meanwhile_is_not_shown(
    meanwhile: Callable[[World, Kernel], None],
) -> None:
    view, kernel = await described(meanwhile)
    assert (view.leader_id, view.told_by) == (kernel.core.leader.leader_id, "this node")
    shown = {voter.id: voter.status for voter in view.voters}
    assert shown == {i: "leader" if i == view.leader_id else "unknown" for i in (1, 2, 3)}
