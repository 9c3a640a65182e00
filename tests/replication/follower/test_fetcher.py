"""Fetchers against real leaders: they catch up, truncate, wait, fail, and keep their session."""

import pytest

from network.effects import LogLevel
from storage.errors import FsyncError, OutOfSpaceError
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
from wire.api_keys import FETCH
from wire.errors import ErrorCode
from wire.messages.replica_fetch import (
    ReplicaFetchResponse,
)

# --- catching up


@pytest.mark.parametrize("version", range(13, 19))
def test_a_follower_catches_up_and_learns_the_high_watermark_a_round_later(version):
    pair = Pair(records=3, version=version)
    pair.assign()
    assert pair.fetchers.lag(key()) is None
    pair.exchange()
    assert pair.is_same()
    assert pair.followed[key()].log.high_watermark == 0
    assert pair.follower.took == [(key(), False)]
    pair.leader.partitions[key()].log.set_high_watermark(3)
    pair.exchange(2)
    assert pair.followed[key()].log.high_watermark == 3
    assert (key(), True) in pair.follower.took
    assert pair.fetchers.lag(key()) == 0
    pair.append(2)
    pair.exchange()
    assert pair.is_same()
    assert pair.followed[key()].log.end_offset == 5


def remove_all(fetchers):
    for each in list(fetchers._assigned):
        fetchers.remove(each)


def test_a_request_says_who_fetches_what_within_which_limits():
    pair = Pair(wait_ms_max=7, bytes_min=2, response_bytes_max=99, bytes_max=50)
    pair.assign()
    request = pair.requested()
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 12)
    assert request.max_wait.microseconds == 7_000
    assert (request.min_bytes, request.max_bytes, request.isolation_level) == (2, 99, 0)
    (row,) = request.topics[0].partitions
    assert (row.fetch_offset, row.last_fetched_epoch, row.log_start_offset) == (0, -1, 0)
    assert (row.current_leader_epoch, row.partition_max_bytes) == (1, 50)
    assert (request.session_id, request.session_epoch) == (0, 0)


def test_the_next_request_goes_on_from_the_end_of_the_log_in_its_epoch():
    pair = Pair(records=2)
    pair.assign()
    pair.exchange()
    (row,) = pair.requested().topics[0].partitions
    assert (row.fetch_offset, row.last_fetched_epoch) == (2, 1)


def test_lag_is_counted_up_to_the_leaders_high_watermark():
    pair = Pair()
    pair.assign()
    answered(pair, records=memoryview(batches(0)), high_watermark=5)
    assert pair.fetchers.lag(key()) == 4


def test_a_batch_that_is_cut_at_the_end_is_fetched_again():
    pair = Pair()
    pair.assign()
    content = batches(0, 1)
    answered(pair, records=memoryview(content)[:-1])
    assert pair.followed[key()].log.end_offset == 1
    assert pair.requested().topics[0].partitions[0].fetch_offset == 1


@pytest.mark.parametrize("records", [batches(0)[:-1], batches(0, epoch=2), batches(0)[:-1] + b"X"])
def test_records_of_which_none_can_be_appended_wait(records):
    """A batch that is cut, one of a later epoch, a damaged one: not asked for again at once."""
    pair = Pair()
    pair.assign()
    answered(pair, records=memoryview(records))
    assert pair.follower.sent == []
    assert pair.fetchers.next_ms() == BACKOFF_MS
    assert pair.follower.logged() == ["replica_fetch_invalid"]
    pair.follower.advance(BACKOFF_MS)
    pair.append(1)
    pair.exchange()
    assert pair.is_same()


def test_partitions_of_one_fetcher_share_a_request_and_one_is_in_flight():
    pair = Pair(records=1, count=3)
    pair.assign(0, 1, 2)
    assert pair.numbers() == ([0, 1, 2], []) or len(pair.follower.sent) == 1
    pair.exchange(2)
    assert all(pair.is_same(number) for number in range(3))
    assert len(pair.follower.sent) == 1


def test_requests_leave_at_the_tick_behind_the_assignments():
    pair = Pair(count=2)
    assert pair.fetchers.next_ms() is None
    for number in (0, 1):
        pair.fetchers.assign(key(number), NAME, 1, 1)
    assert (pair.follower.sent, pair.fetchers.next_ms()) == ([], 0)
    pair.fetchers.tick()
    assert pair.numbers() == ([0, 1], [])
    assert pair.fetchers.next_ms() is None
    pair.fetchers.tick()
    assert len(pair.follower.sent) == 1


# --- sessions


def test_a_session_names_what_changes_alone():
    pair = Pair(records=1, count=2)
    pair.assign(0, 1)
    pair.exchange()
    assert pair.numbers() == ([0, 1], [])  # from other offsets
    pair.exchange()
    assert pair.numbers() == ([], [])
    pair.append(1, 1)
    pair.exchange()
    assert pair.numbers() == ([1], [])
    epochs = [request.session_epoch for request in pair.leader.requests]
    assert epochs == [0, 1, 2]
    assert pair.requested().session_id == pair.leader.requests[1].session_id > 0


def test_a_partition_that_is_removed_is_forgotten_and_one_that_comes_is_added():
    pair = Pair(count=3)
    pair.assign(0, 1)
    pair.exchange()
    pair.fetchers.remove(key(0))
    pair.fetchers.assign(key(2), NAME, 1, 1)
    pair.exchange()
    assert pair.numbers() == ([2], [0])
    assert pair.fetchers._assigned.keys() == {key(1), key(2)}


def test_without_a_session_every_request_is_full():
    pair = Pair(count=2, slots=0)
    pair.assign(0, 1)
    pair.exchange()
    assert pair.numbers() == ([0, 1], [])
    assert (pair.requested().session_id, pair.requested().session_epoch) == (0, 0)


def test_a_session_that_the_leader_lost_begins_anew_at_once():
    pair = Pair(records=1)
    pair.assign()
    pair.exchange()
    pair.leader.forget_sessions()
    pair.exchange()
    assert (pair.requested().session_id, pair.requested().session_epoch) == (0, 0)
    assert pair.numbers() == ([0], [])
    pair.exchange()
    assert pair.requested().session_epoch == 1


@pytest.mark.parametrize(
    ("code", "session_id", "waits"),
    [
        (ErrorCode.fetch_session_id_not_found, 0, False),
        (ErrorCode.invalid_fetch_session_epoch, 9, False),
        (ErrorCode.fetch_session_topic_id_error, 9, True),
        (ErrorCode.unknown_server_error, 9, True),
    ],
)
def test_an_error_of_the_session_is_followed_by_a_full_fetch(code, session_id, waits):
    """It closes the session which the leader may have."""
    pair = Pair()
    pair.assign()
    answered(pair, session_id=9)
    answered(pair, code=code)
    assert (pair.follower.sent == []) is waits
    if waits:
        pair.follower.advance(BACKOFF_MS)
    request = pair.requested()
    assert (request.session_id, request.session_epoch) == (session_id, 0)
    assert pair.numbers() == ([0], [])


@pytest.mark.parametrize("code", [ErrorCode.fetch_session_id_not_found, ErrorCode.none])
def test_a_full_fetch_that_is_refused_or_answered_in_part_waits(code):
    """Kafka repeats it at once, for ever."""
    pair = Pair()
    pair.assign()
    *_, callback = pair.follower.sent.pop()
    callback(ReplicaFetchResponse(code=code, session_id=3))
    assert pair.follower.sent == []
    assert pair.fetchers.next_ms() == BACKOFF_MS
    assert pair.follower.logged() == ["replica_fetch_refused"]
    pair.follower.advance(BACKOFF_MS)
    assert (pair.requested().session_id, pair.requested().session_epoch) == (0, 0)


def test_a_partition_that_was_not_asked_for_ends_the_session():
    pair = Pair(count=2)
    pair.assign()
    answered(pair, session_id=9)
    answered(pair, 1, session_id=9)
    assert (pair.requested().session_id, pair.requested().session_epoch) == (9, 0)


def test_a_session_that_the_leader_closes_is_left():
    pair = Pair()
    pair.assign()
    answered(pair, session_id=9)
    answered(pair, session_id=0)
    assert (pair.requested().session_id, pair.requested().session_epoch) == (0, 0)


# --- errors and stale answers


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.unknown_leader_epoch,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
        ErrorCode.kafka_storage_error,
        ErrorCode.unknown_server_error,
    ],
)
def test_an_error_of_a_partition_delays_it_alone(code):
    pair = Pair(records=1, count=2)
    pair.assign(0, 1)
    pair.exchange(2)
    with_error(pair, code)
    assert pair.numbers() == ([], [0])
    pair.exchange()
    pair.follower.clock.now_ms += BACKOFF_MS - 1
    pair.exchange()
    assert pair.numbers() == ([], [])
    pair.follower.clock.now_ms += 1
    pair.exchange()
    assert pair.numbers() == ([0], [])
    pair.append(1)
    pair.exchange()
    assert pair.is_same()


def test_a_fenced_partition_waits_for_metadata():
    pair = Pair(count=2)
    pair.assign(0, 1)
    pair.exchange()
    with_error(pair, ErrorCode.fenced_leader_epoch)
    assert list(pair.fetchers.failed) == [key(0)]
    line = pair.follower.effects[-1]
    assert (line.event, line.level) == ("replica_failed", LogLevel.INFO), "every election has some"
    assert pair.numbers() == ([], [0])
    pair.followed[key()].make_follower(registration(epoch=2), 0)
    pair.led[key()].make_leader(registration(epoch=2), 0)
    pair.fetchers.assign(key(), NAME, 1, 2)
    assert pair.fetchers.failed == {}
    pair.exchange()
    assert pair.numbers() == ([0], [])


def test_a_partition_that_failed_is_forgotten_when_it_is_removed():
    pair = Pair()
    pair.assign()
    with_error(pair, ErrorCode.fenced_leader_epoch)
    pair.fetchers.remove(key())
    assert pair.fetchers.failed == {}


def test_without_a_response_all_partitions_wait():
    pair = Pair(records=1, count=2)
    pair.assign(0, 1)
    pair.exchange()
    session_id = pair.requested().session_id
    pair.lose()
    assert (pair.follower.sent, pair.fetchers.next_ms()) == ([], BACKOFF_MS)
    pair.follower.advance(BACKOFF_MS - 1)
    assert pair.follower.sent == []
    pair.follower.advance(1)
    assert (pair.requested().session_id, pair.requested().session_epoch) == (session_id, 0)
    pair.append(1)
    pair.exchange()
    assert pair.is_same()


def test_a_delay_is_not_prolonged_by_another_error():
    pair = Pair(count=2)
    pair.assign(0, 1)
    pair.exchange()
    with_error(pair, ErrorCode.unknown_topic_id)
    pair.follower.clock.now_ms += 400
    pair.lose()
    assert pair.fetchers.next_ms() == BACKOFF_MS
    pair.follower.advance(600)
    assert pair.numbers() == ([0], [])


def test_an_answer_for_a_partition_that_was_removed_is_ignored():
    pair = Pair(records=1, count=2)
    pair.assign(0, 1)
    pair.fetchers.remove(key(0))
    pair.exchange()
    assert (pair.bytes_of(pair.followed, 0), pair.is_same(1)) == (b"", True)
    assert pair.follower.took == [(key(1), False)]


def test_an_answer_of_an_epoch_before_is_ignored():
    pair = Pair(records=1)
    pair.assign()
    pair.followed[key()].make_follower(registration(epoch=2), 0)
    pair.fetchers.assign(key(), NAME, 1, 2)
    pair.exchange()
    assert pair.bytes_of(pair.followed) == b""
    pair.led[key()].make_leader(registration(epoch=2), 0)
    pair.exchange()
    assert pair.is_same()


def test_an_answer_for_another_offset_is_ignored():
    """The partition was removed, appended to, and assigned again in the same epoch."""
    pair = Pair(records=2)
    pair.assign()
    pair.fetchers.remove(key())
    pair.followed[key()].log.append_as_follower(memoryview(pair.bytes_of(pair.led)), 1, WALL_MS)
    pair.fetchers.assign(key(), NAME, 1, 1)
    pair.exchange()
    assert (pair.follower.took, pair.fetchers.failed) == ([], {})
    pair.exchange()
    assert pair.is_same()


def test_an_answer_for_a_partition_that_is_delayed_is_ignored():
    pair = Pair(records=1, count=2)
    pair.assign(0, 1)
    sent = pair.follower.sent[0]
    with_two = pair.leader.answer(18, FETCH, sent[3])
    pair.lose()
    pair.fetchers.remove(key(1))
    pair.fetchers.assign(key(1), NAME, 1, 1)
    pair.fetchers.tick()
    assert pair.numbers() == ([1], [])
    pair.follower.respond(pair.follower.sent.pop(), with_two)
    assert pair.follower.took == []


def test_assigning_again_in_the_same_epoch_changes_nothing():
    pair = Pair(slots=0, records=1)
    pair.assign()
    pair.exchange()
    with_error(pair, ErrorCode.unknown_topic_id)
    pair.assign()
    assert (pair.follower.sent, pair.fetchers.next_ms()) == ([], BACKOFF_MS)
    assert pair.fetchers.lag(key()) == 0


def test_a_partition_moves_to_another_leader():
    pair = Pair()
    pair.assign()
    pair.followed[key()].make_follower(registration(3, epoch=2), 0)
    pair.fetchers.assign(key(), NAME, 3, 2)
    pair.fetchers.tick()
    assert [sent[0] for sent in pair.follower.sent] == [1, 3]
    pair.exchange()
    assert len(pair.follower.sent) == 1
    assert list(pair.fetchers._fetchers) == [(3, 0)]


@pytest.mark.parametrize("answers", [False, True])
def test_a_fetcher_without_partitions_ends(answers):
    pair = Pair(count=2)
    pair.assign(0, 1)
    remove_all(pair.fetchers)
    assert len(pair.fetchers._fetchers) == 1  # its request is in flight
    pair.exchange() if answers else pair.lose()
    assert (pair.fetchers._fetchers, pair.follower.sent) == ({}, [])
    assert pair.fetchers.next_ms() is None


# --- what cannot be replicated


def test_a_partition_without_a_log_fails():
    pair = Pair()
    pair.followed[key()].mark_offline()
    pair.assign()
    assert (list(pair.fetchers.failed), pair.follower.sent) == ([key()], [])


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_partition_whose_log_goes_fails(is_gone):
    for is_delayed in (False, True):
        pair = Pair(records=1)
        pair.assign()
        if is_gone:
            del pair.followed[key()]
        else:
            pair.followed[key()].mark_offline()
        pair.lose() if is_delayed else pair.exchange()
        pair.follower.advance(BACKOFF_MS)
        assert list(pair.fetchers.failed) == [key()], is_delayed
        assert pair.follower.disk_failures == []


def test_a_log_that_ends_elsewhere_fails():
    pair = Pair(records=2)
    pair.assign()
    data = pair.bytes_of(pair.led)
    pair.followed[key()].log.append_as_follower(memoryview(data), 1, WALL_MS)
    pair.exchange()
    assert pair.fetchers.failed == {key(): "its log ends at 2"}


def test_records_below_the_end_of_the_log_fail():
    pair = Pair(records=2)
    pair.assign()
    pair.exchange()
    answered(pair, records=memoryview(batches(1)))
    assert list(pair.fetchers.failed) == [key()]
    assert pair.follower.disk_failures == []


def test_a_partition_that_is_led_here_now_fails():
    pair = Pair(records=1)
    pair.assign()
    pair.followed[key()].make_leader(registration(2, epoch=2), 0)
    pair.exchange()
    assert pair.fetchers.failed == {key(): "not_leader_or_follower"}


@pytest.mark.parametrize(
    "error", [OSError("read-only"), OutOfSpaceError("/d"), FsyncError("/d", "EIO")]
)
def test_an_error_of_the_disk_fails_the_partition_and_is_told(error):
    pair = Pair(records=1, count=2)
    pair.assign(0, 1)
    partition = pair.followed[key()]
    partition.log = FailingLog(partition.log, error)
    pair.exchange()
    assert list(pair.fetchers.failed) == [key()]
    assert pair.follower.disk_failures == [(key(), error)]
    assert pair.is_same(1)


def test_the_partitions_of_a_failed_disk_may_be_removed_when_it_is_told():
    pair = Pair(records=1, count=3)
    pair.assign(0, 1, 2)
    partition = pair.followed[key(1)]
    partition.log = FailingLog(partition.log, OSError("read-only"))
    pair.follower.on_disk_failure = lambda: remove_all(pair.fetchers)
    pair.exchange()
    assert (pair.fetchers.failed, pair.fetchers._fetchers) == ({}, {})
    assert (pair.is_same(0), pair.is_same(2)) == (True, False)
