"""A node whose broker coordinates groups and transactional ids, and a client of its API."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from coordinator.records.kinds import TRANSACTION_STATE
from inspection.api import application
from inspection.records_side import RecordsStalledError
from inspection.resources import Service
from inspection.running_node import RunningNode
from metadata.image import EMPTY, Image
from tests.broker.coordinators.test_classic_apis import CONFIG, Members
from tests.inspection.conftest import Site
from tests.kernel.harness import World

TRANSACTIONS = b"t" * 16


class Side:
    """The records of a broker, asked in the same thread."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self.is_stalled = False
        self.questions = 0

    async def coordinators(self, question: Any) -> Any:
        if self.is_stalled:
            raise RecordsStalledError("as the test says")
        self.questions += 1
        return question(self.members.broker.coordinators)


class NodeOfBroker(RunningNode):
    """A node with the metadata of its broker."""

    @property
    def image(self) -> Image:
        side: Any = self._records
        return EMPTY if side is None else side.members.metadata.image


@pytest.fixture(scope="module")
def one_world() -> World:
    """A world that nothing changes."""
    world = World(1)
    world.start_all()
    return world


@pytest.fixture
async def coordinating(one_world: World) -> AsyncIterator[tuple[Site, Members, Side]]:
    members = Members(groups=CONFIG)
    members.offsets()
    members.metadata.topic(TRANSACTION_STATE, TRANSACTIONS, partitions=2)
    members.publish()
    members.settle()
    side = Side(members)
    site = await open_site(one_world, side)
    yield site, members, side
    await site.client.close()
    assert site.errors == []


async def open_site(world: World, side: Any) -> Site:
    errors: list[str] = []
    node = NodeOfBroker(world.kernel(1), world._now, records=side)
    app = application(Service(node), lambda path, stack: errors.append(f"{path}\n{stack}"))
    client = TestClient(TestServer(app))
    await client.start_server()
    site = Site(world, 1, client)
    site.errors = errors
    return site
