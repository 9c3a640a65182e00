"""Bodies that clients of records send, as the brokers' readers of these requests take them."""

from datetime import timedelta
from uuid import UUID

import pytest

from wire.api_keys import FETCH, PRODUCE
from wire.batches.batch import RecordView, iterate_batches
from wire.batches.compression import Codec
from wire.batches.produced_batch import produced_batch
from wire.messages.codec import encode_request
from wire.messages.fetch_request import BrokerFetchRequest, RequestedPartition, decode_fetch_request
from wire.messages.produce import ProducedPartition, ProduceRequest, decode_produce_request
from wire.messages.record_requests import (
    fetch_request,
    init_producer_id_request,
    list_offsets_request,
    metadata_request,
    produce_request,
)

ONE, TWO = UUID(int=1), UUID(int=2)
MS = timedelta(milliseconds=1)
HEADER_BYTES = 11
"""Of a request of nobody: key, version, correlation id, null, no tagged fields."""


def test_a_produce_of_several_partitions():
    body = produce_request({ONE: {0: b"a", 3: b"bc"}, TWO: {1: b""}}, -1, 7 * MS)
    frame = encode_request(PRODUCE, 13, 0, None, body)
    assert decode_produce_request(13, frame, HEADER_BYTES) == ProduceRequest(
        None,
        -1,
        7,
        (
            ProducedPartition(ONE.bytes, 0, memoryview(b"a")),
            ProducedPartition(ONE.bytes, 3, memoryview(b"bc")),
            ProducedPartition(TWO.bytes, 1, memoryview(b"")),
        ),
    )


def test_a_fetch_of_several_partitions():
    body = fetch_request(
        {ONE: {0: 5, 3: 6}, TWO: {1: 7}},
        9 * MS,
        min_bytes=2,
        max_bytes=100,
        partition_max_bytes=60,
        isolation_level=1,
        leader_epoch=4,
    )
    rows = [(ONE, 0, 5), (ONE, 3, 6), (TWO, 1, 7)]
    assert read(body) == BrokerFetchRequest(
        replica_id=-1,
        max_wait_ms=9,
        min_bytes=2,
        max_bytes=100,
        is_committed_only=True,
        partitions=tuple(
            RequestedPartition(
                topic=topic.bytes,
                partition=number,
                fetch_offset=offset,
                max_bytes=60,
                current_leader_epoch=4,
            )
            for topic, number, offset in rows
        ),
    )


def test_a_fetch_asks_for_a_byte_of_what_is_there():
    asked = read(fetch_request({ONE: {0: 5}}, 9 * MS, partition_max_bytes=60))
    assert (asked.min_bytes, asked.max_bytes, asked.is_committed_only) == (1, 2**31 - 1, False)
    assert asked.partitions[0].current_leader_epoch == -1


def read(body):
    return decode_fetch_request(18, encode_request(FETCH, 18, 0, None, body), HEADER_BYTES)


def test_offsets_of_several_partitions():
    body = list_offsets_request({"a": (0, 3), "b": (1,)}, -2, 8 * MS, isolation_level=1)
    assert (body.replica_id, body.isolation_level, body.timeout) == (-1, 1, 8 * MS)
    rows = [
        (topic.name, row.partition_index, row.timestamp, row.current_leader_epoch)
        for topic in body.topics
        for row in topic.partitions
    ]
    assert rows == [("a", 0, -2, -1), ("a", 3, -2, -1), ("b", 1, -2, -1)]
    assert list_offsets_request({}, -1, MS).isolation_level == 0


@pytest.mark.parametrize("may_create", [True, False])
def test_metadata_of_named_topics_or_all(may_create):
    body = metadata_request(["a", "b"], may_create=may_create)
    assert [(topic.name, topic.topic_id) for topic in body.topics] == [("a", None), ("b", None)]
    assert body.allow_auto_topic_creation is may_create
    assert not body.include_topic_authorized_operations
    assert metadata_request(None).topics is None
    assert not metadata_request(None).allow_auto_topic_creation


def test_a_new_producer():
    body = init_producer_id_request(5 * MS)
    assert (body.transactional_id, body.transaction_timeout) == (None, 5 * MS)
    assert (body.producer_id, body.producer_epoch) == (-1, -1)


def test_a_batch_of_a_producer():
    records = [
        RecordView(0, 40, b"k", b"v"),
        RecordView(1, 60, None, None),
        RecordView(2, 50, b"", b""),
    ]
    (batch,) = iterate_batches(
        produced_batch(records, Codec.GZIP, producer_id=8, producer_epoch=2, base_sequence=3)
    )
    assert batch.crc_is_valid
    assert [record.timestamp_ms for record in batch.records()] == [40, 60, 50]
    assert batch.records() == records
    header = batch.header
    assert (header.base_offset, header.leader_epoch, header.attributes) == (0, -1, 1)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (40, 60)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (8, 2, 3)
    assert (header.last_offset_delta, header.records_count) == (2, 3)


def test_a_batch_of_a_producer_that_is_not_idempotent():
    (batch,) = iterate_batches(produced_batch([RecordView(0, 40, None, b"v")]))
    header = batch.header
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert header.attributes == 0


def test_a_batch_and_a_request_of_a_transaction() -> None:
    content = produced_batch([RecordView(0, 40, None, b"v")], Codec.GZIP, is_transactional=True)
    (batch,) = iterate_batches(content)
    assert (batch.header.is_transactional, batch.header.codec) == (True, Codec.GZIP)
    (plain,) = iterate_batches(produced_batch([RecordView(0, 40, None, b"v")]))
    assert not plain.header.is_transactional
    assert produce_request({}, -1, MS, "x").transactional_id == "x"
    assert produce_request({}, -1, MS).transactional_id is None
