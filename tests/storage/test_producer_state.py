"""Producer state: duplicates, sequences, epochs, open transactions, expiry."""

import pytest

from storage.producers.producer_entry import BATCHES_MAX, decrement_sequence, increment_sequence
from storage.producers.producer_snapshot import ProducerSnapshotEntry
from storage.producers.producer_state import (
    CompletedTransaction,
    EndOfTransaction,
    Origin,
    ProducerStateError,
    ProducerStates,
)
from wire.batches.batch import BatchHeader
from wire.errors import ErrorCode

PRODUCER = 7
EXPIRATION_MS = 1000
SEQUENCE_MAX = (1 << 31) - 1
TRANSACTIONAL = 0x10


def header(
    sequence: int,
    offset: int,
    count: int = 1,
    epoch: int = 0,
    timestamp_ms: int = 0,
    *,
    producer_id: int = PRODUCER,
    is_transactional: bool = False,
) -> BatchHeader:
    return BatchHeader(
        base_offset=offset,
        leader_epoch=0,
        attributes=TRANSACTIONAL if is_transactional else 0,
        last_offset_delta=count - 1,
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        records_count=count,
    )


def write(states: ProducerStates, *headers: BatchHeader, origin: Origin = Origin.CLIENT) -> None:
    append = states.prepare(headers[0].producer_id, origin)
    for each in headers:
        append.add(each)
    states.update(append)
    states.note_end(headers[-1].end_offset)


def end(
    states: ProducerStates,
    offset: int,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    *,
    producer_id: int = PRODUCER,
    is_abort: bool = False,
    origin: Origin = Origin.COORDINATOR,
) -> tuple[CompletedTransaction | None, int | None]:
    append = states.prepare(producer_id, origin)
    marker = EndOfTransaction(is_abort, coordinator_epoch, offset, 500)
    completed = append.end_transaction(marker, epoch)
    states.update(append)
    states.note_end(offset + 1)
    return completed, None if completed is None else states.complete(completed)


def refusal(states: ProducerStates, each: BatchHeader, origin: Origin = Origin.CLIENT):
    before = states.snapshot_entries()
    with pytest.raises(ProducerStateError) as raised:
        write(states, each, origin=origin)
    assert states.snapshot_entries() == before, "what was refused left something behind"
    return raised.value


@pytest.fixture
def states() -> ProducerStates:
    return ProducerStates("t-0", EXPIRATION_MS)


# ---- sequences ---------------------------------------------------------------------------------


def test_a_new_producer_may_begin_with_any_sequence(states):
    write(states, header(17, 0, epoch=3))
    assert states.entry(PRODUCER).last_sequence == 17
    assert states.entry(PRODUCER).producer_epoch == 3


@pytest.mark.parametrize("sequence", [1, 3, 0])
def test_a_sequence_follows_the_one_before(states, sequence):
    write(states, header(0, 0, count=2))
    error = refusal(states, header(sequence, 2))
    assert error.code is ErrorCode.out_of_order_sequence_number
    assert str(error) == (
        "Out of order sequence number for producer 7 at offset 2 in partition t-0:"
        f" {sequence} (incoming seq. number), 1 (current end sequence number)"
    )
    write(states, header(2, 2))
    assert states.entry(PRODUCER).last_sequence == 2


def test_batches_of_one_append_follow_each_other(states):
    write(states, header(0, 0), header(1, 1), header(2, 2))
    append = states.prepare(PRODUCER, Origin.CLIENT)
    append.add(header(3, 3))
    with pytest.raises(ProducerStateError, match=r"5 \(incoming seq. number\), 3 \(current end"):
        append.add(header(5, 4))
    assert states.entry(PRODUCER).last_sequence == 2, "before `update` nothing is taken over"


def test_the_sequence_wraps(states):
    write(states, header(SEQUENCE_MAX, 0))
    assert refusal(states, header(1, 1)).code is ErrorCode.out_of_order_sequence_number
    write(states, header(0, 1))
    assert states.entry(PRODUCER).last_sequence == 0


def test_a_batch_across_the_wrap_is_found_again(states):
    batch = header(SEQUENCE_MAX, 10, count=3)
    write(states, batch)
    found = states.entry(PRODUCER).duplicate_of(batch)
    assert (found.first_sequence, found.last_sequence) == (SEQUENCE_MAX, 1)
    assert (found.first_offset, found.last_offset) == (10, 12)


@pytest.mark.parametrize(
    ("sequence", "number", "later"),
    [(0, 1, 1), (SEQUENCE_MAX, 1, 0), (SEQUENCE_MAX - 1, 3, 1), (-1, 1, 0)],
)
def test_sequences_after(sequence, number, later):
    assert increment_sequence(sequence, number) == later


@pytest.mark.parametrize(
    ("sequence", "number", "earlier"),
    [(1, 1, 0), (0, 1, SEQUENCE_MAX), (1, 3, SEQUENCE_MAX - 1), (-1, 0, -1), (-1, 4, -1)],
)
def test_sequences_before(sequence, number, earlier):
    assert decrement_sequence(sequence, number) == earlier


def test_only_producers_are_asked_for_the_sequence(states):
    write(states, header(0, 0))
    write(states, header(9, 1), origin=Origin.REPLICATION)
    write(states, header(4, 2), origin=Origin.COORDINATOR)
    assert states.entry(PRODUCER).last_sequence == 4


# ---- duplicates --------------------------------------------------------------------------------


def test_the_last_five_batches_are_known_again(states):
    assert BATCHES_MAX == 5
    batches = [header(2 * n, 2 * n, count=2, timestamp_ms=n) for n in range(6)]
    for each in batches:
        write(states, each)
    entry = states.entry(PRODUCER)
    assert entry.duplicate_of(batches[0]) is None, "the sixth from the end"
    assert [entry.duplicate_of(each).first_offset for each in batches[1:]] == [2, 4, 6, 8, 10]
    assert [entry.duplicate_of(each).timestamp_ms for each in batches[1:]] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "other",
    [header(2, 9, count=1), header(3, 9, count=1), header(2, 9, count=3), header(1, 9, count=3),
     header(2, 9, count=2, epoch=1)],
)  # fmt: skip
def test_a_duplicate_has_both_sequences_and_the_epoch(states, other):
    write(states, header(0, 0, count=2), header(2, 2, count=2))
    assert states.entry(PRODUCER).duplicate_of(header(2, 9, count=2)).first_offset == 2
    assert states.entry(PRODUCER).duplicate_of(other) is None


# ---- epochs ------------------------------------------------------------------------------------


def test_an_older_epoch_is_fenced(states):
    write(states, header(0, 0, epoch=2))
    error = refusal(states, header(1, 1, epoch=1))
    assert error.code is ErrorCode.invalid_producer_epoch
    assert str(error) == (
        "Epoch of producer 7 at offset 1 in t-0 is 1, which is smaller than the last seen epoch 2"
    )
    assert refusal(states, header(1, 1, epoch=1), Origin.COORDINATOR).code is error.code
    write(states, header(1, 1, epoch=1), origin=Origin.REPLICATION)
    assert states.entry(PRODUCER).producer_epoch == 1


def test_a_new_epoch_begins_with_sequence_0(states):
    write(states, header(0, 0), header(1, 1))
    error = refusal(states, header(2, 2, epoch=1))
    assert error.code is ErrorCode.out_of_order_sequence_number
    assert str(error) == (
        "Invalid sequence number for new epoch of producer 7 at offset 2 in partition t-0:"
        " 1 (request epoch), 2 (seq. number), 0 (current producer epoch)"
    )
    write(states, header(0, 2, epoch=1))
    entry = states.entry(PRODUCER)
    assert entry.producer_epoch == 1
    assert entry.duplicate_of(header(1, 1)) is None
    assert len(entry.batches) == 1, "batches of the epoch before are forgotten"


def test_a_marker_raises_the_epoch_and_the_next_sequence_is_0(states):
    write(states, header(0, 0, is_transactional=True))
    end(states, 1, epoch=1)
    assert states.entry(PRODUCER).last_sequence == -1
    assert refusal(states, header(1, 2, epoch=1)).code is ErrorCode.out_of_order_sequence_number
    write(states, header(0, 2, epoch=1))
    assert states.entry(PRODUCER).last_sequence == 0


# ---- transactions ------------------------------------------------------------------------------


def test_a_transaction_holds_the_stable_offset_until_its_marker_is_replicated(states):
    write(states, header(0, 5, is_transactional=True), header(1, 6, is_transactional=True))
    assert states.first_unstable_offset == states.first_undecided_offset == 5
    completed, stable = end(states, 7)
    assert completed == CompletedTransaction(PRODUCER, 5, 7, is_aborted=False)
    assert stable == 8
    assert states.first_undecided_offset is None
    assert states.first_unstable_offset == 5, "the marker is not replicated"
    states.forget_replicated(7)
    assert states.first_unstable_offset == 5, "the high watermark is exclusive"
    states.forget_replicated(8)
    assert states.first_unstable_offset is None


def test_the_oldest_open_transaction_counts(states):
    write(states, header(0, 0, producer_id=1, is_transactional=True))
    write(states, header(0, 1, producer_id=2, is_transactional=True))
    completed, stable = end(states, 2, producer_id=2, is_abort=True)
    assert completed == CompletedTransaction(2, 1, 2, is_aborted=True)
    assert stable == 0, "that of producer 1 is open"
    assert states.first_unstable_offset == 0
    _, stable = end(states, 3, producer_id=1)
    assert stable == 4
    assert states.first_unstable_offset == 0
    states.forget_replicated(3)
    assert states.first_unstable_offset == 0, "its marker is at 3"
    states.forget_replicated(4)
    assert states.first_unstable_offset is None


def test_a_marker_without_a_transaction_completes_none(states):
    assert end(states, 0, epoch=4) == (None, None)
    assert states.entry(PRODUCER).producer_epoch == 4
    assert states.entry(PRODUCER).last_timestamp_ms == 500
    assert states.first_unstable_offset is None


def test_records_without_the_transaction_of_their_producer(states):
    write(states, header(0, 0, is_transactional=True))
    error = refusal(states, header(1, 1))
    assert error.code is ErrorCode.invalid_txn_state
    assert str(error) == (
        "Expected transactional write from producer 7 at offset 1 in partition t-0"
    )


def test_a_coordinator_of_an_older_epoch_is_fenced(states):
    write(states, header(0, 0, is_transactional=True))
    end(states, 1, coordinator_epoch=5)
    write(states, header(1, 2, is_transactional=True))
    with pytest.raises(ProducerStateError) as raised:
        end(states, 3, coordinator_epoch=4)
    assert raised.value.code is ErrorCode.transaction_coordinator_fenced
    assert str(raised.value) == (
        "Invalid coordinator epoch for producer 7 at offset 3 in partition t-0:"
        " 4 (zombie), 5 (current)"
    )
    assert states.first_undecided_offset == 2
    completed, _ = end(states, 3, coordinator_epoch=4, origin=Origin.REPLICATION)
    assert completed is not None, "a replica takes what its leader has"


def test_a_marker_of_an_older_producer_epoch_is_fenced(states):
    write(states, header(0, 0, epoch=2, is_transactional=True))
    with pytest.raises(ProducerStateError, match="smaller than the last seen epoch 2"):
        end(states, 1, epoch=1)


def test_a_transaction_that_begins_and_ends_in_one_append(states):
    append = states.prepare(PRODUCER, Origin.REPLICATION)
    append.add(header(0, 0, is_transactional=True))
    completed = append.end_transaction(EndOfTransaction(False, 0, 1, 0), 0)
    states.update(append)
    assert states.complete(completed) == 2
    assert states.entry(PRODUCER).current_transaction_first_offset == -1
    assert states.first_undecided_offset is None


# ---- expiry, snapshots -------------------------------------------------------------------------


def test_producers_expire_but_not_with_an_open_transaction(states):
    write(states, header(0, 0, producer_id=1, timestamp_ms=100))
    write(states, header(0, 1, producer_id=2, timestamp_ms=100, is_transactional=True))
    write(states, header(0, 2, producer_id=3, timestamp_ms=101))
    assert states.remove_expired(100 + EXPIRATION_MS - 1) == 0
    assert states.remove_expired(100 + EXPIRATION_MS) == 1
    assert [entry.producer_id for entry in states.entries()] == [2, 3]
    assert len(states) == 2


def test_a_snapshot_brings_the_newest_batch_and_the_open_transaction_back(states):
    write(states, header(0, 0, count=3, epoch=1, timestamp_ms=50))
    write(states, header(3, 3, count=2, epoch=1, timestamp_ms=60, is_transactional=True))
    entries = states.snapshot_entries()
    assert entries == [ProducerSnapshotEntry(PRODUCER, 1, 4, 4, 1, 60, -1, 3)]
    again = ProducerStates("t-0", EXPIRATION_MS)
    write(again, header(0, 0, producer_id=99, is_transactional=True))
    again.load(entries, 5, now_ms=60 + 2 * EXPIRATION_MS)
    assert again.snapshot_entries() == entries
    assert again.end_offset == 5
    assert again.first_unstable_offset == 3
    assert again.entry(99) is None
    entry = again.entry(PRODUCER)
    assert entry.duplicate_of(header(3, 9, count=2, epoch=1)).first_offset == 3
    assert entry.duplicate_of(header(0, 9, count=3, epoch=1)) is None, "only the newest is kept"
    write(again, header(5, 5, epoch=1, is_transactional=True))


def test_a_snapshot_without_a_batch_and_with_an_expired_producer(states):
    idle = ProducerSnapshotEntry(1, 2, -1, -1, 0, 400, 3, -1)
    expired = ProducerSnapshotEntry(2, 0, 5, 9, 0, 399, -1, -1)
    states.load([idle, expired], 10, now_ms=399 + EXPIRATION_MS)
    assert states.snapshot_entries() == [idle]
    assert not states.entry(1).batches
    assert states.entry(1).last_sequence == -1


def test_transactions_of_a_snapshot_are_in_the_order_of_the_log(states):
    later = ProducerSnapshotEntry(1, 0, 0, 8, 0, 0, -1, 8)
    earlier = ProducerSnapshotEntry(2, 0, 0, 4, 0, 0, -1, 4)
    states.load([later, earlier], 10, now_ms=0)
    assert states.first_undecided_offset == 4


def test_a_producer_does_not_expire_before_the_end_of_its_transaction_is_replicated(states) -> None:
    """Its entry in the next snapshot says that there may be such a transaction at all."""
    write(states, header(0, 0, is_transactional=True))
    end(states, 1)
    write(states, header(0, 2, producer_id=PRODUCER + 1))
    states.forget_replicated(1)
    assert states.remove_expired(10 * EXPIRATION_MS) == 1
    assert [entry.producer_id for entry in states.entries()] == [PRODUCER]
    states.forget_replicated(2)
    assert states.remove_expired(10 * EXPIRATION_MS) == 1


def test_a_state_is_empty_without_producers_and_without_ends_above_the_high_watermark(
    states,
) -> None:
    assert states.is_empty
    write(states, header(0, 0))
    assert not states.is_empty
    states.load((), 9, now_ms=0)  # all have expired
    states.note_ended(PRODUCER, 3, 8)
    assert not states.is_empty, "the end of its transaction may be truncated"
    assert (states.first_unreplicated_offset, states.first_unstable_offset) == (3, 3)
    states.forget_replicated(8)
    assert not states.is_empty
    states.forget_replicated(9)
    assert states.is_empty
