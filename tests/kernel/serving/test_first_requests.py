"""Requests that wait at a broker's listener until it knows the cluster."""

from typing import Any
from uuid import UUID

from kernel.formatting import bootstrap_checkpoint
from metadata import record_codec
from metadata.image import METADATA_VERSION
from metadata.records import BeginTransactionRecord
from storage.log_dir.bootstrap_checkpoint import write_bootstrap_checkpoint
from storage.log_dir.partition_directories import open_metadata_log
from storage.logs.log import LogConfig
from tests.kernel.harness import World, create_topic_body
from tests.network.raw_client import Raw, ready_world
from wire.api_keys import BROKER_HEARTBEAT, BROKER_REGISTRATION
from wire.batches.batch import encode_batch
from wire.connections.framing import frame
from wire.errors import ErrorCode
from wire.messages.codec import default_request, encode_request, newest
from wire.types import LeaderEpoch, Offset

METADATA = 3
CREATE_TOPICS = 19
OTHER = 2


def create_topic(name: str) -> bytes:
    return frame(encode_request(CREATE_TOPICS, 7, 5, "c", create_topic_body(name)))


def test_a_restarted_broker_answers_with_what_was_created_meanwhile() -> None:
    world = ready_world()
    standby = next(i for i in world.alive if i != world.active())
    world.kill(standby)
    active = world.active()
    assert active is not None
    world.client(active).create_topic("meanwhile")
    world.start(standby)
    body = newest(METADATA, "request").MetadataRequest(
        topics=None, include_topic_authorized_operations=False
    )
    answer = world.client(standby).call(METADATA, body)
    assert [topic.name for topic in answer.topics] == ["meanwhile"]


def test_the_first_broker_of_a_cluster_answers_when_it_is_unfenced() -> None:
    """Fenced it would name no broker at all."""
    world = World(1)
    world.start(1)
    answer = world.client(1).call(METADATA, default_request(METADATA))
    assert [broker.node_id for broker in answer.brokers] == [1]


def test_a_broker_does_not_answer_inside_an_open_transaction() -> None:
    """Its image is the one before the transaction until the new controller has aborted it."""
    world = ready_world(1)
    world.kill(1)
    log = open_metadata_log(world.nodes[1].vfs, "/data", LogConfig())
    begin = record_codec.encode(BeginTransactionRecord(name="open"), 0)
    base_offset, epoch = Offset(log.end_offset), LeaderEpoch(log.last_epoch)
    log.append(encode_batch([begin], base_offset, epoch, 0), base_offset)
    log.close()
    world.start(1)
    kernel = world.kernel(1)
    world.run_until(lambda: kernel.connections.serves_clients)
    assert kernel.cache.image.provenance.end_offset == kernel.core.high_watermark
    assert kernel.cache.image.provenance.end_offset > base_offset


def other_broker(world: World) -> Any:
    """Register a broker that supports what ours do not; its next heartbeat unfences it."""
    client = world.client(1, "CONTROLLER")
    new = newest(BROKER_REGISTRATION, "request")
    ranges = {METADATA_VERSION: (7, 30), "group.version": (0, 1)}
    registration = new.BrokerRegistrationRequest(
        broker_id=OTHER,
        cluster_id=world.kernel(1).cluster_id,
        incarnation_id=UUID(int=7),
        listeners=(new.Listener(name="PLAINTEXT", host="2", port=9092, security_protocol=0),),
        features=tuple(
            new.Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in ranges.items()
        ),
        rack=None,
        log_dirs=(UUID(int=9 << 64),),
    )
    answer = client.call(BROKER_REGISTRATION, registration)
    assert answer.error_code is ErrorCode.none
    heartbeat = newest(BROKER_HEARTBEAT, "request").BrokerHeartbeatRequest(
        broker_id=OTHER,
        broker_epoch=answer.broker_epoch,
        current_metadata_offset=answer.broker_epoch,
        want_fence=False,
        want_shut_down=False,
    )
    return lambda: client.send(BROKER_HEARTBEAT, heartbeat)


def test_what_waited_is_proposed_in_the_step_that_begins_to_serve() -> None:
    """No timer is due: this node's own broker cannot register, another's heartbeat is the news."""
    world = World(1)
    levels = {METADATA_VERSION: 30, "group.version": 1}
    write_bootstrap_checkpoint(world.nodes[1].vfs, "/data", bootstrap_checkpoint(levels, 0))
    world.start(1)
    world.run_until(lambda: world.active() == 1)
    raw = Raw(world, 1)
    raw.send(create_topic("early"))
    send_heartbeat = other_broker(world)
    assert raw.correlation_ids == []
    send_heartbeat()
    world.run_until(lambda: raw.correlation_ids == [5])
    assert "early" in world.kernel(1).cache.image.topic_id_by_name
