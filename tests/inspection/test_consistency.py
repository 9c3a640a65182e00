"""Answers as consistent as asked for: local, of the leader, by a redirection, or refused."""

from collections.abc import AsyncIterator
from itertools import count

import pytest
from aiohttp.test_utils import TestClient, TestServer
from msgspec.structs import replace
from yarl import URL

from inspection.api import application
from inspection.consistency import LINEARIZABLE, OFFSET_HEADER
from inspection.resources import Service
from inspection.routes import ROUTES, Route
from inspection.running_node import RunningNode
from kernel import events
from kernel.lifecycle.controller_registration import INSPECTION_ENDPOINT, registered_endpoints
from raft.fetching.reads import ReadRefusal
from tests.inspection.conftest import Site
from tests.kernel.harness import World, config_of
from wire.types import Endpoint

ASKED = f"consistency={LINEARIZABLE}"
EVERYWHERE = Endpoint("HTTP", "0.0.0.0", 8080)
TOKENS = count(1)


def ready(listener: Endpoint | None = EVERYWHERE) -> World:
    world = World(3, inspection_listener=listener)
    world.start_all()
    world.run_until(world.is_ready)
    world.client(1).create_topic("orders")
    world.run_for(2_500)
    return world


async def opened(world: World, node_id: int) -> Site:
    """The API of a node whose reads the virtual quorum confirms or refuses."""

    async def confirm() -> ReadRefusal | None:
        token, node = next(TOKENS), world.nodes[node_id]
        world.post(node_id, node.life, events.ReadAsked(token))
        world.run_until(lambda: any(read.token == token for read in node.reads))
        (answer,) = [read for read in node.reads if read.token == token]
        return answer.refusal

    node = RunningNode(world.kernel(node_id), world._now, confirm_read=confirm)
    app = application(Service(node), lambda path, stack: pytest.fail(f"{path}\n{stack}"))
    client = TestClient(TestServer(app))
    await client.start_server()
    return Site(world, node_id, client)


@pytest.fixture(scope="module")
def world() -> World:
    return ready()


@pytest.fixture
async def leader(world: World) -> AsyncIterator[Site]:
    node_id = world.active()
    assert node_id is not None
    site = await opened(world, node_id)
    yield site
    await site.client.close()


@pytest.fixture
async def follower(world: World) -> AsyncIterator[Site]:
    site = await opened(world, 1 if world.active() != 1 else 2)
    yield site
    await site.client.close()


async def test_the_leader_answers_with_what_is_committed(leader: Site) -> None:
    core = leader.kernel.core
    before = core.high_watermark
    response = await leader.client.get(f"/v1/topics/orders?{ASKED}")
    assert response.status == 200
    assert int(response.headers[OFFSET_HEADER]) >= before


async def test_a_local_answer_names_its_offset_and_asks_nobody(follower: Site) -> None:
    before = follower.world.now_ms
    for path in ("/v1/topics", "/v1/topics?consistency=local"):
        response = await follower.client.get(path)
        assert response.headers[OFFSET_HEADER] == str(follower.end_offset)
    assert follower.world.now_ms == before


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
async def test_every_resource_of_a_follower_redirects(follower: Site, route: Route) -> None:
    path = route.path.replace("{id}", "1").replace("{offset}", "1").replace("{type}", "topic")
    path = path.replace("{name}", "a%20b").replace("{topic}", "a").replace("{partition}", "0")
    path += f"?from=1&{ASKED}" if "diff" in path else f"?{ASKED}"
    response = await follower.client.get(URL(path, encoded=True), allow_redirects=False)
    assert response.status == 307
    assert response.headers["Location"] == f"http://{follower.world.active()}:8080{path}"


async def test_a_stream_redirects_too(follower: Site, leader: Site) -> None:
    path = f"/v1/metadata/stream?{ASKED}"
    assert (await follower.client.get(path, allow_redirects=False)).status == 307
    response = await leader.client.get(path)
    assert response.status == 200
    response.close()


async def test_an_unknown_consistency_is_named(leader: Site) -> None:
    problem = await leader.get("/v1/topics?consistency=eventual", 400)
    assert (problem["parameter"], problem["allowed"]) == (
        "consistency",
        "one of local, linearizable",
    )


async def test_a_known_offset_is_asked_about_linearizably(leader: Site) -> None:
    etag = (await leader.client.get(f"/v1/topics?{ASKED}")).headers["ETag"]
    again = await leader.client.get(f"/v1/topics?{ASKED}", headers={"If-None-Match": etag})
    assert again.status == 304
    assert again.headers[OFFSET_HEADER] in etag


async def test_a_node_that_is_elected_while_it_refuses_sends_nobody_to_itself(world: World) -> None:
    async def confirm() -> ReadRefusal | None:
        return ReadRefusal.NOT_LEADER

    node_id = world.active()
    assert node_id is not None
    node = RunningNode(world.kernel(node_id), world._now, confirm_read=confirm)
    app = application(Service(node), lambda path, stack: pytest.fail(f"{path}\n{stack}"))
    async with TestClient(TestServer(app)) as client:
        response = await client.get(f"/v1/topics?{ASKED}", allow_redirects=False)
        problem = await response.json(content_type=None)
    assert response.status == 503
    assert problem["detail"] == "no linearizable read: this node was elected meanwhile"


async def test_a_leader_without_a_majority_says_so() -> None:
    world = ready()
    node_id = world.active()
    assert node_id is not None
    site = await opened(world, node_id)
    for other in set(world.alive) - {node_id}:
        world.pause(other)
    response = await site.client.get(f"/v1/topics?{ASKED}")
    problem = await response.json(content_type=None)
    assert (response.status, response.headers["Retry-After"]) == (503, "1")
    assert problem["detail"] == f"no linearizable read: {ReadRefusal.NO_MAJORITY.value}"
    assert (problem["parameter"], problem["value"]) == ("consistency", LINEARIZABLE)
    world.run_for(5_000)
    assert "no leader is known" in (await site.get(f"/v1/topics?{ASKED}", 503))["detail"]
    await site.client.close()


async def test_a_leader_without_a_registered_api_is_named() -> None:
    """As one of Kafka's is."""
    world = ready(listener=None)
    leader = world.active()
    site = await opened(world, 1 if leader != 1 else 2)
    problem = await site.get(f"/v1/topics?{ASKED}", 503)
    assert f"leader {leader} has registered no inspection API" in problem["detail"]
    await site.client.close()


async def test_the_address_of_a_leader_may_be_one_of_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ready()
    monkeypatch.setattr(RunningNode, "inspection_address", lambda *_: ("::1", 8080))
    site = await opened(world, 1 if world.active() != 1 else 2)
    response = await site.client.get(f"/v1/topics?{ASKED}", allow_redirects=False)
    assert response.headers["Location"] == f"http://[::1]:8080/v1/topics?{ASKED}"
    await site.client.close()


async def test_a_leader_with_the_address_of_the_node_that_is_asked_is_not_redirected_to() -> None:
    """Each of three hosts has its API on loopback: a client that follows would come back here."""
    world = ready(Endpoint("HTTP", "127.0.0.1", 8080))
    leader = world.active()
    site = await opened(world, 1 if leader != 1 else 2)
    problem = await site.get(f"/v1/topics?{ASKED}", 503)
    assert f"leader {leader} has registered 127.0.0.1:8080" in problem["detail"]
    await site.client.close()


async def test_a_node_that_cannot_tell_refuses() -> None:
    world = ready()
    leader = world.active()
    assert leader is not None
    node = RunningNode(world.kernel(leader), world._now)
    assert await node.confirm_read() is ReadRefusal.NOT_LEADER


@pytest.mark.parametrize(
    ("host", "registered"),
    [("0.0.0.0", "1"), ("::", "1"), ("127.0.0.1", "127.0.0.1"), ("::1", "::1")],
)
def test_an_api_is_registered_with_a_host_that_others_reach(host: str, registered: str) -> None:
    config = config_of(1, inspection_listener=Endpoint("HTTP", host, 8080))
    listener, api = registered_endpoints(config)
    assert listener == config.advertised_controller_listeners[0]
    assert api == Endpoint(INSPECTION_ENDPOINT, registered, 8080)


def test_a_listener_of_that_name_and_a_node_without_api_register_none() -> None:
    config = config_of(1)
    assert registered_endpoints(config) == config.advertised_controller_listeners
    named = Endpoint(INSPECTION_ENDPOINT, "1", 9092)
    taken = replace(config, listeners=(named, config.listeners[1]), inspection_listener=EVERYWHERE)
    assert registered_endpoints(taken) == config.advertised_controller_listeners
