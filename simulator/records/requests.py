"""Requests about records as a client makes them, in Kafka's wire format."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple
from uuid import UUID

from wire.batches.batch import RecordView
from wire.batches.compression import Codec
from wire.batches.produced_batch import produced_batch
from wire.messages import codec
from wire.messages.record_requests import fetch_request, list_offsets_request, produce_request
from wire.types import Offset, TopicId

CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
DELETE_RECORDS: Final = 21
ALTER_REPLICA_LOG_DIRS: Final = 34
ELECT_LEADERS: Final = 43
INCREMENTAL_ALTER_CONFIGS: Final = 44
ALTER_PARTITION_REASSIGNMENTS: Final = 45
UPDATE_FEATURES: Final = 57
UPGRADE: Final = 1
TOPIC_RESOURCE: Final = 2
SET, DELETE = 0, 1
TIMEOUT: Final = timedelta(seconds=2)
FETCH_WAIT: Final = timedelta(milliseconds=300)
FETCH_BYTES_MAX: Final = 600
KEPT_FETCHES: Final = 256


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


def upgrade_feature(name: str, level: int) -> Any:
    """UpdateFeatures of one feature."""
    new = codec.newest(UPDATE_FEATURES, "request")
    row = new.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=UPGRADE)
    return new.UpdateFeaturesRequest(feature_updates=(row,), timeout=TIMEOUT, validate_only=False)


def delete_topic(topic_id: TopicId) -> Any:
    """DeleteTopics of one topic by its id: sent again, it is not that of a later one."""
    new = codec.newest(DELETE_TOPICS, "request")
    state = new.DeleteTopicState(name=None, topic_id=UUID(bytes=bytes(topic_id)))
    return new.DeleteTopicsRequest(topics=(state,), timeout=TIMEOUT)


def alter_topic(name: str, configs: Mapping[str, str | None]) -> Any:
    """IncrementalAlterConfigs of one topic; None takes the config away."""
    new = codec.newest(INCREMENTAL_ALTER_CONFIGS, "request")
    rows = tuple(
        new.AlterableConfig(
            name=key, config_operation=DELETE if value is None else SET, value=value
        )
        for key, value in configs.items()
    )
    resource = new.AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=name, configs=rows
    )
    return new.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


def reassign(topic: str, partition: int, replicas: Sequence[int] | None) -> Any:
    """AlterPartitionReassignments of one partition; None cancels."""
    new = codec.newest(ALTER_PARTITION_REASSIGNMENTS, "request")
    row = new.ReassignablePartition(
        partition_index=partition, replicas=None if replicas is None else tuple(replicas)
    )
    named = new.ReassignableTopic(name=topic, partitions=(row,))
    return new.AlterPartitionReassignmentsRequest(
        timeout=TIMEOUT, allow_replication_factor_change=True, topics=(named,)
    )


def alter_log_dir(topic: str, partition: int, path: str) -> Any:
    """AlterReplicaLogDirs of one partition."""
    new = codec.newest(ALTER_REPLICA_LOG_DIRS, "request")
    named = new.AlterReplicaLogDirTopic(name=topic, partitions=(partition,))
    directory = new.AlterReplicaLogDir(path=path, topics=(named,))
    return new.AlterReplicaLogDirsRequest(dirs=(directory,))


def elect_preferred(topic: str, partition: int) -> Any:
    """ElectLeaders: the preferred replica of one partition."""
    new = codec.newest(ELECT_LEADERS, "request")
    named = new.TopicPartitions(topic=topic, partitions=(partition,))
    return new.ElectLeadersRequest(election_type=0, topic_partitions=(named,), timeout=TIMEOUT)


def list_offsets(topic: str, partition: int, timestamp_ms: int) -> Any:
    """ListOffsets of one partition by a consumer."""
    return list_offsets_request({topic: (partition,)}, timestamp_ms, TIMEOUT)


def delete_records(topic: str, partition: int, offset: int) -> Any:
    """DeleteRecords of one partition."""
    new = codec.newest(DELETE_RECORDS, "request")
    row = new.DeleteRecordsPartition(partition_index=partition, offset=offset)
    rows = (new.DeleteRecordsTopic(name=topic, partitions=(row,)),)
    return new.DeleteRecordsRequest(topics=rows, timeout=TIMEOUT)


def batch(
    values: Sequence[bytes],
    wall_ms: int,
    producer: Producer | None,
    sequence: int,
    compression: Codec = Codec.NONE,
    key: bytes | None = None,
) -> bytes:
    """A batch as a producer sends it, its records of one key or without any."""
    records = [RecordView(Offset(n), wall_ms, key, value) for n, value in enumerate(values)]
    if producer is None:
        return produced_batch(records, compression)
    return produced_batch(
        records,
        compression,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
    )


def produce(topic_id: UUID, partition: int, records: bytes, acks: int) -> Any:
    """Produce of one batch."""
    return produce_request({topic_id: {partition: records}}, acks, TIMEOUT)


@lru_cache(KEPT_FETCHES)
def fetch(topic_id: UUID, partition: int, offset: int, leader_epoch: int, rack: str = "") -> Any:
    """Fetch of one partition, outside any session."""
    body = fetch_request(
        {topic_id: {partition: offset}},
        FETCH_WAIT,
        partition_max_bytes=FETCH_BYTES_MAX,
        leader_epoch=leader_epoch,
    )
    return replace(body, rack_id=rack)
