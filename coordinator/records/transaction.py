"""The record of `__transaction_state`, apache/kafka: TransactionLog*.json."""

from typing import Annotated, ClassVar

from coordinator.records.schema import Fields, Key, Value, array, field
from metadata.schema import INT8, INT16, INT32, INT64, STRING


class TransactionLogKey(Key, frozen=True, kw_only=True, gc=False):
    """A transactional id."""

    type: ClassVar[int] = 0

    transactional_id: Annotated[str, field(STRING)]


class TransactionPartitions(Fields, frozen=True, kw_only=True, gc=False):
    """Partitions of a topic that a transaction has written to."""

    topic: Annotated[str, field(STRING)]
    partition_ids: Annotated[tuple[int, ...], field(array(INT32))]


class TransactionLogValue(Value, frozen=True, kw_only=True, gc=False):
    """State of a transactional id; v1 is written since transaction.version 1 (KIP-890).

    `transaction_partitions` is None before the first transaction; timestamps are ms, -1 for none.
    """

    versions: ClassVar[tuple[int, int]] = (0, 1)
    flexible_from: ClassVar[int] = 1
    written: ClassVar[int] = 1

    producer_id: Annotated[int, field(INT64)]
    previous_producer_id: Annotated[int, field(INT64, since=1, tag=0)] = -1
    next_producer_id: Annotated[int, field(INT64, since=1, tag=1)] = -1
    producer_epoch: Annotated[int, field(INT16)]
    next_producer_epoch: Annotated[int, field(INT16, since=1, tag=3)] = -1
    transaction_timeout_ms: Annotated[int, field(INT32)]
    transaction_status: Annotated[int, field(INT8)]
    transaction_partitions: Annotated[
        tuple[TransactionPartitions, ...] | None,
        field(array(TransactionPartitions), nullable=True),
    ]
    transaction_last_update_timestamp_ms: Annotated[int, field(INT64)]
    transaction_start_timestamp_ms: Annotated[int, field(INT64)]
    client_transaction_version: Annotated[int, field(INT16, since=1, tag=2)] = 0
