"""SIGTERM: the hand-over, and nodes that leave when nobody is there to hand over to."""

from dataclasses import replace

import pytest

from kernel.effects import Exit, LogLevel
from kernel.lifecycle.broker_lifecycle import BrokerState
from metadata.image import Partition
from network.timers import HEARTBEAT, REGISTRATION_TIMEOUT, SHUTDOWN_CHECK
from raft.roles import Resigned, Unattached
from tests.kernel.harness import World, create_topic_body
from wire.errors import ErrorCode
from wire.messages import codec
from wire.types import NodeId

TELLS = "unacknowledged"
"""Attribute of Resigned with those who have not been told."""


def ready_world(seed: int = 1) -> World:
    world = World(3, seed)
    world.start_all()
    world.run_until(world.is_ready)
    return world


def stopped(world: World, *nodes: int) -> bool:
    return all(world.nodes[node].kernel is None for node in nodes)


def events_of(world: World, node_id: int) -> list[str]:
    return [log.event for log in world.nodes[node_id].logs]


@pytest.mark.parametrize("seed", range(3))
def test_a_leader_hands_over_within_some_round_trips(seed: int) -> None:
    """1 ms latency, 1 ms flushes: what is left are the hops of the protocol."""
    world = ready_world(seed)
    leader = world.active()
    assert leader is not None
    for number in range(9):
        answer = world.client(leader, "CONTROLLER").create_topic(f"t{number}")
        assert answer.error_code is ErrorCode.none
    world.terminate(leader)
    took_ms = world.run_until(lambda: world.active() not in (None, leader))
    assert took_ms <= 50
    world.run_until(lambda: stopped(world, leader))
    assert world.nodes[leader].exit == Exit(0, "shut down")
    assert "controlled_shutdown_given_up" not in events_of(world, leader)


@pytest.mark.parametrize("seed", range(3))
def test_all_nodes_together_end_at_once(seed: int) -> None:
    world = ready_world(seed)
    for node_id in world.nodes:
        world.terminate(node_id)
    took_ms = world.run_until(lambda: stopped(world, *world.nodes))
    assert took_ms <= 500
    assert all(node.exit == Exit(0, "shut down") for node in world.nodes.values())


def test_one_after_the_other_ends_at_once() -> None:
    """The last two have no majority behind them."""
    world = ready_world()
    for node_id in world.nodes:
        world.terminate(node_id)
        assert world.run_until(lambda: stopped(world, node_id)) <= 500  # noqa: B023
        assert world.nodes[node_id].exit == Exit(0, "shut down")


@pytest.mark.parametrize("is_leader_left", [True, False])
def test_without_a_majority_a_node_ends_at_once(is_leader_left: bool) -> None:
    world = ready_world()
    leader = world.active()
    assert leader is not None
    left = leader if is_leader_left else leader % 3 + 1
    for node_id in world.nodes:
        if node_id != left:
            world.kill(node_id)
    world.run_for(100)
    world.terminate(left)
    assert world.run_until(lambda: stopped(world, left)) <= 300
    assert world.nodes[left].exit == Exit(0, "shut down")
    [given_up] = [
        log for log in world.nodes[left].logs if log.event == "controlled_shutdown_given_up"
    ]
    assert (given_up.level, given_up.fields) == (LogLevel.INFO, {"reason": "no quorum"})


@pytest.mark.parametrize("role", [Resigned, Unattached])
def test_a_leader_whose_successors_die_ends_at_once(role: type) -> None:
    """All were told that it resigned, or it has voted for one already."""
    world = ready_world()
    leader = world.active()
    assert leader is not None
    core = world.kernel(leader).core
    world.terminate(leader)
    world.run_until(lambda: isinstance(core.role, role) and not getattr(core.role, TELLS, None))
    for node_id in world.nodes:
        if node_id != leader:
            world.kill(node_id)
    assert world.run_until(lambda: stopped(world, leader)) <= 100
    assert world.nodes[leader].exit == Exit(0, "shut down")


def test_a_leader_waits_for_its_successor_while_there_can_be_one() -> None:
    """Of three voters one is gone, the other does not answer: its vote would do."""
    world = ready_world()
    leader = world.active()
    assert leader is not None
    gone, silent = (node_id for node_id in world.nodes if node_id != leader)
    core = world.kernel(leader).core
    world.terminate(leader)
    world.run_until(lambda: isinstance(core.role, Resigned))
    world.kill(gone)
    world.pause(silent)
    world.run_for(900)
    assert not stopped(world, leader)
    world.run_until(lambda: stopped(world, leader))


def test_one_voter_that_is_gone_is_no_reason_to_give_up() -> None:
    world = ready_world()
    leader = world.active()
    assert leader is not None
    gone, leaving = (node_id for node_id in world.nodes if node_id != leader)
    world.kill(gone)
    world.run_until(lambda: world.kernel(leader).cache.image.brokers[NodeId(gone)].fenced, 30_000)
    world.terminate(leaving)
    world.run_until(lambda: stopped(world, leaving))
    assert "controlled_shutdown_given_up" not in events_of(world, leaving)
    world.run_until(lambda: world.active() is None, 10_000)  # check quorum: the leader is alone


@pytest.mark.parametrize("is_leader_leaving", [True, False])
def test_nobody_waits_for_a_broker_that_died_and_came_back(is_leader_leaving: bool) -> None:
    """Its old session is valid for seconds, but the new process is evidence enough."""
    world = ready_world()
    leader = world.active()
    assert leader is not None
    gone, other = (node_id for node_id in world.nodes if node_id != leader)
    for number in range(6):
        world.client(leader, "CONTROLLER").create_topic(f"t{number}")
    world.kill(gone)
    world.run_for(50)
    world.start(gone)
    world.run_for(500)
    assert not world.kernel(leader).cache.image.brokers[NodeId(gone)].fenced
    leaving = leader if is_leader_leaving else other
    world.terminate(leaving)
    assert world.run_until(lambda: stopped(world, leaving)) <= 1_000
    assert "controlled_shutdown_given_up" not in events_of(world, leaving)


def test_the_others_tell_at_once_what_they_read_of_a_broker_that_leaves_in_slices() -> None:
    """1,100 leaders move in two batches: nobody waits for the next heartbeat, 2 s away."""
    world = ready_world()
    leader = world.active()
    assert leader is not None
    client = world.client(leader, "CONTROLLER")
    assert client.create_topic("wide", partitions=3300, replicas=2).error_code is ErrorCode.none
    world.run_for(2_500)
    leaving = next(node_id for node_id in world.nodes if node_id != leader)
    world.terminate(leaving)
    assert world.run_until(lambda: stopped(world, leaving)) <= 200
    (topic,) = world.kernel(leader).cache.image.topics.values()
    assert all(one.leader not in (leaving, -1) for one in topic.partitions.values())


UNREGISTER_BROKER = 64


def test_a_broker_that_is_unregistered_while_it_leaves_does_not_register_again() -> None:
    """Nobody would be told to fence it: it leaves when its time is over."""
    world = ready_world()
    leader = world.active()
    assert leader is not None
    leaving, silent = (node_id for node_id in world.nodes if node_id != leader)
    client = world.client(leader, "CONTROLLER")
    assert client.create_topic("wide", partitions=6, replicas=3).error_code is ErrorCode.none
    world.run_for(100)
    world.pause(silent)  # it does not read who leads now
    world.terminate(leaving)
    world.run_for(200)
    lifecycle = world.kernel(leaving).lifecycle
    assert lifecycle is not None
    assert lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    new = codec.newest(UNREGISTER_BROKER, "request")
    answer = client.call(UNREGISTER_BROKER, new.UnregisterBrokerRequest(broker_id=leaving))
    assert answer.error_code is ErrorCode.none
    for _ in range(10):
        world.run_for(100)
        assert leaving not in world.kernel(leader).cache.image.brokers
        assert lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    world.run_until(lambda: stopped(world, leaving))
    [given_up] = [
        log for log in world.nodes[leaving].logs if log.event == "controlled_shutdown_given_up"
    ]
    assert (given_up.level, given_up.fields) == (
        LogLevel.WARN,
        {"reason": "the controller does not answer"},
    )
    assert world.nodes[leaving].exit == Exit(0, "shut down")


def test_a_broker_that_is_stopped_before_it_is_registered_stays_stopped() -> None:
    """The answer to its registration finds it leaving and changes nothing."""
    world = World(3, 1)
    for node_id in (1, 2):
        world.start(node_id)
    world.run_until(world.is_ready)
    leader = world.active()
    assert leader is not None
    world.start(3)
    lifecycle = world.kernel(3).lifecycle
    assert lifecycle is not None
    world.run_until(lambda: NodeId(3) in world.kernel(leader).cache.image.brokers)
    assert lifecycle.epoch is None, "the answer is on its way"
    lifecycle.request_shutdown()
    assert lifecycle.state is BrokerState.SHUTTING_DOWN
    world.run_until(lambda: not lifecycle._is_waiting)
    assert (lifecycle.state, lifecycle.epoch) == (BrokerState.SHUTTING_DOWN, None)
    timers = world.kernel(3)._clock.timers
    assert not any(map(timers.is_set, (HEARTBEAT, REGISTRATION_TIMEOUT, SHUTDOWN_CHECK)))


CLEAN = "/data/.kafka_cleanshutdown"
UPDATE_FEATURES = 57


def eligible_world() -> World:
    """Eligible leader replicas on, and a topic whose ISR is small as soon as one broker leaves."""
    world = ready_world()
    client = world.client(1)
    new = codec.newest(UPDATE_FEATURES, "request")
    update = new.FeatureUpdateKey(feature="eligible.leader.replicas.version", max_version_level=1)
    answer = client.call(UPDATE_FEATURES, new.UpdateFeaturesRequest(feature_updates=(update,)))
    assert answer.error_code is ErrorCode.none, answer
    body = create_topic_body("t", 1, 3)
    create = codec.newest(19, "request")
    config = create.CreatableTopicConfig(name="min.insync.replicas", value="3")
    (topic,) = body.topics
    body = replace(body, topics=(replace(topic, configs=(config,)),))
    assert client.call(19, body).topics[0].error_code is ErrorCode.none
    world.run_for(100)
    return world


@pytest.mark.parametrize("in_order", [True, False])
def test_who_stopped_in_order_stays_eligible_to_lead(in_order: bool) -> None:
    """KIP-966: the epoch of the registration that ended comes with the next one."""
    world = eligible_world()
    leader = world.active()
    assert leader is not None
    node_id = NodeId(next(i for i in world.nodes if i != leader))

    def partition() -> Partition:
        topic = world.kernel(leader).cache.image.topic_named("t")
        assert topic is not None
        return topic.partitions[0]

    epoch = world.kernel(leader).cache.image.brokers[node_id].epoch
    if in_order:
        world.terminate(node_id)
        world.run_until(lambda: stopped(world, node_id))
        assert world.nodes[node_id].vfs.read(CLEAN) == b'{"version":0,"brokerEpoch":%d}' % epoch
    else:
        world.kill(node_id)
        assert not world.nodes[node_id].vfs.exists(CLEAN)
    world.run_until(lambda: node_id not in partition().isr)
    assert partition().elr == (node_id,)
    world.start(node_id)
    assert not world.nodes[node_id].vfs.exists(CLEAN), "a life that is not over proves nothing"
    world.run_until(lambda: world.kernel(leader).cache.image.brokers[node_id].epoch > epoch)
    assert partition().elr == ((node_id,) if in_order else ())
    world.run_until(lambda: node_id in partition().isr)
    assert partition().elr == ()


def test_a_controller_without_the_broker_role_writes_no_clean_shutdown_file() -> None:
    """The file is evidence for the partitions of a broker."""
    world = World(1, is_broker=False)
    world.start(1)
    world.run_until(lambda: world.active() == 1)
    world.terminate(1)
    world.run_until(lambda: stopped(world, 1))
    assert world.nodes[1].exit == Exit(0, "shut down")
    assert not world.nodes[1].vfs.exists(CLEAN)
