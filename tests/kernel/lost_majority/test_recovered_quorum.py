"""A quorum that lost its majority goes on: nodes in one process, folders as they leave them."""

import pytest
from msgspec.structs import replace

from kernel.lost_majority.reading import read_folder
from kernel.lost_majority.writing import carry_out
from raft.membership.lost_majority import RecoveryPlan, plan_recovery
from raft.state import RaftInvariantError
from storage.log_dir.meta_properties import MetaProperties, write_meta_properties
from tests.kernel.dynamic import (
    add,
    agree,
    directory,
    directory_of,
    dynamic_world,
    leader_of,
    voter,
    voter_ids,
)
from tests.kernel.harness import CLUSTER_ID, World, create_topic_body
from tests.kernel.lost_majority.folders import NOBODY, audit_of
from wire.types import NodeId


def recover(world: World, node_id: int) -> RecoveryPlan:
    vfs = world.nodes[node_id].vfs
    write_meta_properties(
        vfs, "/data", MetaProperties(CLUSTER_ID, NodeId(node_id), directory(node_id))
    )
    plan = plan_recovery([read_folder(vfs, "/data", NOBODY).replica], "/data", voter(node_id))
    assert isinstance(plan, RecoveryPlan)
    carry_out(vfs, audit_of(plan), "now")
    return plan


def topics(world: World, node_id: int) -> set[str]:
    return set(world.kernel(node_id).cache.image.topic_id_by_name)


def test_one_of_three_goes_on_and_the_old_voters_come_back_as_observers() -> None:
    world = dynamic_world(3, 1, 2, 3)
    world.start_all()
    world.run_until(world.is_ready)
    world.client(leader_of(world), "CONTROLLER").call(19, create_topic_body("before"))
    world.run_for(1_000)
    for node_id in (1, 2, 3):
        world.kill(node_id)
    plan = recover(world, 1)
    assert not plan.is_proven
    assert [each.id for each in plan.wiped] == [2, 3]
    world.start(1)
    world.run_until(lambda: world.active() == 1)
    assert world.kernel(1).core.epoch == plan.epoch + 1
    assert voter_ids(world, 1) == (1,)
    world.client(1, "CONTROLLER").call(19, create_topic_body("after"))
    world.run_for(1_000)
    assert topics(world, 1) == {"before", "after"}
    old = world.nodes[2]
    old.config = replace(old.config, quorum=replace(old.config.quorum, joins=True))
    world.start(2)  # its folder was not emptied, and it was a voter
    world.run_until(lambda: agree(world, 1) and "after" in topics(world, 2))
    world.run_for(10_000)
    assert world.active() == 1
    assert agree(world, 1), "by its directory id it has left, and does not join unasked"
    assert not world.kernel(2).core.is_voter, "it is no voter by its directory id"
    world.nodes[3].vfs = type(world.nodes[3].vfs)()
    world.nodes[3].vfs.make_directory("/data")
    world.nodes[3].wipes += 1
    world.start(3)
    world.run_until(lambda: "after" in topics(world, 3))
    world.run_until(lambda: add(world, 3, directory_id=directory_of(world, 3))[0] == 0)
    world.run_until(lambda: agree(world, 1, 3))


def test_an_old_majority_that_went_on_alone_ends_where_it_meets_the_recovered_node() -> None:
    """Their epoch is below its, so they would cut what they committed alone: they stop instead."""
    world = dynamic_world(3, 1, 2, 3)
    world.start_all()
    world.run_until(world.is_ready)
    world.run_for(1_000)
    for node_id in (1, 2, 3):
        world.kill(node_id)
    recover(world, 1)
    for node_id in (2, 3):
        world.start(node_id)
    world.run_until(lambda: world.active() in (2, 3))
    world.client(leader_of(world), "CONTROLLER").call(19, create_topic_body("alone"))
    world.run_for(1_000)
    world.start(1)
    with pytest.raises(RaftInvariantError, match="INV-HW-4"):
        world.run_for(10_000)
