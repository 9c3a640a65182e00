"""Bodies of what clients ask about records, in kio's newest shape, by topic and partition."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from wire.api_keys import FETCH, INIT_PRODUCER_ID, LIST_OFFSETS, METADATA, PRODUCE
from wire.messages.codec import newest

CONSUMER: Final = -1
"""Replica id of a client."""
_NONE: Final = -1
_BYTES_MAX: Final = (1 << 31) - 1


def metadata_request(names: Collection[str] | None, *, may_create: bool = False) -> Any:
    """Make a Metadata of the named topics, None for all.

    Args:
        names: of the topics.
        may_create: those that do not exist may be created (`auto.create.topics.enable`).
    """
    new = newest(METADATA, "request")
    topics = None
    if names is not None:
        topics = tuple(new.MetadataRequestTopic(topic_id=None, name=name) for name in names)
    return new.MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=may_create,
        include_topic_authorized_operations=False,
    )


def init_producer_id_request(transaction_timeout: timedelta) -> Any:
    """Make an InitProducerId of a new producer without transactions."""
    new = newest(INIT_PRODUCER_ID, "request")
    return new.InitProducerIdRequest(
        transactional_id=None,
        transaction_timeout=transaction_timeout,
        producer_id=_NONE,
        producer_epoch=_NONE,
    )


def produce_request(
    batches: Mapping[UUID, Mapping[int, bytes]],
    acks: int,
    timeout: timedelta,
    transactional_id: str | None = None,
) -> Any:
    """Make a Produce of one batch for each partition."""
    new = newest(PRODUCE, "request")
    return new.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout=timeout,
        topic_data=tuple(
            new.TopicProduceData(
                topic_id=topic_id,
                partition_data=tuple(
                    new.PartitionProduceData(index=number, records=batch)
                    for number, batch in of_topic.items()
                ),
            )
            for topic_id, of_topic in batches.items()
        ),
    )


def fetch_request(
    offsets: Mapping[UUID, Mapping[int, int]],
    max_wait: timedelta,
    *,
    min_bytes: int = 1,
    max_bytes: int = _BYTES_MAX,
    partition_max_bytes: int,
    isolation_level: int = 0,
    leader_epoch: int = _NONE,
) -> Any:
    """Make a Fetch of a consumer without a session.

    Args:
        offsets: to read from.
        max_wait: for `min_bytes`.
        min_bytes: of records.
        max_bytes: of the response.
        partition_max_bytes: of each partition.
        isolation_level: 1 for what is committed alone.
        leader_epoch: that the consumer knows, of each partition.
    """
    new = newest(FETCH, "request")
    return new.FetchRequest(
        max_wait=max_wait,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=0,
        session_epoch=_NONE,
        topics=tuple(
            new.FetchTopic(
                topic_id=topic_id,
                partitions=tuple(
                    new.FetchPartition(
                        partition=number,
                        current_leader_epoch=leader_epoch,
                        fetch_offset=offset,
                        log_start_offset=_NONE,
                        partition_max_bytes=partition_max_bytes,
                    )
                    for number, offset in of_topic.items()
                ),
            )
            for topic_id, of_topic in offsets.items()
        ),
        forgotten_topics_data=(),
        rack_id="",
    )


def list_offsets_request(
    partitions: Mapping[str, Collection[int]],
    timestamp: int,
    timeout: timedelta,
    *,
    isolation_level: int = 0,
) -> Any:
    """Make a ListOffsets of a consumer.

    Args:
        partitions: numbers by topic.
        timestamp: in ms, or Kafka's negative number of a place such as -1 for the end.
        timeout: of the broker.
        isolation_level: 1 for the last stable offset as the end.
    """
    new = newest(LIST_OFFSETS, "request")
    return new.ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=isolation_level,
        topics=tuple(
            new.ListOffsetsTopic(
                name=name,
                partitions=tuple(
                    new.ListOffsetsPartition(
                        partition_index=number, current_leader_epoch=_NONE, timestamp=timestamp
                    )
                    for number in numbers
                ),
            )
            for name, numbers in partitions.items()
        ),
        timeout=timeout,
    )
