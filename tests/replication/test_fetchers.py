"""The partitions of a leader are shared by its fetchers, each with its own requests."""

import pytest

from replication.fetchers import fetcher_number
from tests.replication.fetching import NAME, Pair, key


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
    assert pair.fetchers.lags() == dict.fromkeys(map(key, range(4)), 0)


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


def test_a_leader_is_not_this_broker():
    pair = Pair()
    with pytest.raises(AssertionError, match="is led here"):
        pair.fetchers.assign(key(), NAME, 2, 1)
