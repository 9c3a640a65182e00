"""Requests about transactions as a client makes them, older clients in their older shapes."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.schema.add_partitions_to_txn.v3 import request as add
from kio.schema.produce.v11 import request as old_produce

from simulator.records.requests import FETCH_BYTES_MAX, FETCH_WAIT, KEPT_FETCHES, TIMEOUT, Producer
from wire.api_keys import (
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FIND_COORDINATOR,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    WRITE_TXN_MARKERS,
)
from wire.batches.batch import TRANSACTIONAL_BIT, BatchHeader, RecordView, encode_records
from wire.messages import codec
from wire.messages.record_requests import (
    fetch_request,
    init_producer_id_request,
    produce_request,
)
from wire.types import LeaderEpoch, Offset

TRANSACTION: Final = 1
"""Type of key of a transactional id in FindCoordinator."""
COMMITTED: Final = 1
"""Isolation level."""
EPOCH_BUMP_VERSION: Final = 2
"""transaction.version whose clients go on with a new epoch behind each transaction."""
LAST_PRODUCE_VERSION: Final = 11
LAST_ADD_VERSION: Final = 3
LAST_END_VERSION: Final = 4
LAST_OFFSETS_VERSION: Final = 4
"""Last versions of clients before it."""
OLD_LIMITS: Final = {
    PRODUCE: LAST_PRODUCE_VERSION,
    ADD_PARTITIONS_TO_TXN: LAST_ADD_VERSION,
    END_TXN: LAST_END_VERSION,
    TXN_OFFSET_COMMIT: LAST_OFFSETS_VERSION,
}
ALL_IN_SYNC: Final = -1


class Topic(NamedTuple):
    """A topic by both of its names."""

    name: str
    id: UUID


def find_coordinator(key: str, key_type: int = TRANSACTION) -> Any:
    """FindCoordinator of one transactional id, or of a key of another type."""
    new = codec.newest(FIND_COORDINATOR, "request")
    return new.FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))


def init_producer_id(transactional_id: str, timeout_ms: int, expected: Producer | None) -> Any:
    """InitProducerId of one that begins, or of a producer that goes on."""
    body = init_producer_id_request(timedelta(milliseconds=timeout_ms))
    producer = Producer(-1, -1) if expected is None else expected
    return replace(
        body,
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
    )


def add_partitions(
    transactional_id: str, producer: Producer, topic: str, partitions: Iterable[int]
) -> Any:
    """AddPartitionsToTxn of an older client."""
    new: Any = add
    row = new.AddPartitionsToTxnTopic(name=topic, partitions=tuple(partitions))
    return new.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=(row,),
    )


def batch(
    values: Sequence[bytes],
    wall_ms: int,
    producer: Producer,
    sequence: int,
    codec_id: int = 0,
) -> bytes:
    """A batch of a transaction."""
    records = [RecordView(Offset(n), wall_ms, None, value) for n, value in enumerate(values)]
    header = BatchHeader(
        base_offset=Offset(0),
        leader_epoch=LeaderEpoch(-1),
        attributes=TRANSACTIONAL_BIT | codec_id,
        last_offset_delta=len(records) - 1,
        base_timestamp_ms=wall_ms,
        max_timestamp_ms=wall_ms,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        records_count=len(records),
    )
    return encode_records(header, records)


def produce(
    transactional_id: str, topic: Topic, partition: int, records: bytes, *, is_old: bool
) -> Any:
    """Produce of one batch of a transaction: by name from an older client, else by id."""
    if not is_old:
        body = produce_request({topic.id: {partition: records}}, ALL_IN_SYNC, TIMEOUT)
        return replace(body, transactional_id=transactional_id)
    new: Any = old_produce
    data = new.PartitionProduceData(index=partition, records=records)
    row = new.TopicProduceData(name=topic.name, partition_data=(data,))
    return new.ProduceRequest(
        transactional_id=transactional_id, acks=ALL_IN_SYNC, timeout=TIMEOUT, topic_data=(row,)
    )


def end(transactional_id: str, producer: Producer, *, is_commit: bool) -> Any:
    """EndTxn."""
    new = codec.newest(END_TXN, "request")
    return new.EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=is_commit,
    )


def marker(
    producer: Producer,
    partition: tuple[str, int],
    *,
    is_commit: bool,
    coordinator_epoch: int,
    version: int,
) -> Any:
    """WriteTxnMarkers of one partition, by its topic and number."""
    new = codec.newest(WRITE_TXN_MARKERS, "request")
    topic, number = partition
    row = new.WritableTxnMarkerTopic(name=topic, partition_indexes=(number,))
    ended = new.WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=is_commit,
        topics=(row,),
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
    )
    return new.WriteTxnMarkersRequest(markers=(ended,))


@lru_cache(KEPT_FETCHES)
def fetch_committed(
    topic_id: UUID, partition: int, offset: int, leader_epoch: int, rack: str = ""
) -> Any:
    """Fetch of one partition, outside any session, of what is committed."""
    body = fetch_request(
        {topic_id: {partition: offset}},
        FETCH_WAIT,
        partition_max_bytes=FETCH_BYTES_MAX,
        isolation_level=COMMITTED,
        leader_epoch=leader_epoch,
    )
    return replace(body, rack_id=rack)
