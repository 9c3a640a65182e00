"""A real quorum in one process with topics in it, and HTTP clients of its nodes."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from inspection.api import application
from inspection.resources import Service
from inspection.running_node import RunningNode
from tests.kernel.harness import World


def ready_world() -> World:
    world = World(3)
    world.start_all()
    world.run_until(world.is_ready)
    client = world.client(1)
    client.create_topic("orders", partitions=3, replicas=3)
    client.create_topic("payments", partitions=2, replicas=2)
    client.create_topic("users")
    world.run_for(50)
    return world


class Site:
    """One node and its API."""

    def __init__(self, world: World, node_id: int, client: "TestClient[Any, Any]") -> None:
        self.world = world
        self.node_id = node_id
        self.client = client
        self.errors: list[str] = []

    @property
    def kernel(self) -> Any:
        return self.world.kernel(self.node_id)

    @property
    def end_offset(self) -> int:
        return self.kernel.cache.image.provenance.end_offset

    async def get(self, path: str, status: int = 200, **headers: str) -> Any:
        response = await self.client.get(path, headers=headers)
        assert response.status == status, await response.text()
        return await response.json(content_type=None)


async def open_site(world: World, node_id: int, records: Any = None) -> Site:
    errors: list[str] = []
    node = RunningNode(world.kernel(node_id), world._now, records=records)
    app = application(Service(node), lambda path, stack: errors.append(f"{path}\n{stack}"))
    client = TestClient(TestServer(app))
    await client.start_server()
    site = Site(world, node_id, client)
    site.errors = errors
    return site


@pytest.fixture
def served_world() -> World:
    """World whose leader `site` opens; a module whose requests change nothing may share one."""
    return ready_world()


@pytest.fixture
async def site(served_world: World) -> AsyncIterator[Site]:
    leader = served_world.active()
    assert leader is not None
    opened = await open_site(served_world, leader)
    served_world.run_for(600)  # a NoOp record is committed
    yield opened
    await opened.client.close()
    assert opened.errors == []
