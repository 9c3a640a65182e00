"""Records of coordinators' topics for tests, as a fold takes them and as batches of a log."""

from collections.abc import Sequence

from coordinator.records.codec import encode
from coordinator.records.group import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.records.schema import CoordinatorRecord, Key, Value
from coordinator.records.transaction import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from pipeline.core.groups.log_records import LogRecord
from tests.pipeline.segments import TIME_MS, batch

PRODUCER = 7
TOPIC = "orders"


def record(
    offset: int, key: Key, value: Value | None, *, producer_id: int | None = None,
    batch_offset: int | None = None,
) -> LogRecord:  # fmt: skip
    """A record at an offset, stamped that many ms after TIME_MS, a batch of its own if not said."""
    encoded_key, encoded_value = encode(CoordinatorRecord(key, value))
    return LogRecord(
        offset=offset, time_ms=TIME_MS + offset, key=encoded_key, value=encoded_value,
        producer_id=producer_id, batch=offset if batch_offset is None else batch_offset,
    )  # fmt: skip


def marker(offset: int, *, commit: bool, producer_id: int = PRODUCER) -> LogRecord:
    """The end of a transaction."""
    return LogRecord(
        offset=offset, time_ms=TIME_MS + offset, key=b"\0\0\0" + bytes([commit]),
        value=b"\0\0\0\0\0\0", producer_id=producer_id, is_control=True, batch=offset,
    )  # fmt: skip


def commit_key(group: str = "g", partition: int = 0, topic: str = TOPIC) -> OffsetCommitKey:
    return OffsetCommitKey(group=group, topic=topic, partition=partition)


def commit_value(offset: int, time_ms: int, **more: object) -> OffsetCommitValue:
    return OffsetCommitValue(offset=offset, metadata="", commit_timestamp=time_ms, **more)


def commit(
    at: int, offset: int, *, group: str = "g", partition: int = 0, producer_id: int | None = None
) -> LogRecord:
    """A commit of an offset, by the record at another."""
    key, value = commit_key(group, partition), commit_value(offset, TIME_MS + at)
    return record(at, key, value, producer_id=producer_id)


def removal(at: int, *, group: str = "g", partition: int = 0) -> LogRecord:
    """The tombstone of a committed offset."""
    return record(at, commit_key(group, partition), None)


def generation(
    at: int, number: int, members: Sequence[MemberMetadata] = (), **more: object
) -> LogRecord:
    """A generation of a classic group."""
    fields = {"protocol_type": "consumer", "protocol": "range" if members else None,
              "leader": members[0].member_id if members else None} | more  # fmt: skip
    value = GroupMetadataValue(generation=number, members=tuple(members), **fields)
    return record(at, GroupMetadataKey(group="g"), value)


def member(
    name: str, subscription: bytes = b"", assignment: bytes = b"", instance: str | None = None
) -> MemberMetadata:
    return MemberMetadata(
        member_id=name, group_instance_id=instance, client_id=f"client-{name}",
        client_host="/127.0.0.1", session_timeout=45_000, subscription=subscription,
        assignment=assignment,
    )  # fmt: skip


def transaction(
    at: int, status: int, *, start_ms: int = TIME_MS, partitions: Sequence[int] | None = (0,),
    name: str = "tx", **more: object,
) -> LogRecord:  # fmt: skip
    """A state of a transactional id, updated when its record was written."""
    topics = None if partitions is None else (
        (TransactionPartitions(topic=TOPIC, partition_ids=tuple(partitions)),)
        if partitions else ()
    )  # fmt: skip
    fields = {"producer_id": PRODUCER, "producer_epoch": 0, "transaction_timeout_ms": 60_000,
              "transaction_last_update_timestamp_ms": TIME_MS + at,
              "transaction_start_timestamp_ms": start_ms} | more  # fmt: skip
    value = TransactionLogValue(transaction_status=status, transaction_partitions=topics, **fields)
    return record(at, TransactionLogKey(transactional_id=name), value)


def batch_of(records: Sequence[LogRecord]) -> bytes:
    """The records, at consecutive offsets, as one batch of a log."""
    first = records[0]
    producer = (-1, -1, -1) if first.producer_id is None else (first.producer_id, 0, 0)
    return batch(
        first.offset, [one.value for one in records], keys=[one.key for one in records],
        attributes=(first.producer_id is not None) * 0x10 | first.is_control * 0x20,
        producer=producer, time_ms=first.time_ms or 0,
    )  # fmt: skip
