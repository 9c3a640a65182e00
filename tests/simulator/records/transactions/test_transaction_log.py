"""The history of transactional ids, read from the log of their coordinator."""

from coordinator.records.codec import encode
from coordinator.transaction.metadata import TransactionMetadata, record_of, tombstone
from coordinator.transaction.states import TransactionState as S
from simulator.checks.partitions.record_logs import StoredBatch
from simulator.checks.partitions.transaction_log import wrong_in_log
from wire.batches.produced_batch import produced_batch
from wire.batches.records import RecordView


def log(*rows):
    """One record a batch: `(id, producer id, epoch, state)`, or an id alone that has expired."""
    return [stored(*encode(record(*row))) for row in rows]


def record(name, producer_id=None, epoch=0, state=S.EMPTY):
    if producer_id is None:
        return tombstone(name)
    metadata = TransactionMetadata(
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=1,
        state=state,
        start_ms=None if state is S.EMPTY else 5,
        last_update_ms=5,
    )
    return record_of(name, metadata, 2)


def stored(key, value):
    content = produced_batch([RecordView(0, 5, key, value)])
    return StoredBatch(
        base_offset=0,
        end_offset=1,
        leader_epoch=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        values=(),
        content=content,
    )


def test_a_transaction_from_its_beginning_to_its_end():
    rows = [("x", 7, 0), ("x", 7, 0, S.ONGOING), ("y", 8, 3), ("x", 7, 1, S.PREPARE_COMMIT)]
    rows += [("x", 7, 1, S.COMPLETE_COMMIT), ("x", 9, 0), ("x",), ("x", 9, 1)]
    assert wrong_in_log(log(*rows)) == ""


def test_a_state_that_does_not_follow():
    rows = [("x", 7, 0), ("x", 7, 0, S.ONGOING), ("x", 7, 1, S.PREPARE_ABORT)]
    wrong = wrong_in_log(log(*rows, ("x", 7, 1, S.COMPLETE_COMMIT)))
    assert wrong == "x goes from PrepareAbort to CompleteCommit"
    assert wrong_in_log(log(("x", 7, 0, S.ONGOING))) == "x begins with Ongoing"


def test_an_epoch_that_falls():
    assert wrong_in_log(log(("x", 7, 2), ("x", 7, 1))) == "x goes from epoch 2 to 1"
    assert wrong_in_log(log(("x", 7, 2), ("x", 7, 2))) == ""
    assert wrong_in_log(log(("x", 7, 2), ("y", 7, 1))) == ""
