"""The history of transactional ids in a partition of `__transaction_state`, from its bytes."""

from collections.abc import Iterable, Iterator

from coordinator.records.codec import decode
from coordinator.records.kinds import TRANSACTION_KINDS
from coordinator.records.transaction import TransactionLogKey, TransactionLogValue
from coordinator.transaction.states import PREVIOUS_STATES, TransactionState
from simulator.checks.partitions.record_logs import StoredBatch
from wire.batches.batch import iterate_batches


def wrong_in_log(batches: Iterable[StoredBatch]) -> str:
    """The first epoch that falls, or state that does not follow, as a text; empty without one."""
    last: dict[str, TransactionLogValue] = {}
    for name, value in _values(batches):
        before = last.get(name)
        state = TransactionState(value.transaction_status)
        if before is not None:
            came = TransactionState(before.transaction_status)
            if came not in PREVIOUS_STATES[state]:
                return f"{name} goes from {came.kafka_name} to {state.kafka_name}"
            is_same = before.producer_id == value.producer_id
            if is_same and value.producer_epoch < before.producer_epoch:
                return f"{name} goes from epoch {before.producer_epoch} to {value.producer_epoch}"
        elif state is not TransactionState.EMPTY:
            return f"{name} begins with {state.kafka_name}"
        last[name] = value
    return ""


def _values(batches: Iterable[StoredBatch]) -> Iterator[tuple[str, TransactionLogValue]]:
    """Transactional ids with their values; those of ids that have expired are not seen."""
    for stored in batches:
        for batch in iterate_batches(stored.content):
            for record in batch.records():
                decoded = decode(TRANSACTION_KINDS, record.key, record.value)
                assert decoded is not None, f"{record.key=}"
                assert isinstance(decoded.key, TransactionLogKey), f"{decoded=}"
                if isinstance(decoded.value, TransactionLogValue):
                    yield decoded.key.transactional_id, decoded.value
