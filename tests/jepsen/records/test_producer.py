"""Outcomes of a producer's batches, against a broker that answers as it is told."""

import asyncio
import contextlib
from datetime import timedelta
from random import Random
from uuid import UUID

import pytest

from jepsen.cluster import NodeAddresses
from jepsen.records import producer as producer_module
from jepsen.records.brokers import Brokers
from jepsen.records.producer import Acknowledged, GivenUp, Producer
from jepsen.records.requests import TopicPartition
from tests.jepsen.test_connections import API_VERSIONS, listening
from wire.api_keys import INIT_PRODUCER_ID, PRODUCE
from wire.api_table import ListenerKind, api_versions_body, apis
from wire.batches.batch import iterate_batches
from wire.batches.compression import Codec
from wire.connections.connection import ServerConnection
from wire.errors import ErrorCode
from wire.messages.codec import newest

METADATA = 3
KEY = TopicPartition("log-a", 0)
ID = UUID("00000000-0000-4000-8000-000000000001")
CLOSE = "close"
_ZERO = timedelta()


class Answers:
    """Outcomes of the next Produce requests, and the batches that came."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.batches = []
        self.producer_ids = iter(range(1000, 2000))
        self.has_leader = True

    def body(self, request):
        """Body of the answer; None: the connection is closed."""
        if request.api_key == INIT_PRODUCER_ID:
            return newest(INIT_PRODUCER_ID, "response").InitProducerIdResponse(
                throttle_time=_ZERO, error_code=ErrorCode.none,
                producer_id=next(self.producer_ids), producer_epoch=3,
            )  # fmt: skip
        if request.api_key == METADATA:
            return self.metadata()
        ((partition,),) = [topic.partition_data for topic in request.body.topic_data]
        self.batches.append(bytes(partition.records))
        outcome = self.outcomes.pop(0)
        return None if outcome == CLOSE else _produced(outcome)

    def metadata(self):
        module = newest(METADATA, "response")
        row = module.MetadataResponsePartition(
            error_code=ErrorCode.none, partition_index=0, leader_id=1 if self.has_leader else -1,
            leader_epoch=7, replica_nodes=(1,), isr_nodes=(1,), offline_replicas=(),
        )  # fmt: skip
        self.has_leader = True
        topic = module.MetadataResponseTopic(
            error_code=ErrorCode.none, name="log-a", topic_id=ID, partitions=(row,)
        )
        return module.MetadataResponse(
            throttle_time=_ZERO, brokers=(), controller_id=1, topics=(topic,),
            error_code=ErrorCode.none,
        )  # fmt: skip

    def headers(self):
        """(producer id, epoch, sequence, records) of every batch."""
        found = []
        for content in self.batches:
            (batch,) = iterate_batches(content)
            header = batch.header
            found.append(
                (
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    header.records_count,
                )
            )
        return found


def _produced(code):
    module = newest(PRODUCE, "response")
    row = module.PartitionProduceResponse(
        index=0, error_code=ErrorCode(code), base_offset=-1 if code else 40, log_append_time=None,
        record_errors=(),
    )  # fmt: skip
    topic = module.TopicProduceResponse(topic_id=ID, partition_responses=(row,))
    return module.ProduceResponse(responses=(topic,), throttle_time=_ZERO)


@contextlib.asynccontextmanager
async def producing(answers, *, is_idempotent=True):
    table = apis(ListenerKind.BROKER, {PRODUCE, INIT_PRODUCER_ID, METADATA})

    async def serve(reader, writer):
        protocol = ServerConnection(table, 1 << 20)
        while received := await reader.read(1 << 16):
            for request in protocol.receive(received):
                if request.api_key == API_VERSIONS:
                    body = api_versions_body(table)
                elif (body := answers.body(request)) is None:
                    writer.transport.abort()
                    return
                writer.write(protocol.respond(request.reply_slot, body))

    async with listening(serve) as address:
        nodes = {1: NodeAddresses(address, address, address)}
        brokers = Brokers(nodes, ("log-a",), Random(1))
        try:
            yield Producer(brokers, Codec.NONE, is_idempotent=is_idempotent)
        finally:
            brokers.close()
            await asyncio.sleep(0)


async def outcome(*outcomes, **words):
    """Acknowledged, or whether the batch is certainly in no log."""
    async with producing(Answers(*outcomes), **words) as producer:
        try:
            return await producer.append(KEY, [1, 2], 1000)
        except GivenUp as error:
            return error.is_certain


async def test_batches_have_sequences_of_their_partition():
    answers = Answers(0, 0)
    async with producing(answers) as producer:
        assert await producer.append(KEY, [1, 2, 3], 1000) == Acknowledged(40, 7, 1)
        await producer.append(KEY, [4], 1000)
    assert answers.headers() == [(1000, 3, 0, 3), (1000, 3, 3, 1)]


async def test_a_batch_is_sent_again_as_it_was():
    answers = Answers(6, CLOSE, 20, 0)
    answers.has_leader = False
    async with producing(answers) as producer:
        assert await producer.append(KEY, [1, 2], 1000) == Acknowledged(40, 7, 4)
    assert len(set(answers.batches)) == 1


async def test_without_idempotence_no_batch_has_a_producer():
    answers = Answers(6, 0)
    async with producing(answers, is_idempotent=False) as producer:
        await producer.append(KEY, [1], 1000)
    assert answers.headers() == [(-1, -1, -1, 1)] * 2


async def test_a_duplicate_is_acknowledged_without_its_offset():
    assert await outcome(CLOSE, 46) == Acknowledged(None, 7, 2)


@pytest.mark.parametrize(
    ("outcomes", "is_certain"),
    [
        ((45,), True),
        ((10,), True),
        ((19, 45), True),  # NOT_ENOUGH_REPLICAS comes before the append
        ((6, 45), False),  # may come behind it
        ((20, 45), False),
        ((CLOSE, 45), False),
        ((17,), False),  # never analysed
    ],
)
async def test_a_refusal_is_certain_if_no_attempt_may_have_been_appended(outcomes, is_certain):
    assert await outcome(*outcomes) is is_certain


@pytest.mark.parametrize(("code", "is_certain"), [(19, True), (6, False)])
async def test_a_batch_that_comes_to_its_deadline(monkeypatch, code, is_certain):
    monkeypatch.setattr(producer_module, "DELIVERY_S", 0.0)
    assert await outcome(code) is is_certain


async def test_behind_a_batch_that_was_given_up_the_producer_is_another():
    answers = Answers(0, 45, 0)
    async with producing(answers) as producer:
        await producer.append(KEY, [1, 2], 1000)
        with pytest.raises(GivenUp, match="refused: out_of_order_sequence_number, attempt 1"):
            await producer.append(KEY, [3], 1000)
        await producer.append(KEY, [4], 1000)
    assert answers.headers() == [(1000, 3, 0, 2), (1000, 3, 2, 1), (1001, 3, 0, 1)]
