"""Hanging transactions: open at a partition, and no coordinator will write its marker there.

A candidate has been open for longer than any transaction may be. It hangs if no transactional id
has its producer id, or if the id's transaction does not have the partition.
(apache/kafka: tools/.../TransactionsCommand.java, FindHangingTransactionsCommand, 4.3; KIP-664)
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from cli.connect import Api, ClusterError, check
from cli.kafka_errors import message_of
from cli.records.clients.clock import Clock
from cli.records.clients.topic_metadata import METADATA, Partition
from cli.transactions import listings, producers
from cli.transactions.listings import Description, Filters
from cli.transactions.producers import Producer

BATCH_MAX: Final = 500
"""Partitions, or topics, of one request."""
Item = TypeVar("Item")


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Scope of a search; a topic or a broker is given."""

    topic: str | None
    partition: int | None
    """Of the topic."""
    broker_id: int | None


class OpenTransaction(msgspec.Struct, frozen=True):
    """A transaction that is open at a partition."""

    partition: Partition
    producer: Producer


def found(api: Api, scope: Scope, timeout_ms_max: int, clock: Clock) -> list[OpenTransaction]:
    """The hanging transactions, by partition.

    Args:
        api: The cluster.
        scope: Where to look.
        timeout_ms_max: Transactions with younger records are not looked at.
        clock: For the age of records.

    Raises:
        ClusterError: something that must be asked is refused; the text says what.
    """
    candidates: list[OpenTransaction] = []
    for batch in _batches(_partitions(api, scope)):
        candidates += _candidates(api, batch, scope, timeout_ms_max, clock)
    if not candidates:
        return []
    producer_ids = tuple(sorted({each.producer.producer_id for each in candidates}))
    try:
        rows = listings.listed(api, Filters(producer_ids=producer_ids), clock)
    except ClusterError as error:
        what = f"Failed to list transactions for {len(producer_ids)} producers"
        raise ClusterError(f"{what}: {error}") from error
    ids = {row.producer_id: row.transactional_id for row in rows}
    try:
        descriptions = listings.described_all(api, list(ids.values()), clock)
    except ClusterError as error:
        raise ClusterError(f"Failed to describe {len(ids)} transactions: {error}") from error
    return hanging(candidates, ids, descriptions)


def hanging(
    candidates: Sequence[OpenTransaction],
    ids: Mapping[int, str],
    descriptions: Mapping[str, Description],
) -> list[OpenTransaction]:
    """Those of the candidates for which no coordinator has a marker to write.

    Args:
        candidates: Open at partitions.
        ids: Transactional id by producer id.
        descriptions: By transactional id; one that is not known is not there.
    """

    def is_expected(each: OpenTransaction) -> bool:
        description = descriptions.get(ids.get(each.producer.producer_id, ""))
        return description is not None and each.partition in description.partitions

    return [each for each in candidates if not is_expected(each)]


def _candidates(
    api: Api, partitions: Sequence[Partition], scope: Scope, timeout_ms_max: int, clock: Clock
) -> Iterator[OpenTransaction]:
    try:
        described = producers.described(api, partitions, scope.broker_id, clock)
    except ClusterError as error:
        where = "Optional.empty" if scope.broker_id is None else f"Optional[{scope.broker_id}]"
        what = f"Failed to describe producers for {len(partitions)} partitions on broker {where}"
        raise ClusterError(f"{what}: {error}") from error
    now_ms = clock.wall_ms()
    for partition, found_there in described.items():
        for producer in found_there:
            is_old = now_ms - producer.last_timestamp_ms > timeout_ms_max
            if producer.start_offset is not None and is_old:
                yield OpenTransaction(partition, producer)


def _partitions(api: Api, scope: Scope) -> list[Partition]:
    """The partitions of the scope, those of a topic that is named with its number unasked."""
    if scope.topic is not None and scope.partition is not None:
        return [Partition(scope.topic, scope.partition)]
    names = None if scope.topic is None else [scope.topic]
    what = "Failed to list topics" if names is None else "Failed to describe 1 topics"
    try:
        return [
            partition
            for partition, replicas in _replicas(api, names)
            if scope.broker_id is None or scope.broker_id in replicas
        ]
    except ClusterError as error:
        raise ClusterError(f"{what}: {error}") from error


def _replicas(api: Api, names: Sequence[str] | None) -> list[tuple[Partition, tuple[int, ...]]]:
    """Partitions with their replicas, in order."""
    from wire.messages.record_requests import metadata_request  # noqa: PLC0415  # the protocol

    answer: Any = check(api.call(METADATA, metadata_request(names)))
    rows = []
    for topic in answer.topics:
        if topic.error_code:
            raise ClusterError(message_of(int(topic.error_code)))
        rows += [
            (
                Partition(str(topic.name), int(row.partition_index)),
                tuple(map(int, row.replica_nodes)),
            )
            for row in topic.partitions
        ]
    return sorted(rows)


def _batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), BATCH_MAX):
        yield items[start : start + BATCH_MAX]
