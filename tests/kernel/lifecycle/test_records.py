"""The records of a broker beside its kernel: images, registrations, requests, directories."""

from itertools import pairwise
from typing import Any

import pytest

from kernel import effects as out
from kernel import events
from kernel.effects import AnswerRecords, Exit, LogLevel, PublishImage, TellBrokerEpoch
from kernel.kernel import Kernel
from kernel.lifecycle.broker_lifecycle import BrokerState
from metadata.delta import MetadataDelta, delta_between
from metadata.image import EMPTY
from simulator.cluster.memory_vfs import MemoryVfs
from tests.kernel.harness import World, config_of
from tests.kernel.port import (
    PORT,
    broker_of,
    fenced_world,
    image_of,
    lifecycle_of,
    post,
    serving_world,
    told,
)
from tests.kernel.quorum.test_snapshots import CHUNKS, SMALL, create, said
from wire.api_keys import ALLOCATE_PRODUCER_IDS, UNREGISTER_BROKER
from wire.errors import ErrorCode
from wire.messages import codec
from wire.types import DirectoryId, NodeId


def producer_ids(world: World, node_id: int) -> Any:
    """A request for a block of producer ids."""
    new = codec.newest(ALLOCATE_PRODUCER_IDS, "request")
    epoch = lifecycle_of(world, node_id).epoch
    return new.AllocateProducerIdsRequest(broker_id=node_id, broker_epoch=epoch)


def check_chain(given: list[PublishImage]) -> None:
    """Every delta names at least what differs from the image before."""
    for before, after in pairwise(given):
        total = MetadataDelta()
        total.add(after.delta)
        total.add(delta_between(before.image, after.image))
        assert total == after.delta


def answers(world: World, node_id: int) -> list[Any]:
    return told(world, node_id, AnswerRecords)


# ---- images --------------------------------------------------------------------------------------


def test_the_first_image_holds_this_registration_and_its_delta_all_that_is_in_it() -> None:
    world = World(1, 1, port=PORT)
    world.start(1)
    world.run_until(lambda: bool(image_of(world).features))
    assert 1 not in image_of(world).brokers
    assert told(world, 1, PublishImage) == []
    world.run_until(lambda: bool(told(world, 1, PublishImage)))
    first = told(world, 1, PublishImage)[0]
    assert first.image is image_of(world)
    assert first.image.features
    assert first.image.brokers[NodeId(1)] == broker_of(world)
    assert first.delta == delta_between(EMPTY, first.image)


def test_an_image_with_the_registration_of_the_process_before_is_none_yet() -> None:
    """Its topics may be gone by now."""
    world = serving_world()
    before = broker_of(world).incarnation_id
    world.kill(1)
    world.start(1)
    world.run_until(lambda: 1 in image_of(world).brokers)
    assert broker_of(world).incarnation_id == before
    assert told(world, 1, PublishImage) == []
    world.run_until(lambda: broker_of(world).incarnation_id != before)
    world.run_for(10)
    first = told(world, 1, PublishImage)[0]
    assert first.image.brokers[NodeId(1)].incarnation_id != before
    assert first.delta == delta_between(EMPTY, first.image)


def test_every_later_image_is_given_with_what_differs() -> None:
    world = serving_world()
    client = world.client(1)
    for name in ("a", "b"):
        assert client.create_topic(name, partitions=2).error_code is ErrorCode.none
    assert client.delete_topic("a").error_code is ErrorCode.none
    world.run_for(1_000)
    given = told(world, 1, PublishImage)
    assert given[-1].image is image_of(world)
    check_chain(given)


def test_a_fetched_snapshot_is_given_with_what_it_changes() -> None:
    """Topics created and deleted below its end are in the delta, too."""
    world = serving_world(3, metadata_log=SMALL, quorum=CHUNKS)
    leader = world.active()
    assert leader is not None
    away = leader % 3 + 1
    client = world.client(leader)
    assert client.create_topic("gone").error_code is ErrorCode.none
    world.run_for(100)
    world.pause(away)
    assert client.delete_topic("gone").error_code is ErrorCode.none
    create(world, leader, range(60))
    world.run_for(5_000)
    given = len(told(world, away, PublishImage))
    world.resume(away)
    world.run_until(lambda: bool(said(world, away, "snapshot_loaded")), 40_000)
    after = told(world, away, PublishImage)
    assert len(after[-1].delta.topics_created) > 10
    assert len(after[-1].delta.topics_deleted) == 1
    assert len(after) > given
    check_chain(after)


def test_a_node_with_records_has_no_folders_and_expands_no_isr() -> None:
    world = serving_world(3)
    assert world.client(1).create_topic("a", replicas=3).error_code is ErrorCode.none
    leader = world.active()
    assert leader is not None
    gone = leader % 3 + 1
    world.kill(gone)
    world.run_until(lambda: image_of(world, leader).brokers[NodeId(gone)].fenced, 30_000)
    world.start(gone)
    world.run_until(lambda: bool(told(world, gone, PublishImage)), 30_000)
    post(world, gone, events.RecordsReady())
    world.run_until(world.is_ready, 30_000)
    world.run_for(3_000)
    topic = image_of(world, leader).topic_named("a")
    assert topic is not None
    assert gone not in topic.partitions[0].isr
    assert not any(node.vfs.exists("/data/a-0") for node in world.nodes.values())
    assert world.kernel(1).folders is None
    assert world.kernel(1).isr_expansion is None


# ---- registration and fencing --------------------------------------------------------------------


def test_a_broker_stays_fenced_until_its_records_are_ready() -> None:
    world = fenced_world()
    world.run_for(5_000)
    lifecycle = lifecycle_of(world, 1)
    assert lifecycle.state is BrokerState.RECOVERY
    assert broker_of(world).fenced
    post(world, 1, events.RecordsReady())
    assert world.run_until(lambda: world.kernel(1).is_unfenced) <= 20
    world.run_until(lambda: lifecycle.is_settled)


def test_a_broker_that_was_fenced_needs_no_second_readiness() -> None:
    world = serving_world(3)
    leader = world.active()
    assert leader is not None
    other = leader % 3 + 1
    world.pause(other)
    world.run_until(lambda: image_of(world, leader).brokers[NodeId(other)].fenced, 30_000)
    world.resume(other)
    world.run_until(lambda: not image_of(world, leader).brokers[NodeId(other)].fenced, 30_000)


def test_every_registration_tells_its_epoch() -> None:
    world = serving_world(3)
    leader = world.active()
    assert leader is not None
    other = leader % 3 + 1
    first = image_of(world, other).brokers[NodeId(other)].epoch
    assert told(world, other, TellBrokerEpoch) == [TellBrokerEpoch(first)]
    new = codec.newest(UNREGISTER_BROKER, "request")
    answer = world.client(leader).call(
        UNREGISTER_BROKER, new.UnregisterBrokerRequest(broker_id=other)
    )
    assert answer.error_code is ErrorCode.none
    world.run_until(lambda: len(told(world, other, TellBrokerEpoch)) == 2)
    world.run_until(world.is_ready)
    second = image_of(world, other).brokers[NodeId(other)].epoch
    assert second > first
    assert told(world, other, TellBrokerEpoch)[1:] == [TellBrokerEpoch(second)]


# ---- requests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_controller_here", [True, False])
def test_several_requests_may_be_outstanding(is_controller_here: bool) -> None:
    world = serving_world(3)
    leader = world.active()
    assert leader is not None
    node_id = leader if is_controller_here else leader % 3 + 1
    body = producer_ids(world, node_id)
    for token in (7, 8):
        post(world, node_id, events.RecordsAsked(token, ALLOCATE_PRODUCER_IDS, body))
    assert answers(world, node_id) == []
    world.run_until(lambda: len(answers(world, node_id)) == 2)
    assert [one.token for one in answers(world, node_id)] == [7, 8]
    blocks = [one.answer for one in answers(world, node_id)]
    assert [one.error_code for one in blocks] == [ErrorCode.none] * 2
    assert blocks[0].producer_id_start != blocks[1].producer_id_start


def test_without_a_controller_there_is_no_answer_in_it() -> None:
    world = World(3, 1, port=PORT)
    world.start(1)
    post(world, 1, events.RecordsAsked(5, ALLOCATE_PRODUCER_IDS, producer_ids(world, 1)))
    assert answers(world, 1) == [AnswerRecords(5, None)]


def test_a_controller_that_does_not_answer_is_given_up_after_the_session_time_out() -> None:
    world = serving_world(3)
    leader = world.active()
    assert leader is not None
    asking, third = (node_id for node_id in world.nodes if node_id != leader)
    for silent in (leader, third):  # nor is there a new one
        world.pause(silent)
    body = producer_ids(world, asking)
    post(world, asking, events.RecordsAsked(5, ALLOCATE_PRODUCER_IDS, body))
    world.run_for(8_999)
    assert answers(world, asking) == []
    world.run_for(1)
    assert answers(world, asking) == [AnswerRecords(5, None)]


# ---- failed directories --------------------------------------------------------------------------

TWO = ("/data", "/more")
MORE_ID = DirectoryId(bytes([17]) * 16)


def test_a_failed_directory_is_told_at_once_and_left_out_of_the_next_registration() -> None:
    world = serving_world(log_dirs=TWO)
    assert len(broker_of(world).log_dirs) == 2
    post(world, 1, events.RecordsDirectoryFailed("/more", is_last=False))
    assert world.run_until(lambda: MORE_ID not in broker_of(world).log_dirs) <= 20
    new = codec.newest(UNREGISTER_BROKER, "request")
    world.client(1).call(UNREGISTER_BROKER, new.UnregisterBrokerRequest(broker_id=1))
    world.run_until(lambda: len(told(world, 1, TellBrokerEpoch)) == 2)
    assert broker_of(world).log_dirs == (DirectoryId(bytes([1]) * 16),)
    world.run_for(10)
    assert world.nodes[1].exit is None


@pytest.mark.parametrize(
    ("path", "is_last", "reason"),
    [
        ("/more", True, "Shutdown broker because all log dirs in /data, /more have failed"),
        ("/data", True, "Shutdown broker because all log dirs in /data, /more have failed"),
        ("/data", False, "Shutdown broker because the metadata log dir /data has failed"),
    ],
)
def test_a_directory_that_the_node_needs_ends_it(path: str, is_last: bool, reason: str) -> None:
    world = serving_world(log_dirs=TWO)
    post(world, 1, events.RecordsDirectoryFailed(path, is_last=is_last))
    assert world.nodes[1].exit == Exit(1, reason)
    line = out.Log(LogLevel.ERROR, "log_dirs_failed", {"error": reason})
    assert line in world.nodes[1].logs


# ---- without a port ------------------------------------------------------------------------------


@pytest.mark.parametrize("is_broker", [True, False])
def test_a_node_without_a_port_has_no_records(is_broker: bool) -> None:
    world = World(1, 1, is_broker=is_broker)
    world.start(1)
    world.run_for(2_000)
    assert world.nodes[1].told == []
    with pytest.raises(AssertionError):
        post(world, 1, events.RecordsReady())


def test_a_node_without_the_broker_role_has_no_port() -> None:
    vfs = MemoryVfs()
    vfs.make_directory("/data")
    with pytest.raises(AssertionError, match="only a broker has records"):
        Kernel(
            config_of(1, 1, is_broker=False),
            vfs,
            World(0).rng,
            cluster_id="c",
            directory_ids={"/data": MORE_ID},
            now=events.Now(0, 0),
            port=PORT,
        )


def test_requests_of_the_records_have_a_connection_of_their_own() -> None:
    """Answers come in order, and a time-out closes the connection: neither may reach heartbeats."""
    world = serving_world(2)
    leader = world.active()
    (asking,) = (node_id for node_id in world.nodes if node_id != leader)
    before = world.peer_count(asking)
    body = producer_ids(world, asking)
    post(world, asking, events.RecordsAsked(5, ALLOCATE_PRODUCER_IDS, body))
    world.run_until(lambda: bool(answers(world, asking)))
    assert world.peer_count(asking) == before + 1
