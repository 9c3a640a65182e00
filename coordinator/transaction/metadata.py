"""A transactional id, the image of a partition of `__transaction_state`, and its one record.

    INV-TC-1  a transaction has a start from the state Ongoing on, and no start when it is Empty
    INV-TC-2  `open_ids` are the ids in the states Ongoing, PrepareCommit and PrepareAbort

apache/kafka: transaction-coordinator/.../TransactionMetadata.java, core/.../TransactionLog.scala
(`valueToBytes`, `readTxnRecordValue`), 4.3
"""

from itertools import groupby
from typing import Final

import msgspec

from coordinator.records.schema import CoordinatorRecord, CoordinatorRecordError
from coordinator.records.transaction import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from coordinator.runtime.write import ProducerIdAndEpoch
from coordinator.transaction.states import AT_REST, TransactionState
from wire.persistent_map import Map

NONE: Final = -1
EPOCH_MAX: Final = (1 << 15) - 1
EPOCH_BUMP_VERSION: Final = 2
"""transaction.version whose transactions end with a new epoch (KIP-890)."""
_FLEXIBLE_VERSION: Final = 1
"""transaction.version from which on the record has tagged fields."""

TopicPartition = tuple[str, int]


class TransactionMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id; -1 is none in ids and epochs, None in times (ms)."""

    producer_id: int
    previous_producer_id: int = NONE
    """Producer id before the last transition."""
    next_producer_id: int = NONE
    """Producer id from the end of the transaction on, where the epochs of this one are used up."""
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int | None = None
    last_update_ms: int
    client_version: int = 0
    """transaction.version of the client at the last transition."""

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """Its producer id with the epoch."""
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def is_epoch_exhausted(self) -> bool:
        """True if the next epoch is that of a fence, which no client may have."""
        return is_exhausted(self.producer_epoch)


class TransactionsImage(msgspec.Struct, frozen=True):
    """The transactional ids of a partition."""

    transactions: Map[str, TransactionMetadata] = Map()
    open_ids: Map[str, None] = Map()
    """Those with a transaction that is not complete."""


EMPTY: Final = TransactionsImage()


def is_exhausted(producer_epoch: int) -> bool:
    """True for the last epoch that a client may have, and for that of a fence."""
    return producer_epoch >= EPOCH_MAX - 1


def apply(image: TransactionsImage, record: CoordinatorRecord) -> TransactionsImage:
    """The image after a record.

    Raises:
        CoordinatorRecordError: its state is not known.
    """
    assert isinstance(record.key, TransactionLogKey), f"{record.key=}"
    name = record.key.transactional_id
    transactions, open_ids = image.transactions, image.open_ids
    if record.value is None:
        if name in transactions:
            transactions = transactions.delete(name)
    else:
        assert isinstance(record.value, TransactionLogValue), f"{record.value=}"
        metadata = _metadata(record.value)
        transactions = transactions.set(name, metadata)
        if metadata.state not in AT_REST:
            if name not in open_ids:
                open_ids = open_ids.set(name, None)
            return TransactionsImage(transactions, open_ids)
    if name in open_ids:
        open_ids = open_ids.delete(name)
    return TransactionsImage(transactions, open_ids)


def record_of(
    transactional_id: str, metadata: TransactionMetadata, transaction_version: int
) -> CoordinatorRecord:
    """The record of an id, in the version that the cluster's transaction.version asks for."""
    is_empty = metadata.state is TransactionState.EMPTY
    is_flexible = transaction_version >= _FLEXIBLE_VERSION
    assert not (is_empty and metadata.partitions), f"INV-TC-1 {metadata=}"
    assert is_empty == (metadata.start_ms is None), f"INV-TC-1 {metadata=}"
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id if is_flexible else NONE,
        next_producer_id=metadata.next_producer_id if is_flexible else NONE,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=int(metadata.state),
        transaction_partitions=None if is_empty else _by_topic(metadata.partitions),
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=NONE if metadata.start_ms is None else metadata.start_ms,
        client_transaction_version=metadata.client_version if is_flexible else 0,
    )
    return CoordinatorRecord(
        TransactionLogKey(transactional_id=transactional_id), value, int(is_flexible)
    )


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """The record that ends an id."""
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), None)


def _by_topic(partitions: frozenset[TopicPartition]) -> tuple[TransactionPartitions, ...]:
    return tuple(
        TransactionPartitions(topic=topic, partition_ids=tuple(number for _, number in found))
        for topic, found in groupby(sorted(partitions), lambda partition: partition[0])
    )


def _metadata(value: TransactionLogValue) -> TransactionMetadata:
    try:
        state = TransactionState(value.transaction_status)
    except ValueError as error:
        text = f"transaction status {value.transaction_status} is unknown"
        raise CoordinatorRecordError(text) from error
    start_ms = value.transaction_start_timestamp_ms
    return TransactionMetadata(
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            (topic.topic, number)
            for topic in value.transaction_partitions or ()
            for number in topic.partition_ids
        ),
        start_ms=None if start_ms == NONE else start_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )
