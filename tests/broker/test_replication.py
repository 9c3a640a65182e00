"""Two whole brokers: what one appends the other fetches, and who produced is answered then."""

import uuid
import weakref
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from broker.clients.front import CALLS_MAX
from broker.effects import (
    Ask,
    ConnectPeer,
    Effect,
    SendParts,
    SendPeerBytes,
    SendToKernel,
    SetReading,
)
from broker.events import (
    BrokerEpochChanged,
    ConnectionClosed,
    ConnectionOpened,
    Event,
    FramesReceived,
    ImagePublished,
    KernelBytes,
    PeerBytes,
    PeerConnected,
    TimeAdvanced,
)
from metadata.records import RegisterBrokerRecord, RegisteredEndpoint, UnfenceBrokerRecord
from replication.leader.waiting import WAIT_MS_MAX
from tests.broker.brokers import Driven, response
from tests.broker.fronts import LISTENER, content
from tests.broker.metadata_log import D1, A, MetadataLog
from wire.api_keys import ALTER_PARTITION, DELETE_RECORDS, FETCH, PRODUCE
from wire.api_table import ListenerKind, api_versions_body, apis
from wire.batches.batch import encode_batch
from wire.connections.connection import ServerConnection
from wire.connections.framing import FrameReader
from wire.errors import ErrorCode
from wire.messages import codec
from wire.types import BrokerEpoch, NodeId

FOLLOWER, CLIENT = 100, 1
"""Connections of the leader."""
TOPIC_ID = uuid.UUID(bytes=A)


def registered(metadata: MetadataLog, node_id: int) -> None:
    epoch = BrokerEpoch(node_id)
    endpoint = RegisteredEndpoint(name=LISTENER, host=f"host-{node_id}", port=9092)
    metadata.write(
        RegisterBrokerRecord(
            broker_id=NodeId(node_id),
            incarnation_id=bytes([node_id] * 16),
            broker_epoch=epoch,
            end_points=(endpoint,),
            rack=f"rack-{node_id}",
            log_dirs=(D1,),
        ),
        UnfenceBrokerRecord(id=NodeId(node_id), epoch=epoch),
    )


class Pair:
    """Broker 1, which leads a partition, and broker 2, which follows."""

    def __init__(
        self, isr: tuple[int, ...] = (1, 2), *, partitions: int = 1, **settings: Any
    ) -> None:
        self.leader, self.follower = Driven(1, **settings), Driven(2)
        self.answers: list[Any] = []
        """Parts of responses to the client."""
        self.asked: list[Ask] = []
        self._requests = FrameReader(1 << 20)
        table = apis(ListenerKind.BROKER, self.leader.broker.apis)
        self._kernel = ServerConnection(table, 1 << 20)
        self.metadata = metadata = MetadataLog()
        registered(metadata, 1)
        registered(metadata, 2)
        metadata.topic(replicas=(1, 2), partitions=partitions)
        metadata.change(isr=isr)
        published = ImagePublished(*metadata.take())
        self.leader.step(BrokerEpochChanged(BrokerEpoch(1)), published)
        self.leader.connect(CLIENT)
        self._waiting = self.follower.step(BrokerEpochChanged(BrokerEpoch(2)), published)

    def publish(self) -> None:
        """Give both brokers the newest image."""
        published = ImagePublished(*self.metadata.take())
        self.leader.step(published)
        self._waiting += self.follower.step(published)

    def replicate(self) -> list[Effect]:
        """Carry messages between the brokers until none is under way; all effects on the way."""
        seen: list[Effect] = []
        while self._waiting:
            effects, self._waiting = self._waiting, []
            seen += effects
            for effect in effects:
                self._carry(effect)
        return seen

    def _carry(self, effect: Effect) -> None:
        match effect:
            case ConnectPeer():
                assert effect.host == "host-1"
                self._peer_id = effect.peer_id
                self._at_leader(ConnectionOpened(FOLLOWER, LISTENER, "127.0.0.1"))
                self._at_follower(PeerConnected(effect.peer_id))
            case SendPeerBytes():
                self._requests.feed(effect.data)
                while (frame := self._requests.next_frame()) is not None:
                    self._at_leader(FramesReceived(FOLLOWER, [bytearray(frame)]))
            case SendToKernel():
                (request,) = self._kernel.receive(effect.data)
                body = api_versions_body(apis(ListenerKind.BROKER, self.leader.broker.apis))
                answer = self._kernel.respond(request.reply_slot, body)
                self._at_leader(KernelBytes(FOLLOWER, answer))
            case SendParts(connection_id=id) if id == FOLLOWER:
                self._at_follower(PeerBytes(self._peer_id, content(effect.parts)))
            case SendParts():
                self.answers.append(effect.parts)
            case Ask():
                self.asked.append(effect)

    def _at_leader(self, *events: Event) -> None:
        self._waiting += self.leader.step(*events)

    def _at_follower(self, *events: Event) -> None:
        self._waiting += self.follower.step(*events)

    def pass_time(self, by_ms: int) -> None:
        self.leader.now_ms += by_ms
        self.follower.now_ms += by_ms
        self._at_leader(TimeAdvanced())
        self._at_follower(TimeAdvanced())

    def request(self, api_key: int, version: int, body: Any) -> None:
        self._waiting += self.leader.request(api_key, version, body)

    def ends(self) -> list[tuple[int, int]]:
        """Log end and high watermark of both replicas."""
        found = []
        for driven in (self.leader, self.follower):
            partition = driven.broker._replicas.partitions[A, 0]
            assert partition.log is not None
            found.append((partition.log.log.end_offset, partition.log.high_watermark))
        return found


def produce(acks: int) -> Any:
    new = codec.newest(PRODUCE, "request")
    row = new.PartitionProduceData(index=0, records=encode_batch([b"a", b"b"], 0, 0, 1))
    topic = new.TopicProduceData(topic_id=TOPIC_ID, partition_data=(row,))
    return new.ProduceRequest(acks=acks, timeout=timedelta(seconds=5), topic_data=(topic,))


def produced(parts: Any) -> tuple[ErrorCode, int]:
    (topic,) = response(PRODUCE, 13, parts).responses
    (row,) = topic.partition_responses
    return row.error_code, row.base_offset


def test_a_produce_to_all_is_answered_when_the_follower_has_the_records() -> None:
    pair = Pair()
    pair.replicate()
    pair.request(PRODUCE, 13, produce(-1))
    assert pair.ends() == [(2, 0), (0, 0)]
    assert pair.answers == []
    pair.replicate()
    assert [produced(parts) for parts in pair.answers] == [(ErrorCode.none, 0)]
    assert pair.ends()[0] == (2, 2)
    assert pair.ends()[1][0] == 2
    pair.pass_time(500)
    pair.replicate()
    assert pair.ends() == [(2, 2), (2, 2)]


def test_a_follower_that_has_caught_up_is_proposed_for_the_isr() -> None:
    pair = Pair(isr=(1,))
    pair.replicate()
    (ask,) = pair.asked
    (topic,) = ask.body.topics
    (row,) = topic.partitions
    members = [(each.broker_id, each.broker_epoch) for each in row.new_isr_with_epochs]
    assert (ask.api_key, members) == (ALTER_PARTITION, [(1, 1), (2, 2)])


def test_a_connection_with_many_fetches_is_read_again_when_they_are_answered() -> None:
    pair = Pair()
    for _ in range(CALLS_MAX):
        effects = pair.leader.request(
            FETCH, 17, fetch(min_bytes=1, max_wait=timedelta(milliseconds=200))
        )
    assert effects == [SetReading(CLIENT, is_wanted=False)]
    pair.leader.now_ms += 200
    effects = pair.leader.step(TimeAdvanced())
    assert sum(isinstance(each, SendParts) for each in effects) == CALLS_MAX
    assert effects[-1] == SetReading(CLIENT, is_wanted=True)


def test_a_produce_to_all_without_a_follower_times_out() -> None:
    pair = Pair()
    pair.request(PRODUCE, 13, produce(-1))
    pair.leader.now_ms += 5_000
    (sent,) = (e for e in pair.leader.step(TimeAdvanced()) if isinstance(e, SendParts))
    assert produced(sent.parts) == (ErrorCode.request_timed_out, 0)


def fetch(**more: Any) -> Any:
    new = codec.newest(FETCH, "request")
    row = new.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    topic = new.FetchTopic(topic_id=TOPIC_ID, partitions=(row,))
    return replace(codec.default_request(FETCH), topics=(topic,), **more)


def fetched(parts: Any) -> tuple[ErrorCode, int, int]:
    """Error, high watermark and size of the records."""
    (topic,) = response(FETCH, 17, parts).responses
    (row,) = topic.partitions
    return row.error_code, row.high_watermark, len(row.records)


BATCH_BYTES = len(encode_batch([b"a", b"b"], 0, 0, 1))


def test_a_consumer_gets_the_records_out_of_the_file() -> None:
    pair = Pair()
    pair.request(PRODUCE, 13, produce(-1))
    pair.replicate()
    pair.request(FETCH, 17, fetch())
    pair.replicate()
    assert fetched(pair.answers[-1]) == (ErrorCode.none, 2, BATCH_BYTES)


@pytest.mark.parametrize(("bytes_max", "batches"), [(1, 1), (10_000, 2)])
def test_a_response_has_no_more_records_than_the_broker_allows(
    bytes_max: int, batches: int
) -> None:
    pair = Pair(fetch_bytes_max=bytes_max)
    for _ in range(2):
        pair.request(PRODUCE, 13, produce(-1))
        pair.replicate()
    pair.pass_time(500)
    pair.replicate()
    pair.request(FETCH, 17, fetch())
    pair.replicate()
    assert fetched(pair.answers[-1]) == (ErrorCode.none, 4, batches * BATCH_BYTES)


def test_a_consumer_that_waits_at_the_follower_gets_them_with_the_high_watermark() -> None:
    pair = Pair()
    pair.follower.connect(CLIENT)
    pair.follower.request(FETCH, 17, fetch(min_bytes=1, max_wait=timedelta(seconds=9)))
    pair.request(PRODUCE, 13, produce(1))
    pair.replicate()
    assert len(pair.answers) == 1, "the producer"
    pair.pass_time(500)
    pair.replicate()
    assert fetched(pair.answers[-1]) == (ErrorCode.none, 2, BATCH_BYTES)


@pytest.mark.parametrize(("reads_in_rack", "preferred"), [(True, 2), (False, -1)])
def test_a_consumer_is_sent_to_the_follower_in_its_rack(
    reads_in_rack: bool, preferred: int
) -> None:
    pair = Pair(reads_in_rack=reads_in_rack)
    pair.replicate()
    pair.request(PRODUCE, 13, produce(-1))
    pair.replicate()
    pair.request(FETCH, 17, fetch(rack_id="rack-2"))
    pair.replicate()
    (topic,) = response(FETCH, 17, pair.answers[-1]).responses
    (row,) = topic.partitions
    assert (row.preferred_read_replica, not row.records) == (preferred, reads_in_rack)


def delete_records(timeout: timedelta) -> Any:
    new = codec.newest(DELETE_RECORDS, "request")
    row = new.DeleteRecordsPartition(partition_index=0, offset=0)
    topic = new.DeleteRecordsTopic(name="a", partitions=(row,))
    return new.DeleteRecordsRequest(topics=(topic,), timeout=timeout)


LONGEST = timedelta(milliseconds=2**31 - 1)


class Frame(bytearray):
    """A frame whose end can be seen."""

    __slots__ = ("__weakref__",)


@pytest.mark.parametrize(
    ("api_key", "version", "body"),
    [
        (FETCH, 17, fetch(min_bytes=1, max_wait=LONGEST)),
        (PRODUCE, 13, replace(produce(-1), timeout=LONGEST)),
        (DELETE_RECORDS, 2, delete_records(LONGEST)),
    ],
)
def test_what_closed_connections_waited_for_leaves_nothing(
    api_key: int, version: int, body: Any
) -> None:
    pair = Pair()
    waiting = pair.leader.broker._replicas
    frame = Frame(codec.encode_request(api_key, version, 5, "client", body))
    request = weakref.ref(frame)
    pair.leader.step(FramesReceived(CLIENT, [frame]))
    del frame
    assert sum(waiting.waiting_counts) == 1
    assert request() is None, "the frame is gone while the request waits"
    pair.leader.step(ConnectionClosed(CLIENT))
    assert waiting.waiting_counts == (0, 0, 0)


def test_no_request_waits_longer_than_an_idle_connection_lives() -> None:
    """Its connection may not be read, so that nobody would tell of its end."""
    pair = Pair()
    pair.request(FETCH, 17, fetch(min_bytes=10_000, max_wait=LONGEST))
    pair.request(PRODUCE, 13, replace(produce(-1), timeout=LONGEST))
    pair.request(DELETE_RECORDS, 2, delete_records(LONGEST))
    waiting = pair.leader.broker._replicas
    pair.leader.now_ms += WAIT_MS_MAX - 1
    pair.leader.step(TimeAdvanced())
    assert waiting.waiting_counts == (1, 1, 1)
    pair.leader.now_ms += 1
    pair.leader.step(TimeAdvanced())
    assert waiting.waiting_counts == (0, 0, 0)
