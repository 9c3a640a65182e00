"""Fetchers whose log is elsewhere than that of the leader: it is truncated, or begins anew."""

from math import inf

import msgspec
import pytest

from replication.follower.fetcher import Fetcher
from replication.reading import EARLIEST, LATEST
from tests.replication.fetching import (
    BACKOFF_MS,
    NAME,
    FailingLog,
    Pair,
    answered,
    batches,
    key,
    with_error,
)
from tests.replication.partitions import WALL_MS, registration
from wire.api_keys import FETCH, LIST_OFFSETS
from wire.errors import ErrorCode
from wire.types import OffsetAndEpoch


def test_records_that_the_leader_never_had_go_by_its_diverging_epoch():
    """KIP-101, story B2: the former leader has a record of epoch 1 that nobody else has."""
    pair = Pair(records=2)
    pair.assign()
    pair.exchange()
    pair.lose()
    log = pair.followed[key()].log
    log.append_as_follower(memoryview(batches(2, 3, epoch=1)), 1, WALL_MS)
    for side in (pair.led, pair.followed):
        change = side[key()].make_leader if side is pair.led else side[key()].make_follower
        change(registration(epoch=2), 0)
    pair.append(1)
    pair.assign(epoch=2)
    pair.exchange()
    assert log.end_offset == 2
    assert "replica_truncated" in pair.follower.logged()
    assert pair.follower.took[-1] == (key(), False)
    pair.exchange()
    assert pair.is_same()


def test_the_high_watermark_beside_a_diverging_epoch_is_not_taken():
    pair = Pair(records=2)
    pair.assign()
    pair.exchange()
    diverging = OffsetAndEpoch(1, 1)
    answered(pair, session_id=1, high_watermark=2, diverging_epoch=diverging)
    assert pair.followed[key()].log.end_offset == 1
    assert pair.followed[key()].log.high_watermark == 0
    (row,) = pair.requested().topics[0].partitions
    assert row.fetch_offset == 1


def test_a_diverging_epoch_without_an_end_waits():
    pair = Pair(records=1)
    pair.assign()
    pair.exchange()
    answered(pair, session_id=1, diverging_epoch=OffsetAndEpoch(-1, 1))
    assert pair.follower.logged() == ["replica_fetch_invalid"]
    assert pair.numbers() == ([], [0])


def test_a_log_without_epochs_loses_what_is_above_its_high_watermark():
    """As Kafka has it for records of the oldest formats, which cannot be compared."""
    pair = Pair(records=3)
    log = pair.followed[key()].log
    log.append_as_follower(memoryview(batches(0, 1, 2, epoch=-1)), 1, WALL_MS)
    log.set_high_watermark(1)
    assert log.last_epoch is None
    pair.assign()
    assert log.end_offset == 1
    assert pair.requested().topics[0].partitions[0].fetch_offset == 1


# --- offsets out of range


def out_of_range(pair):
    """Answer OFFSET_OUT_OF_RANGE; the question that follows is the next request."""
    with_error(pair, ErrorCode.offset_out_of_range)
    assert [sent[2] for sent in pair.follower.sent][:1] == [LIST_OFFSETS]


def test_a_log_that_ends_below_the_log_start_of_its_leader_begins_anew_there():
    pair = Pair(records=5)
    log = pair.led[key()].log
    log.set_high_watermark(5)
    log.raise_log_start_to(3)
    pair.assign()
    pair.exchange(6)  # out of range, the end, the start, records, and fetches between
    assert pair.is_same()
    own = pair.followed[key()].log
    assert (own.log_start_offset, own.end_offset) == (3, 5)
    assert pair.fetchers.lag(key()) == 0


def test_an_end_above_that_of_the_leader_is_truncated_to_it():
    """An unclean leader, whose epochs do not tell."""
    pair = Pair(slots=0, records=2)
    pair.assign()
    log = pair.followed[key()].log
    log.append_as_follower(memoryview(batches(0, 1, 2)), 1, WALL_MS)
    pair.fetchers.remove(key())
    pair.fetchers.assign(key(), NAME, 1, 1)
    pair.exchange()
    out_of_range(pair)
    pair.exchange()
    assert log.end_offset == 2
    assert pair.fetchers.lag(key()) == 0
    assert pair.requested().topics[0].partitions[0].fetch_offset == 2


@pytest.mark.parametrize(("records", "start"), [(2, 0), (3, 2), (2, 2)])
def test_an_end_between_those_of_the_leader_is_fetched_again(records, start):
    pair = Pair(slots=0, records=2)
    pair.assign()
    pair.exchange()
    pair.append(records - 2)
    log = pair.led[key()].log
    log.set_high_watermark(2)
    log.raise_log_start_to(start)
    out_of_range(pair)
    pair.exchange(2)
    assert pair.fetchers.lag(key()) == records - 2
    assert pair.requested().topics[0].partitions[0].fetch_offset == 2
    assert "replica_truncated" not in pair.follower.logged()


def test_questions_go_before_the_next_fetch_which_leaves_the_partition_out():
    pair = Pair(count=2)
    pair.assign(0, 1)
    pair.exchange()
    with_error(pair, ErrorCode.offset_out_of_range)
    assert [sent[2] for sent in pair.follower.sent] == [LIST_OFFSETS, FETCH]
    pair.exchange(2)
    assert [sent[2] for sent in pair.follower.sent] == [LIST_OFFSETS, FETCH]


def test_a_question_that_is_lost_delays_the_partition():
    pair = Pair(slots=0)
    pair.assign()
    out_of_range(pair)
    pair.lose()
    assert pair.fetchers.next_ms() == BACKOFF_MS
    pair.follower.advance(BACKOFF_MS)
    assert pair.numbers() == ([0], [])


def question_of(pair):
    """The question that is under way in the fetcher of the pair, to be answered directly."""
    out_of_range(pair)
    (fetcher,) = pair.fetchers._fetchers.values()
    assert isinstance(fetcher, Fetcher)
    return fetcher, pair.follower.sent.pop(0)[-1].args[-1]


@pytest.mark.parametrize(
    "answer", [ErrorCode.not_leader_or_follower, ErrorCode.unknown_leader_epoch, None, -1]
)
def test_an_error_for_an_answer_delays_the_partition(answer):
    pair = Pair(slots=0)
    pair.assign()
    fetcher, question = question_of(pair)
    fetcher.on_offset(question, answer)
    assert pair.fetchers.next_ms() == BACKOFF_MS
    assert pair.fetchers.failed == {}


def test_a_fenced_question_waits_for_metadata():
    pair = Pair(slots=0)
    pair.assign()
    fetcher, question = question_of(pair)
    fetcher.on_offset(question, ErrorCode.fenced_leader_epoch)
    assert list(pair.fetchers.failed) == [key()]


def test_a_partition_whose_offset_is_asked_for_is_not_throttled():
    """It would be fetched again when the quota allows it."""
    pair = Pair(slots=0)
    pair.assign()
    fetcher, question = question_of(pair)
    pair.follower.quota.mark(key()[0], None)
    pair.follower.quota.bound = 1
    pair.follower.quota.record(1 << 20)
    assert fetcher.next_request() is None
    assert fetcher.next_ms() is None, "until the answer comes"
    fetcher.on_offset(question, ErrorCode.not_leader_or_follower)
    assert fetcher.next_request() is None, "it is delayed now"
    pair.follower.quota.bound = inf
    assert fetcher.next_request() is None, "as long as before"
    assert fetcher.next_ms() == pair.follower.clock.now_ms + BACKOFF_MS


def test_answers_to_other_questions_are_ignored():
    pair = Pair(slots=0)
    pair.assign()
    fetcher, question = question_of(pair)
    assert question.timestamp == LATEST
    replace = msgspec.structs.replace
    fetcher.on_offset(replace(question, key=key(1)), 0)
    fetcher.on_offset(replace(question, leader_epoch=2), 0)
    fetcher.on_offset(replace(question, timestamp=EARLIEST), 7)
    assert pair.fetchers.next_ms() is None
    fetcher.on_offset(question, 0)
    fetcher.on_offset(question, 0)
    assert [each.timestamp for each in fetcher.take_questions()] == [EARLIEST]


@pytest.mark.parametrize("answer", [0, 5])
def test_an_error_of_the_disk_while_it_truncates_is_told(answer):
    pair = Pair(slots=0, records=1)
    pair.assign()
    pair.exchange()
    fetcher, question = question_of(pair)
    partition = pair.followed[key()]
    partition.log = FailingLog(partition.log, OSError("gone"))
    fetcher.on_offset(question, answer)
    if answer:
        fetcher.on_offset(msgspec.structs.replace(question, timestamp=EARLIEST), answer)
    assert list(pair.fetchers.failed) == [key()]
    assert len(pair.follower.disk_failures) == 1


def test_a_log_that_goes_while_its_offset_is_asked_for_fails():
    pair = Pair(slots=0)
    pair.assign()
    fetcher, question = question_of(pair)
    pair.followed[key()].mark_offline()
    fetcher.on_offset(question, 0)
    assert list(pair.fetchers.failed) == [key()]


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_partition_that_is_not_followed_any_more_is_not_truncated(is_gone):
    pair = Pair(records=2)
    pair.assign()
    pair.exchange()
    log = pair.followed[key()].log
    if is_gone:
        del pair.followed[key()]
    else:
        pair.followed[key()].make_leader(registration(2, epoch=2), 0)
    before = list(pair.follower.took)
    answered(pair, session_id=1, diverging_epoch=OffsetAndEpoch(1, 1))
    assert log.end_offset == 2
    assert pair.fetchers.failed == {key(): "it is not followed here"}
    assert pair.follower.took == before


def test_a_truncation_is_told():
    pair = Pair(records=2)
    pair.assign()
    pair.exchange()
    answered(pair, session_id=1, diverging_epoch=OffsetAndEpoch(1, 1))
    assert pair.follower.took == [(key(), False)] * 2
