"""The transactional ids of a broker that a ListTransactions asks for.

apache/kafka: core/.../coordinator/transaction/TransactionStateManager.scala
(`listTransactionStates`), 4.3
"""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet

import msgspec

from coordinator.transaction.metadata import NONE, TransactionMetadata, TransactionsImage
from coordinator.transaction.states import BY_NAME


class TransactionFilters(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of a list; an empty set, None, or a negative duration is no restriction."""

    producer_ids: AbstractSet[int] = frozenset()
    states: AbstractSet[str] = frozenset()
    """Names; those that are not known match nothing."""
    duration_ms: int = NONE
    """An id is listed if more time is over since its transaction began."""
    matches: Callable[[str], bool] | None = None
    """True for the transactional ids that a pattern asks for."""


class ListedTransaction(msgspec.Struct, frozen=True):
    """A transactional id in a list."""

    transactional_id: str
    producer_id: int
    state: str


def unknown_states(filters: TransactionFilters) -> list[str]:
    """Names in a filter that no state has."""
    return sorted(filters.states - BY_NAME.keys())


def listed(
    images: Iterable[TransactionsImage], filters: TransactionFilters, wall_ms: int
) -> list[ListedTransaction]:
    """The ids that pass all filters, by name."""
    found = [
        ListedTransaction(name, metadata.producer_id, metadata.state.kafka_name)
        for image in images
        for name, metadata in image.transactions.items()
        if _is_listed(name, metadata, filters, wall_ms)
    ]
    return sorted(found, key=lambda each: each.transactional_id)


def _is_listed(
    name: str, metadata: TransactionMetadata, filters: TransactionFilters, wall_ms: int
) -> bool:
    if filters.producer_ids and metadata.producer_id not in filters.producer_ids:
        return False
    if filters.states and metadata.state.kafka_name not in filters.states:
        return False
    start_ms = NONE if metadata.start_ms is None else metadata.start_ms
    if filters.duration_ms >= 0 and wall_ms - start_ms <= filters.duration_ms:
        return False
    return filters.matches is None or filters.matches(name)
