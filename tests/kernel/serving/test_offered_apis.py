"""The APIs of a broker whose records are served beside the kernel."""

import pytest

from kernel import events
from kernel.port import RecordsPort
from kernel.serving.dispatch import APIS, apis_of
from network.timers import IDLE
from tests.kernel.harness import World
from tests.kernel.port import PORT, post, serving_world
from tests.network.raw_client import ready_world
from wire.api_keys import (
    API_VERSIONS,
    DESCRIBE_LOG_DIRS,
    FIND_COORDINATOR,
    METADATA,
    PRODUCE,
)
from wire.api_table import SCHEMAS, ListenerKind
from wire.messages import codec
from wire.messages.conversion import default_entity

BROKER = ListenerKind.BROKER
DELETE_RECORDS, INIT_PRODUCER_ID = 21, 22
MORE = RecordsPort(frozenset({PRODUCE, INIT_PRODUCER_ID, DELETE_RECORDS}))


def listed(world: World, listener: str = "PLAINTEXT") -> dict[int, tuple[int, int]]:
    """The ranges that ApiVersions lists."""
    body = codec.newest(API_VERSIONS, "request").ApiVersionsRequest(
        client_software_name="a", client_software_version="1"
    )
    answer = world.client(1, listener).call(API_VERSIONS, body)
    return {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}


def ranges(apis: object) -> dict[int, tuple[int, int]]:
    assert isinstance(apis, dict)
    return {key: (api.min_version, api.max_version) for key, api in apis.items()}


def test_the_offered_apis_are_listed_at_broker_listeners_only() -> None:
    world = World(1, 1, port=MORE)
    world.start(1)
    world.run_until(lambda: len(world.nodes[1].told) > 1)
    post(world, 1, events.RecordsReady())
    world.run_until(world.is_ready)
    found = listed(world)
    for key in MORE.offered:
        assert found[key] == SCHEMAS[key].broker_range
    without = ranges(APIS[BROKER])
    assert found.keys() == (without.keys() | MORE.offered) - {DESCRIBE_LOG_DIRS}
    assert all(found[key] == without[key] for key in found.keys() & without.keys())
    assert listed(world, "CONTROLLER") == ranges(APIS[ListenerKind.CONTROLLER])


def test_a_node_without_a_port_lists_what_it_did_before() -> None:
    assert apis_of(None) is APIS
    found = listed(ready_world(1))
    assert found == ranges(APIS[BROKER])
    assert DESCRIBE_LOG_DIRS in found
    assert INIT_PRODUCER_ID not in found


def test_of_two_nodes_each_lists_its_own() -> None:
    """The bodies are cached for the process."""
    first, second = listed(serving_world()), listed(ready_world(1))
    assert DESCRIBE_LOG_DIRS in first
    assert first == second
    assert DESCRIBE_LOG_DIRS not in ranges(apis_of(RecordsPort(frozenset()))[BROKER])


def test_a_request_of_an_offered_api_is_an_error_of_the_node() -> None:
    world = serving_world()
    client = world.client(1)
    new = codec.newest(DESCRIBE_LOG_DIRS, "request")
    with pytest.raises(AssertionError, match="is about records"):
        client.call(DESCRIBE_LOG_DIRS, new.DescribeLogDirsRequest(topics=None))


def test_the_other_requests_are_served_as_before() -> None:
    world = serving_world()
    client = world.client(1)
    topics = default_entity(codec.newest(METADATA, "request").MetadataRequest)
    assert [one.node_id for one in client.call(METADATA, topics).brokers] == [1]
    new = codec.newest(FIND_COORDINATOR, "request")
    body = new.FindCoordinatorRequest(key_type=0, coordinator_keys=("g",))
    assert FIND_COORDINATOR not in PORT.offered
    assert len(client.call(FIND_COORDINATOR, body).coordinators) == 1


# ---- connections that another loop reads ---------------------------------------------------------


def test_the_idle_time_of_a_used_connection_begins_anew() -> None:
    world = serving_world()
    for connection_id in (1 << 40, (1 << 40) + 1):
        post(world, 1, events.ConnectionOpened(connection_id, "PLAINTEXT"))
    at_ms = world.kernel(1)._clock.timers.at_ms
    first_ms = world.now_ms
    idle_ms = world.kernel(1).config.connection_limits.idle_ms_max
    assert at_ms[IDLE] == first_ms + idle_ms
    world.run_for(5_000)
    post(world, 1, events.ConnectionUsed(1 << 40))
    assert at_ms[IDLE] == first_ms + idle_ms, "the other one is idle"
    post(world, 1, events.ConnectionClosed((1 << 40) + 1))
    assert at_ms[IDLE] == first_ms + 5_000 + idle_ms


def test_what_the_other_loop_reports_of_a_closed_connection_is_ignored() -> None:
    """The kernel may have closed or refused it meanwhile."""
    world = serving_world()
    count = len(world.kernel(1).connections)
    post(world, 1, events.ConnectionUsed(1 << 40))
    post(world, 1, events.BytesReceived(1 << 40, b"\0\0"))
    post(world, 1, events.ConnectionClosed(1 << 40))
    assert len(world.kernel(1).connections) == count
