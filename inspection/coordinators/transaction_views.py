"""Answers about transactional ids, pure functions of the images of `__transaction_state`."""

from collections.abc import Callable, Iterable
from typing import Final

from coordinator.transaction.metadata import TransactionMetadata, TransactionsImage
from inspection.coordinators.group_views import AssignedView
from inspection.coordinators.shares import CoordinatorShare, CoordinatorView
from inspection.views import AtOffset, View

PARTITIONS_MAX: Final = 1_000
"""Partitions of one transaction in an answer."""
OPEN: Final = "open"
"""Filter of a list: Ongoing, PrepareCommit, PrepareAbort."""


class TransactionRow(View, frozen=True, kw_only=True):
    """A transactional id in a list."""

    id: str
    partition: int
    """Of `__transaction_state`."""
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    """Begin of its last transaction; None if it has had none since it was initialized."""
    partition_count: int
    """Partitions of the transaction."""


class TransactionView(TransactionRow, frozen=True, kw_only=True):
    """A transactional id."""

    last_update_ms: int
    client_version: int
    """transaction.version of its client at the last transition."""
    partitions: list[AssignedView]
    """Of the transaction: the first 1,000, by topic."""


class TransactionsView(AtOffset, frozen=True, kw_only=True):
    """A page of the transactional ids that this node coordinates, by id."""

    transactions: list[TransactionRow]
    transaction_count: int
    """Number of ids that this node coordinates."""
    open_count: int
    """Those whose transaction is open or prepared."""
    loading_count: int
    """Partitions of `__transaction_state` whose ids are not loaded yet."""
    coordinators: list[CoordinatorShare]
    """Nodes that coordinate ids, each its own."""
    next_after: str | None


class TransactionDetail(AtOffset, frozen=True, kw_only=True):
    """One transactional id."""

    coordinator: CoordinatorView
    transaction: TransactionView | None
    """None if another node coordinates it, or while it is loaded here."""


def ids_of(chosen: str | None) -> Callable[[TransactionsImage], Iterable[str]]:
    """The function from an image to the ids that a filter asks for."""
    if chosen == OPEN:
        return lambda image: image.open_ids
    return lambda image: image.transactions


def transaction_row(name: str, number: int, found: TransactionMetadata) -> TransactionRow:
    """The row of an id."""
    return TransactionRow(
        id=name,
        partition=number,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        state=found.state.kafka_name,
        timeout_ms=found.timeout_ms,
        start_ms=found.start_ms,
        partition_count=len(found.partitions),
    )


def transaction_view(name: str, number: int, found: TransactionMetadata) -> TransactionView:
    """An id with the partitions of its transaction."""
    row = transaction_row(name, number, found)
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(found.partitions)[:PARTITIONS_MAX]:
        by_topic.setdefault(topic, []).append(partition)
    return TransactionView(
        **{field: getattr(row, field) for field in TransactionRow.__struct_fields__},
        last_update_ms=found.last_update_ms,
        client_version=found.client_version,
        partitions=[
            AssignedView(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()
        ],
    )
