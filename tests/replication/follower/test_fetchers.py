"""The partitions of a leader are shared by its fetchers, each with its own requests."""

import pytest

from replication.follower.fetchers import fetcher_number
from tests.replication.fetching import BACKOFF_MS, NAME, Pair, answered, key, with_error
from tests.replication.partitions import registration
from wire.errors import ErrorCode
from wire.messages.replica_fetch import ReplicaFetchedPartition, ReplicaFetchResponse


@pytest.mark.parametrize(
    ("topic", "partition", "count", "number"),
    [
        ("", 5, 3, 2),
        ("a", 0, 1000, 7),  # 31 * 97
        ("ab", 2, 1000, 257),  # 31 * (31 * 97 + 98) + 2
        ("hello", 0, 4, 2),  # 31 * 99162322 is -1220935314 as an int
        ("hello", 0, 1 << 40, 1220935314),
        ("", 1 << 31, 7, 0),  # the smallest int has no absolute value
        ("", (1 << 31) - 1, 1 << 40, (1 << 31) - 1),
        ("polygenelubricants", 0, 1 << 40, 0),  # its hash is the smallest int; 31 times that too
    ],
)
def test_the_number_of_a_fetcher_is_kafkas(topic, partition, count, number):
    assert fetcher_number(topic, partition, count) == number


def test_each_fetcher_has_a_request_of_its_own():
    pair = Pair(records=1, count=4, fetchers=2)
    pair.assign(0, 1, 2, 3)
    assert sorted(sent[:2] for sent in pair.follower.sent) == [(1, 0), (1, 1)]
    pair.exchange(2)
    assert [pair.is_same(number) for number in range(4)] == [True] * 4
    assert [pair.fetchers.lag(key(number)) for number in range(4)] == [0] * 4


def test_the_first_deadline_of_all_fetchers_is_told():
    pair = Pair(count=2, fetchers=2)
    pair.assign(0, 1)
    pair.follower.clock.now_ms = 100
    pair.lose()
    assert pair.fetchers.next_ms() == 1100
    pair.follower.clock.now_ms = 50 + 100
    pair.lose()
    assert pair.fetchers.next_ms() == 1100
    pair.follower.advance(950)
    assert len(pair.follower.sent) == 1
    assert pair.fetchers.next_ms() == 1150


def test_held_fetchers_send_nothing_and_then_all_at_once():
    pair = Pair(count=2)
    follower, fetchers = pair.follower, pair.fetchers
    fetchers.hold(is_wanted=True)
    pair.assign(0)
    fetchers.tick()
    assert (follower.sent, fetchers.next_ms()) == ([], None)
    fetchers.hold(is_wanted=False)
    assert fetchers.next_ms() == follower.clock.now_ms
    pair.assign(1)
    assert pair.numbers() == ([0, 1], [])


def test_a_leader_is_not_this_broker():
    pair = Pair()
    with pytest.raises(AssertionError, match="is led here"):
        pair.fetchers.assign(key(), NAME, 2, 1)


def test_a_partition_that_is_delayed_is_fetched_at_once_in_another_epoch():
    """The delay of the epoch before is over with it."""
    pair = Pair(records=1, slots=0)
    pair.assign()
    with_error(pair, ErrorCode.unknown_topic_id)
    pair.led[key()].make_leader(registration(epoch=2), 0)
    pair.followed[key()].make_follower(registration(epoch=2), 0)
    pair.assign(epoch=2)
    pair.follower.advance(BACKOFF_MS)
    pair.exchange()
    assert pair.is_same()
    (row,) = pair.requested().topics[0].partitions
    assert row.current_leader_epoch == 2


def test_a_partition_that_is_removed_while_it_is_delayed_does_not_come_back():
    pair = Pair(count=2)
    pair.assign(0, 1)
    pair.exchange()
    with_error(pair, ErrorCode.unknown_topic_id)
    pair.fetchers.remove(key(0))
    pair.exchange()
    pair.follower.clock.now_ms += BACKOFF_MS
    pair.exchange()
    assert pair.numbers() == ([], [])


def test_a_fetcher_whose_partitions_all_wait_forgets_them_once():
    pair = Pair()
    pair.assign()
    pair.exchange()
    with_error(pair, ErrorCode.unknown_topic_id)
    assert pair.numbers() == ([], [0])
    pair.exchange()
    assert pair.follower.sent == []
    pair.fetchers.remove(key())
    assert pair.fetchers._fetchers == {}


def test_a_partition_that_got_records_comes_behind_the_others():
    pair = Pair(count=2, slots=0)
    pair.append(1, 0)
    pair.assign(0, 1)
    pair.exchange()
    assert pair.numbers() == ([1, 0], [])


def test_a_partition_that_moves_has_not_failed_at_its_former_leader():
    pair = Pair(records=1)
    pair.assign()
    pair.followed[key()].make_follower(registration(3, epoch=2), 0)
    pair.fetchers.assign(key(), NAME, 3, 2)
    pair.exchange()
    assert pair.fetchers.failed == {}


def test_a_partition_that_is_not_here_fails_with_a_line_in_the_log():
    pair = Pair()
    del pair.followed[key()]
    pair.assign()
    assert pair.fetchers.failed == {key(): "it has no log"}
    assert pair.follower.logged() == ["replica_failed"]


def test_an_empty_session_that_the_leader_keeps_is_not_asked():
    pair = Pair()
    pair.assign()
    answered(pair, session_id=9)
    refused = ReplicaFetchedPartition(
        key=key(), code=ErrorCode.unknown_topic_id, high_watermark=-1, log_start_offset=-1
    )
    *_, callback = pair.follower.sent.pop()
    callback(ReplicaFetchResponse(session_id=9, partitions=(refused,)))
    assert pair.numbers() == ([], [0])
    *_, callback = pair.follower.sent.pop()
    callback(ReplicaFetchResponse(session_id=9))
    assert pair.follower.sent == []


def test_partitions_move_to_the_fetchers_of_another_count():
    pair = Pair(records=1, count=4)
    pair.assign(0, 1, 2, 3)
    pair.exchange(2)
    assert set(pair.fetchers._fetchers) == {(1, 0)}
    pair.fetchers.count = 2
    numbers = [fetcher_number(NAME, number, 2) for number in range(4)]
    assert sorted(set(numbers)) == [0, 1]
    for number in range(4):
        pair.fetchers.move(key(number), NAME, 1)
    assert [pair.fetchers._assigned[key(number)] for number in range(4)] == [
        (1, number) for number in numbers
    ]
    for number in range(4):
        pair.append(1, number)
    pair.follower.advance(0)
    pair.exchange(3)
    assert [pair.is_same(number) for number in range(4)] == [True] * 4
    pair.fetchers.count = 1
    for number in range(4):
        pair.fetchers.move(key(number), NAME, 1)
    pair.exchange(3)
    assert set(pair.fetchers._fetchers) == {(1, 0)}


def test_what_is_not_fetched_or_stays_where_it_is_does_not_move():
    pair = Pair(records=1, count=3)
    pair.assign(0, 1)
    pair.exchange()
    number = next(each for each in (0, 1) if fetcher_number(NAME, each, 2) == 1)
    pair.fetchers.count = 2
    pair.fetchers.failed[key(number)] = "damaged"
    fetchers, stays = dict(pair.fetchers._fetchers), key(1 - number)
    assert pair.fetchers.lag(stays) == 0
    for each in range(3):
        pair.fetchers.move(key(each), NAME, 1)
    assert pair.fetchers._assigned == {key(0): (1, 0), key(1): (1, 0)}
    assert (pair.fetchers._fetchers, pair.fetchers.lag(stays)) == (fetchers, 0)
    assert pair.fetchers.failed == {key(number): "damaged"}
