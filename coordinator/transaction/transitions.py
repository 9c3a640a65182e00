"""Every change of the state of a transactional id.

Each function gives the metadata after the change; a transition that the table of states does not
have is an error of the caller. `previous_producer_id` is that before the transition, in each.

apache/kafka: transaction-coordinator/.../TransactionMetadata.java (`prepare...`), 4.3
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from coordinator.transaction.metadata import (
    EPOCH_BUMP_VERSION,
    EPOCH_MAX,
    NONE,
    TopicPartition,
    TransactionMetadata,
)
from coordinator.transaction.states import AT_REST, PREVIOUS_STATES, TransactionState


def new(producer_id: int, timeout_ms: int, now_ms: int) -> TransactionMetadata:
    """A transactional id that is used for the first time, with its first epoch."""
    assert producer_id >= 0, f"{producer_id=}"
    return TransactionMetadata(
        producer_id=producer_id,
        previous_producer_id=producer_id,
        producer_epoch=0,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        last_update_ms=now_ms,
    )


def initialized(
    before: TransactionMetadata, producer_id: int, epoch: int, timeout_ms: int, now_ms: int
) -> TransactionMetadata:
    """An id at rest whose producer begins, again or after an error."""
    assert epoch < EPOCH_MAX, f"{epoch=} is that of a fence"
    is_known = producer_id == before.producer_id
    assert epoch in ((before.producer_epoch, before.producer_epoch + 1) if is_known else (0,))
    return _to(
        before,
        TransactionState.EMPTY,
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_ms=None,
        last_update_ms=now_ms,
    )


def with_partitions(
    before: TransactionMetadata,
    added: Iterable[TopicPartition],
    client_version: int,
    now_ms: int,
) -> TransactionMetadata:
    """An id whose transaction gets partitions, and begins with the first."""
    return _to(
        before,
        TransactionState.ONGOING,
        partitions=before.partitions.union(added),
        start_ms=now_ms if before.state in AT_REST else before.start_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def prepared(
    before: TransactionMetadata,
    *,
    is_commit: bool,
    client_version: int,
    next_producer_id: int,
    now_ms: int,
) -> TransactionMetadata:
    """An id whose transaction ends by its producer.

    With transaction.version 2 that has the next epoch from here on; an abort may end one that has
    no partition, which begins and ends now.
    """
    is_bumped = client_version >= EPOCH_BUMP_VERSION
    return _to(
        before,
        TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
        producer_epoch=before.producer_epoch + is_bumped,
        next_producer_id=next_producer_id,
        start_ms=now_ms if before.state in AT_REST else before.start_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def fenced(
    before: TransactionMetadata, transaction_version: int, now_ms: int
) -> TransactionMetadata:
    """An id whose open transaction is aborted by the coordinator, and its producer fenced.

    The epoch is never told to a client: who initializes the id gets the one after.
    """
    is_bumped = transaction_version >= EPOCH_BUMP_VERSION
    assert before.state is TransactionState.ONGOING, f"{before=}"
    return _to(
        before,
        TransactionState.PREPARE_ABORT,
        producer_epoch=before.producer_epoch + 1,
        next_producer_id=NONE,
        last_update_ms=now_ms,
        client_version=EPOCH_BUMP_VERSION if is_bumped else 0,
    )


def completed(before: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """An id all of whose markers are written."""
    is_commit = before.state is TransactionState.PREPARE_COMMIT
    is_new_id = before.next_producer_id != NONE
    return _to(
        before,
        TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        producer_id=before.next_producer_id if is_new_id else before.producer_id,
        producer_epoch=0 if is_new_id else before.producer_epoch,
        next_producer_id=NONE,
        partitions=frozenset(),
        last_update_ms=now_ms,
    )


def _to(
    before: TransactionMetadata, state: TransactionState, **changes: Any
) -> TransactionMetadata:
    assert before.state in PREVIOUS_STATES[state], (
        f"{before.state.kafka_name} to {state.kafka_name}"
    )
    after = msgspec.structs.replace(
        before, state=state, previous_producer_id=before.producer_id, **changes
    )
    assert 0 <= after.producer_epoch <= EPOCH_MAX, f"{after=}"
    assert (after.start_ms is None) == (state is TransactionState.EMPTY), f"INV-TC-1 {after=}"
    return after
