"""A response is taken in slices between batches; what changes between two of them counts."""

from typing import Any

import pytest

from replication.follower.costs import BATCH_UNITS, BYTES_PER_UNIT, ROW_UNITS
from replication.follower.fetched_rows import FetchedRow
from tests.replication.fetching import (
    BACKOFF_MS,
    FailingLog,
    Pair,
    answered,
    batches,
    key,
    with_error,
)
from wire.batches.batch import encode_batch
from wire.errors import ErrorCode
from wire.messages.replica_fetch import ReplicaFetchedPartition

SLICE = 5
"""Batches of a slice of a whole turn."""
UNITS = ROW_UNITS + SLICE * BATCH_UNITS


def sliced(records: int = 0, count: int = 1, **config: Any) -> Pair:
    """Partitions whose followers take five batches in a turn; the first request is sent."""
    pair = Pair(records=records, count=count, **config)
    pair.follower.budget.units_max = UNITS
    pair.assign(*range(count))
    pair.follower.budget.begin()
    return pair


def turn(pair: Pair) -> int:
    """One turn; what it cost."""
    pair.follower.budget.begin()
    pair.fetchers.go_on()
    return int(pair.follower.budget.spent)


def end_offset(pair: Pair, number: int = 0) -> int:
    return int(pair.followed[key(number)].log.end_offset)


def lengths(row: FetchedRow, units_max: int) -> list[tuple[int, int]]:
    """Bytes and cost of the slices of a row."""
    slices = []
    while not row.is_taken or not slices:
        records, units = row.next_slice(units_max)
        slices.append((len(records), units))
    return slices


def row_of(records: bytes) -> FetchedRow:
    fetched = ReplicaFetchedPartition(
        key=key(), high_watermark=0, log_start_offset=0, records=memoryview(records)
    )
    return FetchedRow(fetched)


# ---- slices --------------------------------------------------------------------------------------


def test_slices_end_between_batches_and_cost_by_batches_and_bytes() -> None:
    small, large = batches(0), encode_batch([bytes(3 * BYTES_PER_UNIT)], 1, 1, 0)
    size = len(small)
    assert lengths(row_of(b""), 100) == [(0, ROW_UNITS)]
    assert lengths(row_of(3 * small), ROW_UNITS + 2 * BATCH_UNITS) == [
        (2 * size, ROW_UNITS + 2 * BATCH_UNITS),
        (size, ROW_UNITS + BATCH_UNITS),
    ]
    assert (
        lengths(row_of(3 * small), ROW_UNITS + 2 * BATCH_UNITS - 1)
        == [(size, ROW_UNITS + BATCH_UNITS)] * 3
    )
    assert lengths(row_of(2 * large), 0) == [(len(large), ROW_UNITS + BATCH_UNITS + 3)] * 2


@pytest.mark.parametrize("cut_bytes", [1, 11, 12, 60])
def test_a_cut_batch_behind_others_is_left_out(cut_bytes: int) -> None:
    small = batches(0)
    assert lengths(row_of(small + small[:cut_bytes]), 0) == [(len(small), ROW_UNITS + BATCH_UNITS)]


def test_what_is_no_batch_is_for_the_log_to_refuse_if_it_is_the_first() -> None:
    bad = batches(0)[:8] + bytes(4) + bytes(2 * BYTES_PER_UNIT)
    assert lengths(row_of(bad), 0) == [(len(bad), ROW_UNITS + 2)]
    small = batches(0)
    assert lengths(row_of(small + bad), 0) == [(len(small), ROW_UNITS + BATCH_UNITS)]


# ---- the fetcher ---------------------------------------------------------------------------------


def test_a_response_is_taken_over_turns_and_the_request_is_in_flight_until_its_end() -> None:
    pair = sliced(records=2 * SLICE + 2)
    assert not pair.fetchers.is_busy
    pair.exchange()
    ends = [end_offset(pair)]
    assert pair.follower.took == [(key(), False)]
    while pair.fetchers.is_busy:
        assert pair.follower.sent == [], "the request is in flight"
        assert pair.fetchers.next_ms() is None
        assert turn(pair) <= UNITS
        ends.append(end_offset(pair))
    assert ends == [SLICE, 2 * SLICE, 2 * SLICE + 2]
    assert pair.is_same()
    ((topic,),) = (pair.requested().topics,)
    assert topic.partitions[0].fetch_offset == 2 * SLICE + 2
    assert pair.fetchers.lag(key()) == 0


def test_the_high_watermark_is_that_of_the_leader_as_far_as_the_log_reaches() -> None:
    pair = sliced()
    answered(pair, high_watermark=7, records=memoryview(batches(*range(9))))
    log = pair.followed[key()].log
    assert (log.high_watermark, pair.fetchers.lag(key())) == (SLICE, 2)
    turn(pair)
    assert (log.end_offset, log.high_watermark) == (9, 7)
    assert pair.follower.took == [(key(), True), (key(), True)]


def test_rows_share_turns_in_their_order() -> None:
    pair = sliced(records=SLICE + 1, count=3)
    pair.exchange()
    ends = []
    while pair.fetchers.is_busy:
        ends.append([end_offset(pair, number) for number in range(3)])
        turn(pair)
    assert ends == [[5, 0, 0], [6, 1, 0], [6, 6, 0], [6, 6, 5]], "what is left has room for one"
    assert all(pair.is_same(number) for number in range(3))


def test_a_batch_is_the_smallest_slice() -> None:
    pair = sliced(records=2)
    pair.follower.budget.units_max = 1
    pair.follower.budget.begin()
    pair.exchange()
    assert (end_offset(pair), pair.fetchers.is_busy) == (1, True)
    turn(pair)
    assert (end_offset(pair), pair.fetchers.is_busy) == (2, False)


def test_a_response_waits_for_a_turn_with_room() -> None:
    pair = sliced(records=1)
    pair.follower.budget.spend(UNITS)
    pair.exchange()
    assert (end_offset(pair), pair.fetchers.is_busy) == (0, True)
    pair.fetchers.go_on()
    assert end_offset(pair) == 0
    turn(pair)
    assert (end_offset(pair), pair.fetchers.is_busy) == (1, False)


# ---- changes between two slices ------------------------------------------------------------------


def test_a_partition_that_is_removed_takes_no_further_slice() -> None:
    pair = sliced(records=SLICE + 1, count=2)
    pair.exchange()
    pair.fetchers.remove(key(0))
    turn(pair)
    assert [end_offset(pair, number) for number in range(2)] == [SLICE, SLICE]
    turn(pair)
    assert pair.is_same(1)


def test_a_fetcher_whose_partitions_are_removed_ends_with_the_response() -> None:
    pair = sliced(records=SLICE + 1)
    pair.exchange()
    pair.fetchers.remove(key())
    assert turn(pair) == 1
    assert (pair.fetchers.is_busy, pair.fetchers._fetchers, pair.follower.sent) == (False, {}, [])
    assert end_offset(pair) == SLICE


def test_a_partition_of_a_new_leader_epoch_takes_nothing_of_the_old_one() -> None:
    pair = sliced(records=SLICE + 1)
    pair.exchange()
    pair.fetchers.assign(key(), "topic", 1, 2)
    assert turn(pair) == 1
    assert end_offset(pair) == SLICE
    assert pair.requested().topics[0].partitions[0].current_leader_epoch == 2


def test_a_log_that_was_truncated_in_between_takes_nothing_more() -> None:
    pair = sliced(records=SLICE + 1)
    pair.exchange()
    state = pair.fetchers._fetchers[1, 0]._states[key()]
    pair.fetchers._fetchers[1, 0]._truncate(state, 2)
    turn(pair)
    assert end_offset(pair) == 2
    assert pair.requested().topics[0].partitions[0].fetch_offset == 2


def test_a_partition_that_is_assigned_again_at_the_same_end_goes_on() -> None:
    pair = sliced(records=SLICE + 1)
    pair.exchange()
    pair.fetchers.remove(key())
    pair.fetchers.assign(key(), "topic", 1, 1)
    turn(pair)
    assert pair.is_same()


def test_a_disk_that_fails_between_slices_leaves_the_other_partitions_alone() -> None:
    pair = sliced(records=SLICE + 1, count=2)
    pair.exchange()
    followed = pair.followed[key(0)]
    followed.log = FailingLog(followed.log, OSError("broken"))
    turn(pair)
    assert pair.fetchers.failure(key(0)) == "broken"
    assert [each for each, _ in pair.follower.disk_failures] == [key(0)]
    while pair.fetchers.is_busy:
        turn(pair)
    assert pair.is_same(1)


def test_a_damaged_batch_in_a_later_slice_waits_for_the_back_off() -> None:
    pair = sliced()
    records = bytearray(batches(*range(SLICE + 2)))
    records[-1] ^= 1
    answered(pair, records=memoryview(records))
    turn(pair)
    assert end_offset(pair) == SLICE + 1, "what is before it in the slice"
    assert not pair.fetchers.is_busy
    assert pair.requested().topics[0].partitions[0].fetch_offset == SLICE + 1
    pair = sliced()
    records = bytearray(batches(*range(2 * SLICE + 2)))
    records[(SLICE + 1) * len(batches(0)) - 1] ^= 1
    answered(pair, records=memoryview(records))
    turn(pair)
    assert (end_offset(pair), pair.fetchers.is_busy) == (SLICE, False)
    assert pair.follower.logged() == ["replica_fetch_invalid"]
    assert pair.fetchers.next_ms() == BACKOFF_MS


def test_an_error_of_a_partition_costs_a_row_and_nothing_else_a_unit() -> None:
    pair = sliced(count=2)
    with_error(pair, ErrorCode.not_leader_or_follower)
    assert pair.follower.budget.spent == 2 * ROW_UNITS
    pair = sliced()
    pair.fetchers.remove(key())
    answered(pair)
    assert pair.follower.budget.spent == 1
    assert pair.follower.took == []
