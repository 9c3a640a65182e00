"""Requests about records as a client makes them, in Kafka's wire format."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from wire.api_keys import FETCH, INIT_PRODUCER_ID, LIST_OFFSETS, PRODUCE
from wire.batches.batch import BatchHeader, RecordView, encode_records
from wire.messages import codec
from wire.types import LeaderEpoch, Offset

METADATA: Final = 3
CREATE_TOPICS: Final = 19
DELETE_RECORDS: Final = 21
TIMEOUT: Final = timedelta(seconds=2)
FETCH_WAIT: Final = timedelta(milliseconds=300)
FETCH_BYTES_MAX: Final = 600


class Producer(NamedTuple):
    """Identity of an idempotent producer."""

    producer_id: int
    epoch: int


def create_topic(name: str, partitions: int, replicas: int, **configs: str) -> Any:
    """CreateTopics of one topic, with `_` for each dot in the names of its configs."""
    new = codec.newest(CREATE_TOPICS, "request")
    rows = tuple(
        new.CreatableTopicConfig(name=key.replace("_", "."), value=value)
        for key, value in configs.items()
    )
    topic = new.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=(),
        configs=rows,
    )
    return new.CreateTopicsRequest(topics=(topic,), timeout=TIMEOUT, validate_only=False)


def create_assigned_topic(
    name: str, replicas: Sequence[Sequence[int]], configs: Mapping[str, str]
) -> Any:
    """CreateTopics of one topic with the replicas of each partition."""
    new = codec.newest(CREATE_TOPICS, "request")
    rows = tuple(new.CreatableTopicConfig(name=key, value=configs[key]) for key in sorted(configs))
    assignments = tuple(
        new.CreatableReplicaAssignment(partition_index=number, broker_ids=tuple(ids))
        for number, ids in enumerate(replicas)
    )
    topic = new.CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=rows
    )
    return new.CreateTopicsRequest(topics=(topic,), timeout=TIMEOUT, validate_only=False)


def list_offsets(topic: str, partition: int, timestamp_ms: int) -> Any:
    """ListOffsets of one partition by a consumer."""
    new = codec.newest(LIST_OFFSETS, "request")
    row = new.ListOffsetsPartition(
        partition_index=partition, current_leader_epoch=-1, timestamp=timestamp_ms
    )
    rows = (new.ListOffsetsTopic(name=topic, partitions=(row,)),)
    return replace(codec.default_request(LIST_OFFSETS), replica_id=-1, topics=rows)


def delete_records(topic: str, partition: int, offset: int) -> Any:
    """DeleteRecords of one partition."""
    new = codec.newest(DELETE_RECORDS, "request")
    row = new.DeleteRecordsPartition(partition_index=partition, offset=offset)
    rows = (new.DeleteRecordsTopic(name=topic, partitions=(row,)),)
    return new.DeleteRecordsRequest(topics=rows, timeout=TIMEOUT)


def metadata(topic: str) -> Any:
    """Metadata of one topic."""
    new = codec.newest(METADATA, "request")
    return new.MetadataRequest(
        topics=(new.MetadataRequestTopic(topic_id=None, name=topic),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )


def init_producer_id() -> Any:
    """InitProducerId without a transactional id."""
    return replace(
        codec.default_request(INIT_PRODUCER_ID),
        transactional_id=None,
        transaction_timeout=TIMEOUT,
    )


def batch(values: Sequence[bytes], wall_ms: int, producer: Producer | None, sequence: int) -> bytes:
    """A batch as a producer sends it."""
    header = BatchHeader(
        base_offset=Offset(0),
        leader_epoch=LeaderEpoch(-1),
        last_offset_delta=len(values) - 1,
        base_timestamp_ms=wall_ms,
        max_timestamp_ms=wall_ms,
        producer_id=-1 if producer is None else producer.producer_id,
        producer_epoch=-1 if producer is None else producer.epoch,
        base_sequence=-1 if producer is None else sequence,
        records_count=len(values),
    )
    views = [RecordView(Offset(n), wall_ms, None, value) for n, value in enumerate(values)]
    return encode_records(header, views)


def produce(topic_id: UUID, partition: int, records: bytes, acks: int) -> Any:
    """Produce of one batch."""
    new = codec.newest(PRODUCE, "request")
    row = new.PartitionProduceData(index=partition, records=records)
    topic = new.TopicProduceData(topic_id=topic_id, partition_data=(row,))
    return new.ProduceRequest(acks=acks, timeout=TIMEOUT, topic_data=(topic,))


def fetch(topic_id: UUID, partition: int, offset: int, leader_epoch: int) -> Any:
    """Fetch of one partition, outside any session."""
    new = codec.newest(FETCH, "request")
    row = new.FetchPartition(
        partition=partition,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=FETCH_BYTES_MAX,
    )
    topic = new.FetchTopic(topic_id=topic_id, partitions=(row,))
    return replace(codec.default_request(FETCH), topics=(topic,), max_wait=FETCH_WAIT, min_bytes=1)
