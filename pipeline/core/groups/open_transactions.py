"""Transactions that are open at an instant, and which of them hang.

Two sources. The coordinator's log has the ids with a transaction that is not complete:

    within_timeout   it may still go on
    overdue          ongoing for longer than its time-out: the coordinator should have aborted it
    not_completed    prepared, and for as long its markers are not all written

A data log has producers whose data no marker ends, which hold back readers of committed data:

    accounted        the coordinator has this partition in the open transaction of the producer
    recent           it has not, but the last batch is not older than the longest time-out
    hanging          it has not, and the last batch is older: nobody will end it (KIP-664)

(apache/kafka: tools/.../TransactionsCommand.java, FindHangingTransactionsCommand)
"""

from collections.abc import Iterable
from typing import Final

import msgspec
import pyarrow as pa

from pipeline.core.groups.tables import OPEN_TRANSACTIONS, Row, table_of
from pipeline.core.groups.transaction_log import IdState
from pipeline.core.reading.transactions import OpenTransaction

COORDINATOR: Final = "coordinator"
LOG: Final = "log"
WITHIN_TIMEOUT: Final = "within_timeout"
OVERDUE: Final = "overdue"
NOT_COMPLETED: Final = "not_completed"
ACCOUNTED: Final = "accounted"
RECENT: Final = "recent"
HANGING: Final = "hanging"
FINDINGS: Final = frozenset({OVERDUE, NOT_COMPLETED, HANGING})
"""Verdicts about which somebody must do something."""
MAX_TIMEOUT_MS: Final = 15 * 60_000
"""`transaction.max.timeout.ms` by default."""


class OpenInLog(msgspec.Struct, frozen=True):
    """Open transactions of one data partition."""

    topic: str
    partition: int
    opened: tuple[OpenTransaction, ...]


def open_transactions(
    ids: Iterable[IdState], logs: Iterable[OpenInLog], now_ms: int,
    max_timeout_ms: int = MAX_TIMEOUT_MS,
) -> pa.Table:  # fmt: skip
    """The table OPEN_TRANSACTIONS: of the coordinators by id, then of the logs by partition.

    Args:
        ids: of all partitions of `__transaction_state`.
        logs: of all data partitions.
        now_ms: the instant that time-outs are judged at.
        max_timeout_ms: the longest that a cluster allows a transaction to be.
    """
    opened = sorted((one for one in ids if one.is_open), key=lambda one: one.transactional_id)
    rows = [_of_coordinator(one, now_ms) for one in opened]
    by_producer = {one.producer_id: one for one in opened}
    for log in sorted(logs, key=lambda one: (one.topic, one.partition)):
        for one in log.opened:
            known = by_producer.get(one.producer_id)
            rows.append(_of_log(log, one, known, now_ms, max_timeout_ms))
    return table_of(rows, OPEN_TRANSACTIONS)


def _of_coordinator(one: IdState, now_ms: int) -> Row:
    since = one.last_update_ms if one.is_prepared else one.start_ms
    is_late = since is not None and now_ms - since > one.timeout_ms
    verdict = WITHIN_TIMEOUT
    if is_late:
        verdict = NOT_COMPLETED if one.is_prepared else OVERDUE
    return {
        "source": COORDINATOR, "transactional_id": one.transactional_id,
        "producer_id": one.producer_id, "producer_epoch": one.producer_epoch, "topic": None,
        "partition": None, "first_offset": None, "state": one.state, "verdict": verdict,
        "start_ts": one.start_ms, "last_ts": one.last_update_ms,
        "open_ms": None if one.start_ms is None else now_ms - one.start_ms,
        "timeout_ms": one.timeout_ms,
    }  # fmt: skip


def _of_log(
    log: OpenInLog, one: OpenTransaction, known: IdState | None, now_ms: int, max_timeout_ms: int
) -> Row:
    is_accounted = known is not None and (log.topic, log.partition) in known.partitions
    of_id = known if is_accounted else None
    verdict = ACCOUNTED if is_accounted else RECENT
    if not is_accounted and now_ms - one.last_ms > max_timeout_ms:
        verdict = HANGING
    return {
        "source": LOG, "transactional_id": None if of_id is None else of_id.transactional_id,
        "producer_id": one.producer_id, "producer_epoch": one.producer_epoch,
        "topic": log.topic, "partition": log.partition, "first_offset": one.first_offset,
        "state": None, "verdict": verdict, "start_ts": one.first_ms, "last_ts": one.last_ms,
        "open_ms": now_ms - one.first_ms,
        "timeout_ms": max_timeout_ms if of_id is None else of_id.timeout_ms,
    }  # fmt: skip
