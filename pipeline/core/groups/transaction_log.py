"""Fold of one partition of `__transaction_state`: a row per transaction, and the ids' states.

A transaction of an id is told by its start. Its row has the state of its last record and the times
that its records tell; of a compacted log often only the last is left, which has all but the time
at which the transaction was prepared, and no partitions any more.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
import pyarrow as pa

from coordinator.records.transaction import TransactionLogKey, TransactionLogValue
from coordinator.transaction.states import AT_REST, OPEN, PREPARED, TransactionState
from pipeline.core.groups.group_log import LogCounts
from pipeline.core.groups.log_records import LogRecord
from pipeline.core.groups.tables import TRANSACTIONS, Row, known_ms, table_of
from pipeline.core.records.coordinator_records import (
    TRANSACTION_STATE,
    CoordinatorRecordError,
    UnknownTypeError,
    typed_decoder,
    undeclared_name,
)

_STATES: Final = {int(state): state for state in TransactionState}


class IdState(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id at the end of the log; times are ms, `partitions` of its transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    is_open: bool
    is_prepared: bool
    timeout_ms: int
    start_ms: int | None
    last_update_ms: int | None
    partitions: frozenset[tuple[str, int]] = frozenset()


class TransactionLog(msgspec.Struct, frozen=True, kw_only=True):
    """Tables and ids of one partition of `__transaction_state`."""

    transactions: pa.Table
    ids: list[IdState]
    counts: LogCounts


def fold_transaction_log(records: Iterable[LogRecord], log_partition: int) -> TransactionLog:
    """Fold the records of a partition, in order."""
    decode = typed_decoder(TRANSACTION_STATE)
    rows: list[Row] = []
    running: dict[str, Row] = {}  # the last transaction of each id
    states: dict[str, TransactionLogValue] = {}
    counts = LogCounts()
    for record in records:
        counts.saw(record)
        if record.is_control:
            continue
        try:
            found = decode(record.key, record.value).record
        except UnknownTypeError as error:
            counts.undeclared[undeclared_name(TRANSACTION_STATE, error.number)] += 1
            continue
        except CoordinatorRecordError as error:
            counts.refuse(record, error)
            continue
        key, value = found.key, found.value
        assert isinstance(key, TransactionLogKey), f"{key=}"
        transactional_id = key.transactional_id
        if value is None:
            states.pop(transactional_id, None)
            running.pop(transactional_id, None)
            continue
        assert isinstance(value, TransactionLogValue), f"{value=}"
        states[transactional_id] = value
        row = running.get(transactional_id)
        if known_ms(value.transaction_start_timestamp_ms) is None:
            running.pop(transactional_id, None)  # the id was initialized anew
            continue
        if row is None or row["start_ts"] != value.transaction_start_timestamp_ms:
            row = _begun(transactional_id, value, log_partition, record)
            rows.append(row)
            running[transactional_id] = row
        _go_on(row, value, record)
    ids = [_id_state(name, states[name]) for name in sorted(states)]
    return TransactionLog(transactions=table_of(rows, TRANSACTIONS), ids=ids, counts=counts)


def _begun(
    transactional_id: str, value: TransactionLogValue, log_partition: int, record: LogRecord
) -> Row:
    return {
        "transactional_id": transactional_id, "producer_id": value.producer_id,
        "producer_epoch": value.producer_epoch, "timeout_ms": value.transaction_timeout_ms,
        "start_ts": value.transaction_start_timestamp_ms, "prepared_ts": None,
        "completed_ts": None, "partitions": [], "log_partition": log_partition,
        "first_log_offset": record.offset,
    }  # fmt: skip


def _go_on(row: Row, value: TransactionLogValue, record: LogRecord) -> None:
    state = _STATES.get(value.transaction_status)
    last_update = known_ms(value.transaction_last_update_timestamp_ms)
    row |= {"state": _name(value), "last_update_ts": last_update, "last_log_offset": record.offset}
    if state in PREPARED:
        row["prepared_ts"] = last_update
    elif state in AT_REST:
        row["completed_ts"] = last_update
    if value.transaction_partitions:  # those of a complete transaction are gone
        row["partitions"] = [
            {"topic": one.topic, "topic_id": None, "partitions": sorted(one.partition_ids)}
            for one in sorted(value.transaction_partitions, key=lambda one: one.topic)
        ]


def _name(value: TransactionLogValue) -> str:
    state = _STATES.get(value.transaction_status)
    return f"Unknown({value.transaction_status})" if state is None else state.kafka_name


def _id_state(transactional_id: str, value: TransactionLogValue) -> IdState:
    state = _STATES.get(value.transaction_status)
    return IdState(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        state=_name(value),
        is_open=state in OPEN,
        is_prepared=state in PREPARED,
        timeout_ms=value.transaction_timeout_ms,
        start_ms=known_ms(value.transaction_start_timestamp_ms),
        last_update_ms=known_ms(value.transaction_last_update_timestamp_ms),
        partitions=frozenset(
            (one.topic, partition)
            for one in value.transaction_partitions or ()
            for partition in one.partition_ids
        ),
    )
