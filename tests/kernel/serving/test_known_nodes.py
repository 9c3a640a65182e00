"""Nodes that a broker names and asks after its start, or after the death of its controller."""

import pytest

from tests.kernel.harness import World, config_of
from tests.network.raw_client import Raw, api_versions, ready_world
from wire.errors import ErrorCode
from wire.messages.codec import default_request

METADATA = 3
DESCRIBE_CLUSTER = 60


@pytest.mark.parametrize("seed", range(3))
def test_a_restarted_broker_answers_when_it_knows_the_brokers(seed: int) -> None:
    """Told of no controller, librdkafka waits for its own time-out: the 30 s of a mixed quorum."""
    world = ready_world(seed=seed)
    standby = next(i for i in world.alive if i != world.active())
    world.kill(standby)
    world.start(standby)
    answer = world.client(standby).call(METADATA, default_request(METADATA))
    assert {broker.node_id for broker in answer.brokers} >= set(world.alive) - {standby}
    assert answer.controller_id in {broker.node_id for broker in answer.brokers}


def test_the_controller_named_is_one_that_lives_when_no_broker_leads() -> None:
    """As beside a Kafka controller: the leader is no broker, a dead broker not fenced yet."""
    world = World(3)
    world.nodes[1].config = config_of(1, is_broker=False)
    world.start_all()
    world.run_until(world.is_ready)
    assert world.active() == 1, "the first in rank leads"
    world.kill(2)
    client = world.client(3)
    named = {client.call(METADATA, default_request(METADATA)).controller_id for _ in range(20)}
    assert named == {3}


def test_the_controller_named_lives_while_nobody_knows_that_the_leader_died() -> None:
    """Its machine lost its power: no connection is reset, and the election is still to come."""
    world = ready_world()
    leader = world.active()
    assert leader is not None
    broker = next(i for i in world.alive if i != leader)
    client = world.client(broker)
    world.kill(leader)
    assert client.call(METADATA, default_request(METADATA)).controller_id == broker
    assert client.call(DESCRIBE_CLUSTER, default_request(DESCRIBE_CLUSTER)).controller_id == broker


def test_controllers_answer_before_there_is_a_leader() -> None:
    world = World(3)
    world.start(1)
    raw = Raw(world, 1, "CONTROLLER")
    raw.send(api_versions(7))
    world.run_for(100)
    assert raw.correlation_ids == [7]


def test_a_request_to_a_leader_that_is_stopped_goes_to_the_next_one() -> None:
    """Not after 30 s, when the stopped leader's time for its answer is over."""
    world = ready_world()
    leader = world.active()
    assert leader is not None
    broker = next(i for i in world.alive if i != leader)
    client = world.client(broker)
    assert client.create_topic("before").error_code is ErrorCode.none
    world.pause(leader)
    sent_ms = world.now_ms
    assert client.create_topic("after").error_code is ErrorCode.none
    assert world.now_ms - sent_ms < 6_000
    world.run_for(10_000)
    assert all(world.kernel(i).is_unfenced for i in world.alive if i != leader)
    world.resume(leader)
    world.run_until(lambda: "after" in world.kernel(leader).cache.image.topic_id_by_name)
