"""The record of a transactional id: byte for byte as Kafka 4.3.1 writes it, both ways."""

from typing import Any

import msgspec
import pytest

from coordinator.records.codec import decode, encode
from coordinator.records.kinds import TRANSACTION_KINDS
from coordinator.records.schema import CoordinatorRecord, CoordinatorRecordError
from coordinator.records.transaction import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from coordinator.runtime.write import ProducerIdAndEpoch
from coordinator.transaction import transitions
from coordinator.transaction.decisions import (
    Change,
    InitRequest,
    add_partitions,
    end_transaction,
    fence,
    init_producer_id,
)
from coordinator.transaction.metadata import (
    EMPTY,
    TransactionMetadata,
    TransactionsImage,
    apply,
    record_of,
    tombstone,
)
from coordinator.transaction.states import AT_REST, TransactionState
from tests.coordinator.golden import golden_records

S = TransactionState
PARTITIONS = ("__transaction_state-0", "__transaction_state-1")


def golden(partition: str) -> list[tuple[CoordinatorRecord, bytes, bytes | None]]:
    found = []
    for each in golden_records(partition):
        record = decode(TRANSACTION_KINDS, each.view.key, each.view.value)
        assert record is not None
        found.append((record, each.view.key, each.view.value))
    return found


def sorted_value(value: TransactionLogValue) -> TransactionLogValue:
    """The value with its topics in our order; Kafka has them in that of a hash map."""
    if value.transaction_partitions is None:
        return value
    topics = sorted(value.transaction_partitions, key=lambda each: each.topic)
    return msgspec.structs.replace(value, transaction_partitions=tuple(topics))


def as_ours(record: CoordinatorRecord) -> CoordinatorRecord:
    value = record.value
    assert isinstance(value, TransactionLogValue)
    return CoordinatorRecord(record.key, sorted_value(value), 1)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_each_record_of_kafka_is_written_again_as_it_was(partition: str) -> None:
    image, equal = EMPTY, 0
    for record, key, value in golden(partition):
        image = apply(image, record)
        name = record.key.transactional_id  # type: ignore[attr-defined]
        if value is None:
            assert name not in image.transactions
            assert encode(tombstone(name)) == (key, None)
            continue
        found = record_of(name, image.transactions[name], 2)
        assert encode(found) == encode(as_ours(record))
        equal += encode(found) == (key, value)
        rest = {each for each, of in image.transactions.items() if of.state in AT_REST}
        assert set(image.open_ids) == set(image.transactions) - rest, "INV-TC-2"
    assert equal > 10, "most records have one topic: they are equal without sorting"


def next_record(before: TransactionMetadata | None, after: TransactionLogValue) -> Any:
    """The decision that leads to Kafka's next record of an id, made again at its time."""
    now_ms = after.transaction_last_update_timestamp_ms
    state, producer = TransactionState(after.transaction_status), None
    if state is S.EMPTY:
        request = InitRequest(after.transaction_timeout_ms, None)
        return init_producer_id(
            before,
            request,
            last_epoch=-1,
            transaction_version=2,
            new_producer_id=lambda: after.producer_id,
            now_ms=now_ms,
        )
    assert before is not None
    producer = ProducerIdAndEpoch(before.producer_id, before.producer_epoch)
    if state is S.ONGOING:
        partitions = {
            (topic.topic, number)
            for topic in after.transaction_partitions or ()
            for number in topic.partition_ids
        }
        added = frozenset(partitions) - before.partitions
        return add_partitions(before, producer, added, client_version=2, now_ms=now_ms)
    if state in (S.PREPARE_COMMIT, S.PREPARE_ABORT):
        is_commit = state is S.PREPARE_COMMIT
        return end_transaction(
            before,
            producer,
            is_commit=is_commit,
            client_version=after.client_transaction_version,
            new_producer_id=lambda: None,
            now_ms=now_ms,
        )
    return Change(after=transitions.completed(before, now_ms))


@pytest.mark.parametrize("partition", PARTITIONS)
def test_decisions_write_kafkas_log(partition: str) -> None:
    """Requests at the times of Kafka's records give the same records, byte for byte."""
    image = EMPTY
    for record, _, value in golden(partition):
        name = record.key.transactional_id  # type: ignore[attr-defined]
        if value is not None:
            assert isinstance(record.value, TransactionLogValue)
            found = next_record(image.transactions.get(name), record.value)
            assert isinstance(found, Change)
            assert found.after is not None
            assert encode(record_of(name, found.after, 2)) == encode(as_ours(record))
        image = apply(image, record)


def test_a_transaction_that_times_out_is_aborted_as_by_kafka() -> None:
    """`tx-to-terminate` was; the record is that of an abort by a client."""
    records = [
        record.value
        for record, _, value in golden("__transaction_state-0")
        if record.key == TransactionLogKey(transactional_id="tx-to-terminate") and value
    ]
    image = EMPTY
    for value in records[:2]:
        image = apply(image, CoordinatorRecord(TransactionLogKey(transactional_id="x"), value))
    aborted = records[2]
    assert isinstance(aborted, TransactionLogValue)
    found = fence(image.transactions["x"], 2, aborted.transaction_last_update_timestamp_ms)
    assert found.after is not None
    assert record_of("x", found.after, 2).value == aborted


# ---- versions ----------------------------------------------------------------------------------

USED_UP = TransactionMetadata(
    producer_id=7,
    previous_producer_id=6,
    next_producer_id=8,
    producer_epoch=3,
    timeout_ms=4,
    state=S.PREPARE_COMMIT,
    partitions=frozenset({("b", 1), ("a", 2), ("a", 0)}),
    start_ms=10,
    last_update_ms=11,
    client_version=2,
)


def test_a_record_before_version_1_has_no_tagged_fields() -> None:
    key, value = encode(record_of("x", USED_UP, 0))
    assert value is not None
    assert value[:2] == b"\0\0"
    record = decode(TRANSACTION_KINDS, key, value)
    assert record is not None
    found = apply(EMPTY, record).transactions["x"]
    assert found == msgspec.structs.replace(
        USED_UP, previous_producer_id=-1, next_producer_id=-1, client_version=0
    )


@pytest.mark.parametrize("version", [1, 2])
def test_from_version_1_on_a_record_has_them(version: int) -> None:
    key, value = encode(record_of("x", USED_UP, version))
    assert value is not None
    assert value[:2] == b"\0\1"
    record = decode(TRANSACTION_KINDS, key, value)
    assert record is not None
    assert apply(EMPTY, record).transactions["x"] == USED_UP


def test_topics_and_partitions_are_sorted() -> None:
    value = record_of("x", USED_UP, 2).value
    assert isinstance(value, TransactionLogValue)
    assert value.transaction_partitions == (
        TransactionPartitions(topic="a", partition_ids=(0, 2)),
        TransactionPartitions(topic="b", partition_ids=(1,)),
    )


def test_a_state_that_is_not_known_cannot_be_loaded() -> None:
    value = record_of("x", USED_UP, 2).value
    assert isinstance(value, TransactionLogValue)
    bad = msgspec.structs.replace(value, transaction_status=8)
    key = TransactionLogKey(transactional_id="x")
    with pytest.raises(CoordinatorRecordError, match="status 8"):
        apply(EMPTY, CoordinatorRecord(key, bad))


def test_a_tombstone_ends_an_id_and_its_transaction() -> None:
    image = apply(EMPTY, record_of("x", USED_UP, 2))
    assert (set(image.transactions), set(image.open_ids)) == ({"x"}, {"x"})
    assert apply(image, tombstone("x")) == TransactionsImage()
    assert apply(EMPTY, tombstone("x")) == TransactionsImage(), "also one that is not known"
