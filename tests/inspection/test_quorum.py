"""The quorum as a follower describes it from the leader's answer."""

from collections.abc import Callable
from typing import Any

import pytest

from inspection.quorum_views import QuorumView
from inspection.running_node import RunningNode
from kernel.kernel import Kernel
from tests.inspection.conftest import ready_world
from tests.kernel.dynamic import dynamic_world, leader_of, remove_body
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


async def test_a_leader_that_is_being_removed_is_shown_as_one() -> None:
    world = dynamic_world(3, 1, 2, 3, is_broker=True)
    world.start_all()
    world.run_until(world.is_ready)
    leader = leader_of(world)
    for node_id in world.nodes:
        if node_id != leader:
            world.pause(node_id)
    world.client(leader, "CONTROLLER").send(81, remove_body(leader))
    world.run_for(500)
    kernel = world.kernel(leader)
    assert not kernel.core.is_voter
    view = await RunningNode(kernel, world._now).quorum()
    assert (view.role, view.leader_id, view.told_by) == ("leader", leader, "leader")
    assert {voter.status for voter in view.voters} == {"follower"}
    assert [(each.id, each.status, each.lag) for each in view.observers] == [(leader, "leader", 0)]
    assert all(voter.lag for voter in view.voters), "behind its record"


@pytest.mark.parametrize("meanwhile", [lose_the_leader, change_the_leader])
async def test_the_answer_of_a_leader_lost_meanwhile_is_not_shown(
    meanwhile: Callable[[World, Kernel], None],
) -> None:
    view, kernel = await described(meanwhile)
    assert (view.leader_id, view.told_by) == (kernel.core.leader.leader_id, "this node")
    shown = {voter.id: voter.status for voter in view.voters}
    assert shown == {i: "leader" if i == view.leader_id else "unknown" for i in (1, 2, 3)}
