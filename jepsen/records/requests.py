"""Bodies of requests about records and their leaders, in kio's newest shape."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from typing_extensions import override

from jepsen.clients import CREATE_TOPICS, METADATA, SERVER_TIMEOUT
from wire.messages.codec import newest

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
INIT_PRODUCER_ID: Final = 22
ELECT_LEADERS: Final = 43
ALTER_PARTITION_REASSIGNMENTS: Final = 45
LATEST: Final = -1
ALL: Final = -1
"""Acks of all replicas in sync."""
PREFERRED: Final = 0
FETCH_BYTES_MAX: Final = 1024 * 1024
_TRANSACTION_TIMEOUT: Final = timedelta(seconds=60)


class TopicPartition(NamedTuple):
    """A partition; its text is the key of its operations."""

    topic: str
    number: int

    @override
    def __str__(self) -> str:
        """Kafka's notation."""
        return f"{self.topic}-{self.number}"


def create_logs(
    names: Sequence[str], partitions: int, replicas: int, configs: Mapping[str, str]
) -> Any:
    """Make a CreateTopics of equal topics."""
    request = newest(CREATE_TOPICS, "request")
    settings = tuple(
        request.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()
    )
    topics = tuple(
        request.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            assignments=(),
            configs=settings,
        )
        for name in names
    )
    return request.CreateTopicsRequest(topics=topics, timeout=SERVER_TIMEOUT, validate_only=False)


def describe(names: Sequence[str]) -> Any:
    """Make a Metadata of topics."""
    request = newest(METADATA, "request")
    return request.MetadataRequest(
        topics=tuple(request.MetadataRequestTopic(topic_id=None, name=name) for name in names),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )


def init_producer_id() -> Any:
    """Make an InitProducerId of a producer without transactions."""
    request = newest(INIT_PRODUCER_ID, "request")
    return request.InitProducerIdRequest(
        transactional_id=None,
        transaction_timeout=_TRANSACTION_TIMEOUT,
        producer_id=-1,
        producer_epoch=-1,
    )


def produce(topic_id: UUID, number: int, batch: bytes) -> Any:
    """Make a Produce of one batch that all replicas in sync acknowledge."""
    request = newest(PRODUCE, "request")
    partition = request.PartitionProduceData(index=number, records=batch)
    topic = request.TopicProduceData(topic_id=topic_id, partition_data=(partition,))
    return request.ProduceRequest(
        transactional_id=None, acks=ALL, timeout=SERVER_TIMEOUT, topic_data=(topic,)
    )


def fetch(topic_id: UUID, number: int, offset: int, wait_ms: int) -> Any:
    """Make a Fetch of one partition, without a session."""
    request = newest(FETCH, "request")
    partition = request.FetchPartition(
        partition=number,
        current_leader_epoch=-1,
        fetch_offset=offset,
        log_start_offset=-1,
        partition_max_bytes=FETCH_BYTES_MAX,
    )
    return request.FetchRequest(
        max_wait=timedelta(milliseconds=wait_ms),
        min_bytes=1,
        max_bytes=FETCH_BYTES_MAX,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=(request.FetchTopic(topic_id=topic_id, partitions=(partition,)),),
        forgotten_topics_data=(),
        rack_id="",
    )


def list_end(partition: TopicPartition) -> Any:
    """Make a ListOffsets of the end of a partition."""
    request = newest(LIST_OFFSETS, "request")
    row = request.ListOffsetsPartition(
        partition_index=partition.number, current_leader_epoch=-1, timestamp=LATEST
    )
    return request.ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=(request.ListOffsetsTopic(name=partition.topic, partitions=(row,)),),
        timeout=SERVER_TIMEOUT,
    )


def reassign(replicas: Mapping[TopicPartition, Sequence[int]]) -> Any:
    """Make an AlterPartitionReassignments."""
    request = newest(ALTER_PARTITION_REASSIGNMENTS, "request")
    topics = tuple(
        request.ReassignableTopic(
            name=name,
            partitions=tuple(
                request.ReassignablePartition(
                    partition_index=key.number, replicas=tuple(replicas[key])
                )
                for key in sorted(replicas)
                if key.topic == name
            ),
        )
        for name in sorted({key.topic for key in replicas})
    )
    return request.AlterPartitionReassignmentsRequest(timeout=SERVER_TIMEOUT, topics=topics)


def elect_preferred(partitions: Sequence[TopicPartition]) -> Any:
    """Make an ElectLeaders of preferred leaders."""
    request = newest(ELECT_LEADERS, "request")
    topics = tuple(
        request.TopicPartitions(
            topic=name, partitions=tuple(key.number for key in partitions if key.topic == name)
        )
        for name in sorted({key.topic for key in partitions})
    )
    return request.ElectLeadersRequest(
        election_type=PREFERRED, topic_partitions=topics, timeout=SERVER_TIMEOUT
    )
