"""Producers as the replicas of a partition know them, and markers that end their transactions.

(apache/kafka: clients/.../admin/internals/DescribeProducersHandler.java,
AbortTransactionHandler.java, 4.3)
"""

from collections.abc import Collection, Iterator
from typing import Any, Final

import msgspec

from cli.connect import Api, ClusterError, newest
from cli.kafka_errors import message_of
from cli.records.clients.clock import Clock
from cli.records.clients.leader_calls import Failed, answers_of_leaders
from cli.records.clients.topic_metadata import Partition, described_topics

WRITE_TXN_MARKERS: Final = 27
DESCRIBE_PRODUCERS: Final = 61
NONE: Final = -1
_NOT_LEADER_OR_FOLLOWER: Final = 6
_TOPIC_NOT_AUTHORIZED: Final = 29
_CLUSTER_NOT_AUTHORIZED: Final = 31
_INVALID_EPOCH: Final = 47
_COORDINATOR_FENCED: Final = 52


class Producer(msgspec.Struct, frozen=True, kw_only=True):
    """A producer at a replica; -1 is no coordinator epoch."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    start_offset: int | None
    """First offset of its open transaction."""


class AbortSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction at a partition that is to be aborted."""

    partition: Partition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int

    @property
    def text(self) -> str:
        """As Kafka prints it."""
        return (
            f"AbortTransactionSpec(topicPartition={self.partition}, producerId={self.producer_id}, "
            f"producerEpoch={self.producer_epoch}, coordinatorEpoch={self.coordinator_epoch})"
        )


Producers = tuple[Producer, ...]


def described(
    api: Api, partitions: Collection[Partition], broker_id: int | None, clock: Clock
) -> dict[Partition, Producers]:
    """The producers of partitions, at their leaders or at one broker.

    Raises:
        ClusterError: a partition is not described.
    """
    if broker_id is None:
        topics = described_topics(api, sorted({partition.topic for partition in partitions}))

        def ask(
            leader: int, wanted: dict[str, list[int]]
        ) -> Iterator[tuple[Partition, Producers | Failed]]:
            return _asked(api, leader, wanted)

        found = answers_of_leaders(api, topics, partitions, ask, clock)
    else:
        by_topic: dict[str, list[int]] = {}
        for topic, number in partitions:
            by_topic.setdefault(topic, []).append(number)
        found = dict(_asked(api, broker_id, by_topic))
    known: dict[Partition, Producers] = {}
    for partition in partitions:
        answer = found[partition]
        if isinstance(answer, Failed):
            raise ClusterError(_why(partition, answer.code, broker_id))
        known[partition] = answer
    return known


def _why(partition: Partition, code: int, broker_id: int | None) -> str:
    if code == _NOT_LEADER_OR_FOLLOWER and broker_id is not None:
        return (
            f"Failed to describe active producers for partition {partition} on brokerId {broker_id}"
        )
    if code == _TOPIC_NOT_AUTHORIZED:
        return (
            f"Failed to describe active producers for partition {partition} due to authorization "
            f"failure on topic `{partition.topic}`"
        )
    return message_of(code)


def _asked(
    api: Api, node: int, wanted: dict[str, list[int]]
) -> Iterator[tuple[Partition, Producers | Failed]]:
    new = newest(DESCRIBE_PRODUCERS)
    topics = tuple(
        new.TopicRequest(name=name, partition_indexes=tuple(numbers))
        for name, numbers in wanted.items()
    )
    answer = api.call(DESCRIBE_PRODUCERS, new.DescribeProducersRequest(topics=topics), node)
    for topic in answer.topics:
        for row in topic.partitions:
            partition, code = Partition(str(topic.name), int(row.partition_index)), row.error_code
            producers = tuple(map(_producer, row.active_producers))
            yield partition, Failed(int(code)) if code else producers


def _producer(row: Any) -> Producer:
    start = int(row.current_txn_start_offset)
    return Producer(
        producer_id=int(row.producer_id),
        producer_epoch=int(row.producer_epoch),
        coordinator_epoch=max(NONE, int(row.coordinator_epoch)),
        last_sequence=int(row.last_sequence),
        last_timestamp_ms=int(row.last_timestamp),
        start_offset=None if start < 0 else start,
    )


def abort(api: Api, spec: AbortSpec, clock: Clock) -> None:
    """Have the leader of a partition write the marker that ends a transaction there.

    Raises:
        ClusterError: it refuses, or cannot be reached.
    """
    partition = spec.partition
    request = _marker(spec)

    def ask(
        leader: int, _wanted: dict[str, list[int]]
    ) -> Iterator[tuple[Partition, Failed | None]]:
        (marker,) = api.call(WRITE_TXN_MARKERS, request, leader).markers
        (topic,) = marker.topics
        (row,) = topic.partitions
        yield partition, Failed(int(row.error_code)) if row.error_code else None

    topics = described_topics(api, [partition.topic])
    answer = answers_of_leaders(api, topics, [partition], ask, clock)[partition]
    if isinstance(answer, Failed):
        raise ClusterError(_refusal(spec, answer.code))


def _refusal(spec: AbortSpec, code: int) -> str:
    why = {
        _CLUSTER_NOT_AUTHORIZED: "failed due to cluster authorization error",
        _INVALID_EPOCH: "failed due an invalid producer epoch",
        _COORDINATOR_FENCED: "failed since the provided coordinator epoch "
        f"{spec.coordinator_epoch} has been fenced by the active coordinator",
    }
    unexpected = f"failed due to unexpected error: {message_of(code)}"
    return f"WriteTxnMarkers request with {spec.text} {why.get(code, unexpected)}"


def _marker(spec: AbortSpec) -> Any:
    new = newest(WRITE_TXN_MARKERS)
    topic = new.WritableTxnMarkerTopic(
        name=spec.partition.topic, partition_indexes=(spec.partition.number,)
    )
    return new.WriteTxnMarkersRequest(
        markers=(
            new.WritableTxnMarker(
                producer_id=spec.producer_id,
                producer_epoch=spec.producer_epoch,
                transaction_result=False,
                topics=(topic,),
                coordinator_epoch=spec.coordinator_epoch,
            ),
        )
    )
