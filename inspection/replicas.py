"""Handlers of the resources about records: what the broker of this node has and did."""

from collections.abc import Awaitable, Mapping
from http import HTTPStatus
from typing import Final, TypeVar

from broker.records_counts import DelayedCount
from broker.replicas.replica_views import LocalReplicaView
from inspection.problem import Problem
from inspection.records_side import RecordsStalledError
from inspection.resources import Service, Values, worked
from inspection.views import AtOffset, PartitionView, partition_view
from replication.counters import Counters

STALLED: Final = "the thread of the records does not answer; the metadata does: /v1/partitions"
Answer = TypeVar("Answer")


class PartitionDetail(AtOffset, frozen=True, kw_only=True):
    """One partition: what the metadata say of it, and its replica at this node."""

    partition: PartitionView
    replica: LocalReplicaView | None
    """None if this node has none."""


class RecordsSummary(AtOffset, frozen=True, kw_only=True):
    """Counts of the records and requests of this node's broker."""

    timestamp_ms: int
    counters: Counters
    """Since the start of the node; a rate is the growth between two answers."""
    connections: Mapping[str, int]
    """Open ones by listener."""
    queued_bytes: int
    """Of unanswered requests."""
    produce: DelayedCount
    """Produce requests that wait, and so on."""
    fetch: DelayedCount
    delete_records: DelayedCount
    leader_count: int
    replica_count: int
    under_replicated_count: int
    """Of the partitions that this node leads, as the next two."""
    under_min_isr_count: int
    at_min_isr_count: int
    offline_replica_count: int
    offline_log_dir_count: int
    replica_lag_max: int
    """Records that the follower here which is furthest behind its leader lacks."""
    failed_partition_count: int
    """Followers here that have stopped to fetch."""


async def partition(service: Service, values: Values) -> PartitionDetail:
    """Answer with one partition."""
    node = service.node
    image = node.image
    name, number = values["topic"], values["partition"]
    topic = image.topic_named(name)
    if topic is None:
        raise Problem.not_found("topic", "topic", name)
    registration = topic.partitions.get(number)
    if registration is None:
        raise Problem.not_found("partition", "partition", str(number))
    replica = await told(node.replica((topic.topic_id, number)))
    return PartitionDetail(
        metadata_offset=image.provenance.end_offset,
        partition=partition_view(topic, number, registration),
        replica=replica,
    )


async def local_records(service: Service, values: Values) -> RecordsSummary:
    """Answer with the counts of this node's records."""
    del values
    node = service.node
    counts = await told(node.records_counts())
    if counts is None:
        raise Problem(HTTPStatus.NOT_FOUND, "this node serves no records: it is no broker")
    image = node.image
    partitions = await worked(image, service.counts.newest)
    return RecordsSummary(
        metadata_offset=image.provenance.end_offset,
        timestamp_ms=node.now().wall_ms,
        counters=counts.counters,
        connections=counts.connections,
        queued_bytes=counts.queued_bytes,
        produce=counts.produce,
        fetch=counts.fetch,
        delete_records=counts.delete_records,
        leader_count=partitions.led_here,
        replica_count=partitions.hosted_here,
        under_replicated_count=partitions.under_replicated_here,
        under_min_isr_count=partitions.under_min_isr_here,
        at_min_isr_count=partitions.at_min_isr_here,
        offline_replica_count=counts.offline_replicas,
        offline_log_dir_count=len(counts.failed_log_dirs),
        replica_lag_max=counts.replica_lag_max,
        failed_partition_count=counts.failed_partitions,
    )


async def told(answer: Awaitable[Answer]) -> Answer:
    """Await what the thread of the records tells.

    Raises:
        Problem: 503, it does not answer.
    """
    try:
        return await answer
    except RecordsStalledError as error:
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, STALLED) from error
