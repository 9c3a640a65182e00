"""Batches of the log fed to the producer state: on replicas, and when a log is loaded.

apache/kafka: storage/.../log/UnifiedLog.java (`updateProducers`, `rebuildProducerState`)
"""

from storage.producers.producer_state import (
    CompletedTransaction,
    EndOfTransaction,
    Origin,
    ProducerAppend,
    ProducerStates,
)
from wire.batches.batch import Batch
from wire.batches.control_records import ControlType, control_type, decode_coordinator_epoch
from wire.batches.legacy_batch import LegacyBatch

_ENDS = (ControlType.ABORT, ControlType.COMMIT)


def replay(
    states: ProducerStates, batch: Batch | LegacyBatch
) -> tuple[CompletedTransaction, int] | None:
    """Take the next batch of the log into the state.

    Returns:
        The transaction that it ended and the last stable offset behind it; None if it ended none.

    Raises:
        CorruptBatchError: a control batch whose first record cannot be read.
        ProducerStateError: records without a transaction inside an open one of their producer.
    """
    if isinstance(batch, LegacyBatch):
        assert batch.last_offset >= states.end_offset, f"{batch.last_offset=} {states.end_offset=}"
        states.note_end(batch.last_offset + 1)
        return None
    header, completed = batch.header, None
    if header.producer_id >= 0:
        append = states.prepare(header.producer_id, Origin.REPLICATION)
        completed = take(append, batch)
        states.update(append)
    states.note_end(header.end_offset)
    return None if completed is None else (completed, states.complete(completed))


def take(
    append: ProducerAppend, batch: Batch, transaction_version: int = 0
) -> CompletedTransaction | None:
    """Add a batch of a producer to its append; the transaction that it ends, None if none.

    Args:
        append: of its producer.
        batch: stamped with its offsets.
        transaction_version: of a marker, where it is known.

    Raises:
        CorruptBatchError: a control batch whose first record cannot be read.
        ProducerStateError: its producer may not write it.
    """
    header = batch.header
    if not header.is_control:
        append.add(header)
        return None
    marker = end_of_transaction(batch)
    if marker is None:
        return None
    return append.end_transaction(marker, header.producer_epoch, transaction_version)


def end_of_transaction(batch: Batch) -> EndOfTransaction | None:
    """The marker in a control batch; None if it has no record, as a cleaned one, or another kind.

    Raises:
        CorruptBatchError: its first record cannot be read.
    """
    record = next(iter(batch.records()), None)
    kind = None if record is None else control_type(record.key)
    if record is None or kind not in _ENDS:
        return None
    coordinator_epoch = decode_coordinator_epoch(record.value)
    is_abort = kind is ControlType.ABORT
    return EndOfTransaction(is_abort, coordinator_epoch, record.offset, record.timestamp_ms)
