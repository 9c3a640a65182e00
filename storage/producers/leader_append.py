"""A leader asks, before it appends, whether a producer may write a batch.

apache/kafka: storage/.../log/UnifiedLog.java (`analyzeAndValidateProducerState`,
`maybeStartTransactionVerification`), 4.3
"""

import msgspec

from storage.producers.append_source import AppendSource
from storage.producers.producer_entry import BatchMetadata
from storage.producers.producer_replay import take
from storage.producers.producer_state import (
    CompletedTransaction,
    Origin,
    ProducerAppend,
    ProducerStateError,
    ProducerStates,
)
from storage.producers.verification import VerificationGuard
from wire.batches.batch import Batch, BatchHeader
from wire.errors import ErrorCode


class PreparedAppend(msgspec.Struct, frozen=True):
    """An append that is allowed: what it does to its producer once the batch is in the log."""

    appends: tuple[ProducerAppend, ...] = ()
    completed: tuple[CompletedTransaction, ...] = ()


def prepare_append(
    states: ProducerStates, batch: Batch, source: AppendSource, *, requires_verification: bool
) -> PreparedAppend | BatchMetadata:
    """Judge a batch, stamped with its offsets; of a duplicate the batch that was appended.

    Args:
        states: of the partition; they stay as they are.
        batch: any.
        source: its sender.
        requires_verification: True if a producer needs a guard to begin a transaction.

    Raises:
        CorruptBatchError: a control batch whose first record cannot be read.
        ProducerStateError: its producer may not write it.
    """
    header = batch.header
    assert source.origin is not Origin.REPLICATION, "replicas do not ask"
    assert header.base_offset >= states.end_offset, f"{header=} is not stamped"
    if header.producer_id < 0:
        return PreparedAppend()
    if source.origin is Origin.CLIENT:
        entry = states.entry(header.producer_id)
        duplicate = None if entry is None else entry.duplicate_of(header)
        if duplicate is not None:
            return duplicate
    if header.is_transactional and not header.is_control and not states.is_in_transaction(header):
        _check_not_fenced(states, header)
        if requires_verification and not _is_verified(states, header, source.guard):
            raise ProducerStateError(
                ErrorCode.invalid_txn_state, "Record was not part of an ongoing transaction"
            )
    append = states.prepare(header.producer_id, source.origin)
    ended = take(append, batch, source.transaction_version)
    assert ended is None or header.is_control, f"{header=} ended {ended=}"
    return PreparedAppend((append,), () if ended is None else (ended,))


def begin_verification(
    states: ProducerStates, header: BatchHeader, wall_ms: int, *, supports_epoch_bump: bool
) -> VerificationGuard | None:
    """The guard with which a transactional batch may be appended once it is verified.

    None for a batch of a transaction that is open here.

    Raises:
        ProducerStateError: INVALID_PRODUCER_EPOCH.
    """
    _check_not_fenced(states, header)
    if states.is_in_transaction(header):
        return None
    return states.verifications.begin(header, wall_ms, supports_epoch_bump=supports_epoch_bump)


def _check_not_fenced(states: ProducerStates, header: BatchHeader) -> None:
    if states.fences(header):
        raise ProducerStateError(
            ErrorCode.invalid_producer_epoch,
            f"Epoch of producer {header.producer_id} is {header.producer_epoch}, a later one wrote",
        )


def _is_verified(
    states: ProducerStates, header: BatchHeader, guard: VerificationGuard | None
) -> bool:
    verification = states.verifications.of(header.producer_id)
    return guard is not None and verification is not None and verification.guard is guard
