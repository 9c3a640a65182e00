"""Truncation of a log that producers wrote to: their state is replayed in pieces of a turn."""

import pytest

from replication.follower import costs
from replication.follower.costs import CUT_SEGMENT_UNITS, CUT_UNITS, REPLAY_BYTES, ROW_UNITS
from replication.follower.costs import replay_units as units
from tests.replication.fetching import Pair, answered, batches, key, with_error
from tests.replication.partitions import WALL_MS, registration
from tests.storage.test_unified_log import produced
from wire.api_keys import LIST_OFFSETS
from wire.errors import CorruptBatchError, ErrorCode
from wire.messages.replica_fetch import ReplicaFetchedPartition, ReplicaFetchResponse
from wire.types import OffsetAndEpoch

COUNT = 300
SIZE = len(produced(WALL_MS).buffer)
PIECE = REPLAY_BYTES // SIZE
"""Batches of a piece of the replay."""
PIECES = -(-(COUNT - 1) // PIECE)


def written(pair, producer=7, number=0):
    """Let a producer write to the log of a follower, as if its leader had led."""
    log = pair.followed[key(number)].log
    for sequence in range(COUNT):
        log.append_as_leader(produced(WALL_MS, producer=producer, sequence=sequence), 1, WALL_MS)
    return log


def diverged(producer=7, count=1):
    """Followers with records of an epoch that their leader ended at one less; the row is taken."""
    pair = Pair(count=count)
    log = written(pair, producer)
    pair.follower.budget.units_max = 100
    pair.assign(*range(count))
    pair.follower.budget.begin()
    rows = [
        ReplicaFetchedPartition(
            key=key(number),
            high_watermark=0,
            log_start_offset=0,
            diverging_epoch=None if number else OffsetAndEpoch(COUNT - 1, 1),
        )
        for number in range(count)
    ]
    *_, callback = pair.follower.sent.pop(0)
    callback(ReplicaFetchResponse(code=ErrorCode.none, session_id=1, partitions=tuple(rows)))
    return pair, log


def turn(pair):
    pair.follower.budget.begin()
    pair.fetchers.go_on()
    return pair.follower.budget.spent


def test_the_replay_takes_turns_and_the_fetch_is_behind_it():
    pair, log = diverged()
    assert PIECES > 2
    assert log.end_offset == COUNT - 1
    assert pair.follower.budget.spent == ROW_UNITS + CUT_UNITS
    assert (log.is_replaying, pair.fetchers.is_busy) == (True, True)
    assert not pair.follower.sent
    spent = [turn(pair) for _ in range(PIECES)]
    whole = units(PIECE, PIECE * SIZE)
    assert spent[:-1] == [whole] * (PIECES - 1)
    assert 0 < spent[-1] <= whole
    assert (log.is_replaying, pair.fetchers.is_busy) == (False, False)
    assert log.producers.entry(7).last_sequence == COUNT - 2
    (row,) = pair.requested().topics[0].partitions
    assert row.fetch_offset == COUNT - 1


def test_without_producers_the_next_fetch_leaves_at_once():
    pair, log = diverged(producer=-1)
    assert not log.is_replaying
    (row,) = pair.requested().topics[0].partitions
    assert row.fetch_offset == COUNT - 1


def test_segments_that_go_cost_more():
    pair = Pair()
    log = pair.followed[key()].log
    for _ in range(3):
        log.append_as_leader(produced(WALL_MS), 1, WALL_MS)
        log.log.roll(log.end_offset, WALL_MS)
        log._rolled(log.end_offset)
    pair.assign()
    pair.follower.budget.begin()
    answered(pair, session_id=1, diverging_epoch=OffsetAndEpoch(1, 1))
    assert pair.follower.budget.spent == ROW_UNITS + CUT_UNITS + 2 * CUT_SEGMENT_UNITS


def test_other_partitions_are_fetched_meanwhile():
    pair, log = diverged(count=2)
    turn(pair)
    pair.follower.advance(0)
    assert pair.numbers() == ([], [0])
    sent = pair.follower.sent.pop(0)
    assert log.is_replaying
    pair.follower.budget.begin()
    rows = ReplicaFetchedPartition(
        key=key(1),
        high_watermark=0,
        log_start_offset=0,
        records=memoryview(batches(0, 1)),
    )
    sent[-1](ReplicaFetchResponse(code=ErrorCode.none, session_id=1, partitions=(rows,)))
    assert pair.followed[key(1)].log.end_offset == 2
    while log.is_replaying:
        assert pair.fetchers.is_busy
        turn(pair)
    assert sorted(pair.numbers()[0]) == [0, 1]


def test_a_request_that_is_lost_meanwhile_does_not_end_the_replay():
    """The partition was none of it, and is not delayed with the others."""
    pair, log = diverged(count=2)
    turn(pair)
    pair.follower.advance(0)
    pair.follower.budget.begin()
    pair.lose()
    for _ in range(PIECES):
        turn(pair)
    assert not log.is_replaying
    pair.follower.advance(0)
    assert pair.numbers()[0] == [0]


def test_a_replay_does_not_end_the_request_in_flight():
    pair, log = diverged(count=2)
    turn(pair)
    pair.follower.advance(0)
    while log.is_replaying:
        turn(pair)
    assert len(pair.follower.sent) == 1
    pair.follower.advance(0)
    assert len(pair.follower.sent) == 1
    pair.follower.budget.begin()
    pair.lose()
    assert pair.fetchers.next_ms() is not None


def test_a_partition_that_is_led_here_meanwhile_is_not_fetched():
    pair, log = diverged()
    pair.fetchers.remove(key())
    pair.followed[key()].make_leader(registration(epoch=2, leader=2), 0)
    assert turn(pair) == 0
    assert (log.is_replaying, pair.fetchers.is_busy) == (True, False)
    again = log.append_as_leader(produced(WALL_MS, producer=7, sequence=COUNT - 2), 2, WALL_MS)
    assert again.is_duplicate
    assert not pair.follower.sent


def test_a_partition_whose_leader_changes_meanwhile_is_fetched_from_the_end():
    pair, log = diverged()
    pair.followed[key()].make_follower(registration(epoch=2), 0)
    pair.led[key()].make_leader(registration(epoch=2), 0)
    pair.assign(epoch=2)
    turn(pair)
    (row,) = pair.requested().topics[0].partitions
    assert (row.fetch_offset, row.current_leader_epoch) == (COUNT - 1, 2)
    assert log.is_replaying


def test_who_asks_for_the_producers_before_ends_the_replay():
    pair, log = diverged()
    assert log.producers.entry(7).last_sequence == COUNT - 2
    assert turn(pair) == 0
    assert len(pair.follower.sent) == 1


def test_a_log_that_goes_meanwhile_fails():
    pair, _ = diverged()
    pair.followed.clear()
    turn(pair)
    assert pair.fetchers.failure(key()) == "it has no log"
    assert not pair.fetchers.is_busy


@pytest.mark.parametrize("error", [OSError("disk"), CorruptBatchError("marker")])
def test_an_error_of_the_replay_is_told(error, monkeypatch):
    pair, log = diverged()

    def fails(_bytes):
        raise error

    monkeypatch.setattr(log, "replay_some", fails)
    turn(pair)
    assert not pair.fetchers.is_busy
    if isinstance(error, OSError):
        assert pair.fetchers.failure(key()) == "disk"
        assert pair.follower.disk_failures == [(key(), error)]
    else:
        assert pair.follower.logged()[-1] == "replica_fetch_invalid"
        assert pair.numbers() == ([], [0])


def test_a_log_that_ends_above_its_leader_is_replayed_in_pieces_too():
    """Behind OFFSET_OUT_OF_RANGE and the answer of the leader."""
    pair = Pair()
    log = written(pair)
    pair.follower.budget.units_max = 100
    pair.assign()
    with_error(pair, ErrorCode.offset_out_of_range)
    question = pair.follower.sent.pop(0)
    pair.append(COUNT - 1)
    pair.follower.budget.begin()
    pair.follower.respond(question, pair.leader.answer(18, LIST_OFFSETS, question[3]))
    assert (log.end_offset, log.is_replaying, pair.fetchers.is_busy) == (COUNT - 1, True, True)
    for _ in range(PIECES):
        turn(pair)
    assert not log.is_replaying
    while not pair.numbers()[0]:
        pair.exchange()
    assert pair.requested().topics[0].partitions[0].fetch_offset == COUNT - 1


def test_a_log_without_epochs_is_replayed_in_pieces_too():
    pair = Pair()
    log = written(pair)
    log.set_high_watermark(COUNT - 1)
    log.log.epoch_cache.clear()
    log.log.last_epoch = -1
    pair.follower.budget.units_max = 100
    pair.assign()
    assert (log.end_offset, log.is_replaying, pair.fetchers.is_busy) == (COUNT - 1, True, True)
    assert not pair.follower.sent
    for _ in range(PIECES):
        turn(pair)
    assert len(pair.follower.sent) == 1


def test_a_piece_of_the_replay_costs_by_its_batches_and_bytes():
    assert units(0, 0) == costs.REPLAY_UNITS
    assert units(3, 0) == costs.REPLAY_UNITS + 3 * costs.BATCH_UNITS
    assert units(0, 2 * costs.BYTES_PER_UNIT + 1) == costs.REPLAY_UNITS + 2
