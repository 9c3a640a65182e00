"""A whole broker: events reach its parts, what they ask comes back, timers run when due."""

import errno
from dataclasses import replace
from typing import Any

import pytest

from broker.clients.use_notes import USED_INTERVAL_MS, used_interval_ms
from broker.effects import (
    Ask,
    CloseAtKernel,
    CloseConnection,
    ClosePeer,
    ConnectPeer,
    DirectoryFailed,
    Effect,
    Lane,
    OpenAtKernel,
    Ready,
    RunWork,
    SendParts,
    SendPeerBytes,
    SendToKernel,
    Stopped,
    UsedAtKernel,
)
from broker.events import (
    Answered,
    ConnectionBroken,
    ConnectionClosed,
    ConnectionOpened,
    FramesReceived,
    KernelBytes,
    KernelClosed,
    PeerBytes,
    PeerConnected,
    PeerDisconnected,
    StopRequested,
    TimeAdvanced,
)
from metadata.records import RegisterBrokerRecord, RegisteredEndpoint
from replication.reading import LATEST
from tests.broker.brokers import EPOCH, LOG_DIR, Driven, response
from tests.broker.fronts import LISTENER, api_versions, unmeasured
from tests.broker.metadata_log import A
from tests.storage.test_unified_log import produced, replicated
from wire.api_keys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    ALLOCATE_PRODUCER_IDS,
    ALTER_PARTITION,
    ALTER_REPLICA_LOG_DIRS,
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    DELETE_GROUPS,
    DELETE_RECORDS,
    DESCRIBE_GROUPS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    HEARTBEAT,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    LIST_OFFSETS,
    LIST_TRANSACTIONS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
    WRITE_TXN_MARKERS,
)
from wire.batches.batch import encode_batch
from wire.connections.framing import frame
from wire.errors import ErrorCode
from wire.messages import codec
from wire.types import BrokerEpoch, NodeId

OPENED = ConnectionOpened(1, LISTENER, "127.0.0.1")


def of(kind: type[Any], effects: list[Effect]) -> list[Any]:
    return [each for each in effects if isinstance(each, kind)]


def list_offsets(timestamp: int = LATEST) -> Any:
    new = codec.newest(LIST_OFFSETS, "request")
    partition = new.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = new.ListOffsetsTopic(name="a", partitions=(partition,))
    return replace(codec.default_request(LIST_OFFSETS), replica_id=-1, topics=(topic,))


def offset_in(effects: list[Effect]) -> tuple[ErrorCode, int]:
    (sent,) = of(SendParts, effects)
    (topic,) = response(LIST_OFFSETS, 7, sent.parts).topics
    (row,) = topic.partitions
    return row.error_code, row.offset


def append(driven: Driven, count: int = 1) -> list[Any]:
    """Append to the first partition of the topic, as a Produce does."""
    results: list[Any] = []
    driven.broker._replicas.append(
        {(A, 0): produced(*[1] * count)}, required_acks=1, timeout_ms=0, answer=results.append
    )
    return results


# ---- connections -----------------------------------------------------------------------------


def test_what_is_not_about_records_goes_through_the_kernel() -> None:
    driven = Driven()
    assert driven.step(OPENED) == [OpenAtKernel(1, LISTENER, "127.0.0.1")]
    request = api_versions()
    (asked,) = driven.step(FramesReceived(1, [request]))
    assert asked == SendToKernel(1, frame(bytes(request)))
    (answered,) = driven.step(KernelBytes(1, frame(b"answer")))
    assert unmeasured(answered) == SendParts(1, (b"\0\0\0\6answer",))
    assert driven.step(KernelClosed(1, "idle")) == [CloseConnection(1, "idle")]


def test_connections_end_on_either_side() -> None:
    driven = Driven()
    driven.step(OPENED, ConnectionOpened(2, LISTENER, "127.0.0.1"))
    assert driven.one(CloseConnection, ConnectionBroken(1, "bad")) == CloseConnection(1, "bad")
    assert driven.step(ConnectionClosed(2)) == [CloseAtKernel(2)]


def test_requests_about_records_wait_for_the_logs() -> None:
    driven = Driven()
    driven.metadata.topic()
    driven.connect()
    assert driven.request(LIST_OFFSETS, 7, list_offsets())[1:] == [], "only it is not read"
    driven.metadata.register(directories=(b"1" * 16,))
    effects = driven.publish()
    assert of(Ready, effects) == [Ready()]
    assert offset_in(effects) == (ErrorCode.none, 0)
    append(driven, 3)
    assert offset_in(driven.request(LIST_OFFSETS, 7, list_offsets())) == (ErrorCode.none, 3)


def test_the_apis_that_are_served() -> None:
    assert Driven().broker.apis == {
        PRODUCE,
        FETCH,
        LIST_OFFSETS,
        ADD_PARTITIONS_TO_TXN,
        ADD_OFFSETS_TO_TXN,
        END_TXN,
        WRITE_TXN_MARKERS,
        DESCRIBE_TRANSACTIONS,
        LIST_TRANSACTIONS,
        OFFSET_COMMIT,
        OFFSET_FETCH,
        OFFSET_DELETE,
        FIND_COORDINATOR,
        JOIN_GROUP,
        HEARTBEAT,
        LEAVE_GROUP,
        SYNC_GROUP,
        TXN_OFFSET_COMMIT,
        DESCRIBE_GROUPS,
        LIST_GROUPS,
        DELETE_GROUPS,
        CONSUMER_GROUP_HEARTBEAT,
        CONSUMER_GROUP_DESCRIBE,
        DELETE_RECORDS,
        INIT_PRODUCER_ID,
        ALTER_REPLICA_LOG_DIRS,
        OFFSET_FOR_LEADER_EPOCH,
        DESCRIBE_LOG_DIRS,
        DESCRIBE_PRODUCERS,
    }


def test_log_directories_are_described_with_their_logs() -> None:
    driven = Driven()
    driven.metadata.topic()
    driven.start()
    driven.connect()
    body = codec.default_request(DESCRIBE_LOG_DIRS)
    (sent,) = of(SendParts, driven.request(DESCRIBE_LOG_DIRS, 4, body))
    (described,) = response(DESCRIBE_LOG_DIRS, 4, sent.parts).results
    assert described.log_dir == LOG_DIR
    assert [topic.name for topic in described.topics] == ["a"]
    driven.broker._local.fail(LOG_DIR, OSError("broken"))
    (sent,) = of(SendParts, driven.request(DESCRIBE_LOG_DIRS, 4, body))
    (described,) = response(DESCRIBE_LOG_DIRS, 4, sent.parts).results
    assert described.error_code is ErrorCode.kafka_storage_error


# ---- the controller --------------------------------------------------------------------------


def test_a_block_of_producer_ids_is_asked_for_with_the_epoch_of_the_broker() -> None:
    driven = Driven()
    driven.start()
    driven.connect()
    body = codec.default_request(INIT_PRODUCER_ID)
    effects = driven.request(INIT_PRODUCER_ID, 4, body)
    (ask,) = of(Ask, effects)
    assert (ask.api_key, ask.body.broker_id, ask.body.broker_epoch) == (
        ALLOCATE_PRODUCER_IDS, 1, EPOCH,
    )  # fmt: skip
    new = codec.newest(ALLOCATE_PRODUCER_IDS, "response")
    block = replace(
        codec.default_entity(new.AllocateProducerIdsResponse),
        producer_id_start=5_000,
        producer_id_len=1_000,
    )
    driven.step(Answered(ask.token, block))
    (sent,) = of(SendParts, driven.request(INIT_PRODUCER_ID, 4, body))
    assert response(INIT_PRODUCER_ID, 4, sent.parts).producer_id == 5_000


def test_a_smaller_isr_is_proposed_until_the_controller_answers() -> None:
    driven = Driven(replica_lag_ms_max=100)
    driven.metadata.topic(replicas=(1, 2))
    driven.metadata.register(2)
    driven.start()
    append(driven)
    driven.now_ms += 500
    ask = driven.one(Ask, TimeAdvanced())
    assert (ask.api_key, ask.body.broker_epoch) == (ALTER_PARTITION, EPOCH)
    (row,) = ask.body.topics[0].partitions
    assert [member.broker_id for member in row.new_isr_with_epochs] == [1]
    driven.now_ms += 500
    assert of(Ask, driven.step(TimeAdvanced())) == [], "one request is in flight"
    assert of(Ask, driven.step(Answered(ask.token, None))) == []
    retry_ms = driven.broker.next_deadline_ms()
    assert 0 < retry_ms - driven.now_ms <= 50
    driven.now_ms = retry_ms
    assert of(Ask, driven.step(TimeAdvanced()))[0].body == ask.body


# ---- leaders ---------------------------------------------------------------------------------


def follow(driven: Driven) -> ConnectPeer:
    """Follow a leader at another broker: the connection that is made to it."""
    driven.metadata.topic(replicas=(2, 1), leader=2)
    endpoint = RegisteredEndpoint(name=LISTENER, host="two", port=9092, security_protocol=0)
    driven.metadata.write(
        RegisterBrokerRecord(
            broker_id=NodeId(2),
            incarnation_id=bytes(16),
            broker_epoch=BrokerEpoch(2),
            end_points=(endpoint,),
        )
    )
    driven.metadata.register(directories=(b"1" * 16,))
    (connect, *_) = of(ConnectPeer, driven.publish())
    assert isinstance(connect, ConnectPeer)
    return connect


def test_a_follower_fetches_at_the_inter_broker_listener_of_its_leader() -> None:
    driven = Driven()
    connect = follow(driven)
    assert (connect.host, connect.port) == ("two", 9092)
    assert of(SendPeerBytes, driven.step(PeerConnected(connect.peer_id))) != []
    driven.now_ms += 29_999
    assert of(ClosePeer, driven.step(TimeAdvanced())) == []
    driven.now_ms += 1
    assert driven.one(ClosePeer, TimeAdvanced()) == ClosePeer(connect.peer_id)


def test_a_link_to_a_leader_that_sends_nonsense_is_opened_again() -> None:
    driven = Driven()
    connect = follow(driven)
    driven.step(PeerConnected(connect.peer_id))
    assert of(ClosePeer, driven.step(PeerBytes(connect.peer_id, b"\xff" * 8))) != []
    driven.step(PeerDisconnected(connect.peer_id, refused=True))
    driven.now_ms = driven.broker.next_deadline_ms()
    assert of(ConnectPeer, driven.step(TimeAdvanced())) != [], "it tries again"


FLUSHED_AT_ONCE = (("log.flush.interval.messages", "1"),)


def flushes(effects: list[Effect]) -> list[tuple[Lane, str]]:
    return [(each.lane, each.name) for each in of(RunWork, effects)]


def test_records_that_a_leader_appends_are_flushed() -> None:
    driven = Driven(properties=FLUSHED_AT_ONCE)
    driven.metadata.topic()
    driven.start()
    append(driven)
    assert flushes(driven.step()) == [(Lane.FLUSH, LOG_DIR)]


def test_records_that_a_follower_appends_are_flushed() -> None:
    driven = Driven(properties=FLUSHED_AT_ONCE)
    driven.metadata.topic(replicas=(2, 1), leader=2)
    driven.metadata.register(2)
    driven.start()
    partition = driven.broker._replicas.partitions[A, 0]
    assert partition.log is not None
    replicated(partition.log, encode_batch([b"v"], 0, 0, 1))
    driven.broker._on_replicated((A, 0), is_raised=True)
    assert flushes(driven.step()) == [(Lane.FLUSH, LOG_DIR), (Lane.FILES, LOG_DIR)]
    epochs = driven.vfs.read(f"{LOG_DIR}/a-0/leader-epoch-checkpoint")
    assert epochs == b"0\n1\n0 0\n", "as Kafka, which writes them in the append"


# ---- failures and the end --------------------------------------------------------------------


def test_a_disk_that_fails_at_an_append_takes_its_log_directory() -> None:
    driven = Driven()
    driven.metadata.topic()
    driven.start()
    driven.vfs.failing = lambda *_: errno.EIO
    (results,) = append(driven)
    assert results[A, 0].code is ErrorCode.kafka_storage_error
    failed = driven.one(DirectoryFailed)
    assert (failed.path, failed.is_last) == (LOG_DIR, True)


def test_a_broker_that_stops_closes_its_logs() -> None:
    driven = Driven()
    driven.metadata.topic()
    driven.start()
    append(driven)
    assert driven.one(Stopped, StopRequested()) == Stopped((LOG_DIR,))
    assert driven.guard.count > 0, "another thread writes recovery points too"


# ---- time ------------------------------------------------------------------------------------


def test_the_deadline_is_that_of_the_first_part() -> None:
    driven = Driven(replica_lag_ms_max=1_000_000)
    assert driven.broker.next_deadline_ms() == 1_000 + 500_000
    driven.step(OPENED)
    assert driven.broker.next_deadline_ms() == 1_000 + USED_INTERVAL_MS
    driven.now_ms += USED_INTERVAL_MS - 1
    driven.request(LIST_OFFSETS, 7, list_offsets())
    assert of(UsedAtKernel, driven.step(TimeAdvanced())) == []
    driven.now_ms += 1
    assert of(UsedAtKernel, driven.step(TimeAdvanced())) == [UsedAtKernel(1)]
    assert driven.broker.next_deadline_ms() == driven.now_ms + USED_INTERVAL_MS


@pytest.mark.parametrize(
    ("idle_ms_max", "expected_ms"),
    [(600_000, 60_000), (240_000, 60_000), (200_000, 50_000), (4, 1), (1, 1), (0, 60_000)],
)
def test_connections_are_noted_well_within_the_idle_time(
    idle_ms_max: int, expected_ms: int
) -> None:
    assert used_interval_ms(idle_ms_max) == expected_ms
    driven = Driven(idle_ms_max=idle_ms_max, replica_lag_ms_max=1_000_000)
    driven.step(OPENED)
    assert driven.broker.next_deadline_ms() == 1_000 + expected_ms
