"""A second voter is added to a controller alone whose disk is full."""

import errno

import pytest

from tests.kernel.dynamic import add_body, agree, dynamic_world, voter_ids
from tests.kernel.harness import create_topic_body


@pytest.mark.parametrize("writes", [1, 1_000])
def test_its_record_is_written_with_the_space_and_nobody_ends(writes: int) -> None:
    """The record is kept like any other append, and written when there is space: then it is not
    alone any more, and with space for that record only the other voter leads.
    """
    world = dynamic_world(2, 1, is_broker=True)
    world.start_all()
    world.run_until(world.is_ready)
    world.run_for(3_000)
    left = 0

    def failing(kind: str, path: str) -> int | None:
        nonlocal left
        if kind != "write" or not path.endswith(".log"):
            return None
        left -= 1
        return errno.ENOSPC if left < 0 else None

    controller, client = world.client(1, "CONTROLLER"), world.client(1)
    world.run_for(50)
    world.nodes[1].vfs.failing = failing
    controller.send(80, add_body(2))
    world.run_for(20)
    client.send(19, create_topic_body("a"))
    world.run_for(100)
    assert voter_ids(world, 1) == (1,)
    left = writes
    world.run_until(lambda: voter_ids(world, 1) == (1, 2))
    world.run_for(2_000)
    assert world.kernel(2 if writes == 1 else 1).core.is_leader
    world.nodes[1].vfs.failing = None
    world.run_for(5_000)
    assert world.alive == [1, 2], [node.exit for node in world.nodes.values()]
    assert agree(world, 1, 2)
    assert world.client(1).create_topic("b").error_code.value == 0
