"""Requests to a transactional id as decisions: what it becomes, or why it stays as it is.

Pure functions of its metadata. A request that comes again is answered as the first was, where that
is certain: with transaction.version 2 the epoch before tells the repetition from the next request.
While a transaction ends, which Kafka has as a pending transition, a request is to come again: its
producer may use the next epoch already. Only verification, and an EndTxn without a bump, look at
the producer first.

    With transaction.version 2, by the epoch that an EndTxn has (the last is the one before):

    state           Abort, current   Abort, last     Commit, current   Commit, last
    Empty           ends             fenced          invalid           fenced
    CompleteAbort   ends             same answer     invalid           invalid
    CompleteCommit  ends             invalid         invalid           same answer

apache/kafka: core/.../coordinator/transaction/TransactionCoordinator.scala, 4.3
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from coordinator.runtime.write import ProducerIdAndEpoch
from coordinator.transaction import transitions
from coordinator.transaction.metadata import (
    EPOCH_BUMP_VERSION,
    EPOCH_MAX,
    NONE,
    TopicPartition,
    TransactionMetadata,
    is_exhausted,
)
from coordinator.transaction.states import AT_REST, PREPARED, TransactionState
from wire.errors import ApiError, ErrorCode

NewProducerId = Callable[[], int | None]
"""Gives an id that nobody has; None while a block of them is awaited."""
S = TransactionState


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that is written, if there is anything to write, and answered with `producer`."""

    after: TransactionMetadata | None = None
    """None: the id stays as it is."""
    producer: ProducerIdAndEpoch = ProducerIdAndEpoch(NONE, NONE)
    code: ErrorCode = ErrorCode.none
    """Of the answer once the change is committed: an id that is being fenced asks to come again."""
    last_epoch: int | None = None
    """Epoch whose repeated InitProducerId gets the same answer; None: as before."""


Decision = Change | ApiError
_CONCURRENT: Final = ApiError(ErrorCode.concurrent_transactions)
_FENCED: Final = ApiError(ErrorCode.producer_fenced)
_INVALID_STATE: Final = ApiError(ErrorCode.invalid_txn_state)
_OTHER_PRODUCER: Final = ApiError(ErrorCode.invalid_producer_id_mapping)
_NO_PRODUCER_ID: Final = ApiError(ErrorCode.coordinator_load_in_progress)


class InitRequest(msgspec.Struct, frozen=True):
    """Fields of an InitProducerId."""

    timeout_ms: int
    expected: ProducerIdAndEpoch | None
    """The producer that goes on after an error; None for one that begins."""


def init_producer_id(
    before: TransactionMetadata | None,
    request: InitRequest,
    *,
    last_epoch: int,
    transaction_version: int,
    new_producer_id: NewProducerId,
    now_ms: int,
) -> Decision:
    """Give a transactional id to a producer, and fence the one before it.

    Args:
        before: None for an id that is not known.
        request: of the producer.
        last_epoch: epoch whose request is a repetition, -1 for none.
        transaction_version: of the cluster, for the abort of an open transaction.
        new_producer_id: asked where one is needed.
        now_ms: wall clock.
    """
    expected = request.expected
    if before is None:
        return _new_id(new_producer_id, request, now_ms)
    if before.state in PREPARED:
        return _CONCURRENT
    if expected is not None and not _may_be(expected, before):
        return _FENCED
    if before.state is S.ONGOING:
        return fence(before, transaction_version, now_ms)
    if expected is not None and expected.producer_epoch not in (before.producer_epoch, last_epoch):
        return _FENCED
    return _next_epoch(before, request, last_epoch, new_producer_id, now_ms)


def fence(before: TransactionMetadata, transaction_version: int, now_ms: int) -> Change:
    """Abort the open transaction of a producer that is to be fenced, or is late.

    With transaction.version 2 it may go on: its InitProducerId gets the epoch of the fence.
    """
    after = transitions.fenced(before, transaction_version, now_ms)
    last = before.producer_epoch if transaction_version >= EPOCH_BUMP_VERSION else NONE
    return Change(after=after, code=ErrorCode.concurrent_transactions, last_epoch=last)


def _next_epoch(
    before: TransactionMetadata,
    request: InitRequest,
    last_epoch: int,
    new_producer_id: NewProducerId,
    now_ms: int,
) -> Decision:
    """Give the next epoch of an id at rest; of a repetition the one that was given."""
    assert before.state in AT_REST, f"{before=}"
    expected = request.expected
    producer_id, epoch, last = before.producer_id, before.producer_epoch, last_epoch
    if expected is None or expected.producer_epoch == epoch:
        last = NONE if expected is None else epoch
        epoch += 1
        if before.is_epoch_exhausted:
            found = new_producer_id()
            if found is None:
                return _NO_PRODUCER_ID
            producer_id, epoch = found, 0
    after = transitions.initialized(before, producer_id, epoch, request.timeout_ms, now_ms)
    return Change(after=after, producer=after.producer, last_epoch=last)


def _new_id(new_producer_id: NewProducerId, request: InitRequest, now_ms: int) -> Decision:
    producer_id = new_producer_id()
    if producer_id is None:
        return _NO_PRODUCER_ID
    after = transitions.new(producer_id, request.timeout_ms, now_ms)
    return Change(after=after, producer=after.producer, last_epoch=NONE)


def _may_be(expected: ProducerIdAndEpoch, before: TransactionMetadata) -> bool:
    """True for the producer of an id, and for that of the producer id before whose epochs ended."""
    return expected.producer_id == before.producer_id or (
        expected.producer_id == before.previous_producer_id
        and is_exhausted(expected.producer_epoch)
    )


def add_partitions(
    before: TransactionMetadata | None,
    producer: ProducerIdAndEpoch,
    partitions: AbstractSet[TopicPartition],
    *,
    client_version: int,
    now_ms: int,
) -> Decision:
    """Add partitions to the transaction of a producer, which begins with the first."""
    if before is not None and before.state in PREPARED:
        return _CONCURRENT
    refused = _refusal(before, producer)
    if refused is not None:
        return refused
    assert before is not None, "its absence is refused"
    if before.state is S.ONGOING and partitions <= before.partitions:
        return Change()
    return Change(after=transitions.with_partitions(before, partitions, client_version, now_ms))


def verify_partitions(
    before: TransactionMetadata | None,
    producer: ProducerIdAndEpoch,
    partitions: AbstractSet[TopicPartition],
) -> Mapping[TopicPartition, ErrorCode] | ApiError:
    """Say of each partition whether it is in the open transaction of a producer."""
    refused = _refusal(before, producer)
    if refused is not None:
        return refused
    assert before is not None, "its absence is refused"
    return {
        partition: ErrorCode.none
        if partition in before.partitions
        else ErrorCode.transaction_abortable
        for partition in partitions
    }


def _refusal(before: TransactionMetadata | None, producer: ProducerIdAndEpoch) -> ApiError | None:
    if before is None or before.producer_id != producer.producer_id:
        return _OTHER_PRODUCER
    if before.producer_epoch != producer.producer_epoch:
        return _FENCED
    return _CONCURRENT if before.state in PREPARED else None


def end_transaction(
    before: TransactionMetadata | None,
    producer: ProducerIdAndEpoch,
    *,
    is_commit: bool,
    client_version: int,
    new_producer_id: NewProducerId,
    now_ms: int,
) -> Decision:
    """End the transaction of a producer; its markers follow when that is committed."""
    if client_version >= EPOCH_BUMP_VERSION:
        return _end_with_bump(
            before, producer, is_commit=is_commit, new_producer_id=new_producer_id, now_ms=now_ms
        )
    if before is None or before.producer_id != producer.producer_id:
        return _OTHER_PRODUCER
    if before.producer_epoch != producer.producer_epoch:
        return _FENCED
    if before.state in PREPARED:
        return _CONCURRENT
    if before.state is S.ONGOING:
        after = transitions.prepared(
            before, is_commit=is_commit, client_version=0, next_producer_id=NONE, now_ms=now_ms
        )
        return Change(after=after)
    return _again(before, is_commit=is_commit, producer=ProducerIdAndEpoch(NONE, NONE))


def _end_with_bump(
    before: TransactionMetadata | None,
    producer: ProducerIdAndEpoch,
    *,
    is_commit: bool,
    new_producer_id: NewProducerId,
    now_ms: int,
) -> Decision:
    refused = _refusal_with_bump(before, producer)
    if refused is not None:
        return refused
    assert before is not None, "its absence is refused"
    epoch, is_bumped = producer.producer_epoch, before.producer_epoch == producer.producer_epoch + 1
    if is_bumped or _is_rotated(before, producer):
        return _again(before, is_commit=is_commit, producer=before.producer)
    if is_commit and before.state is not S.ONGOING:
        return _INVALID_STATE
    next_producer_id = new_producer_id() if before.is_epoch_exhausted else NONE
    if next_producer_id is None:
        return _NO_PRODUCER_ID
    after = transitions.prepared(
        before,
        is_commit=is_commit,
        client_version=EPOCH_BUMP_VERSION,
        next_producer_id=next_producer_id,
        now_ms=now_ms,
    )
    told = transitions.completed(after, now_ms).producer
    return Change(after=after, producer=told, last_epoch=epoch)


def _is_rotated(before: TransactionMetadata, producer: ProducerIdAndEpoch) -> bool:
    """True for the last epoch of a producer id that another one has replaced."""
    is_last = producer.producer_epoch == EPOCH_MAX - 1 and before.producer_epoch == 0
    return is_last and before.previous_producer_id == producer.producer_id


def _refusal_with_bump(
    before: TransactionMetadata | None, producer: ProducerIdAndEpoch
) -> ApiError | None:
    """The refusal of a producer that has neither the epoch of the id nor the one before."""
    if before is None:
        return _OTHER_PRODUCER
    if before.state in PREPARED:
        return _CONCURRENT  # the client may know the next epoch, or producer id, already
    is_rotated = _is_rotated(before, producer)
    if before.producer_id != producer.producer_id and not is_rotated:
        return _OTHER_PRODUCER
    is_current = before.producer_epoch == producer.producer_epoch
    is_bumped = before.producer_epoch == producer.producer_epoch + 1
    if before.state in (S.COMPLETE_COMMIT, S.COMPLETE_ABORT):
        is_known = is_current or is_bumped or is_rotated
    else:
        is_known = is_current
    return None if is_known else _FENCED


def _again(
    before: TransactionMetadata, *, is_commit: bool, producer: ProducerIdAndEpoch
) -> Decision:
    """The answer to an end of a transaction that has ended."""
    complete = S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT
    return Change(producer=producer) if before.state is complete else _INVALID_STATE


def is_timed_out(metadata: TransactionMetadata, now_ms: int) -> bool:
    """True for an open transaction whose time is over."""
    if metadata.state is not S.ONGOING:
        return False
    assert metadata.start_ms is not None, f"INV-TC-1 {metadata=}"
    return metadata.start_ms + metadata.timeout_ms < now_ms


def is_expired(metadata: TransactionMetadata, now_ms: int, expiration_ms: int) -> bool:
    """True for an id without a transaction that nobody has used for so long."""
    return metadata.state in AT_REST and metadata.last_update_ms <= now_ms - expiration_ms
