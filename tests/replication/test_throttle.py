"""Replication throttles: configs of the image, the quota, the sides of leader and follower."""

from math import inf

import pytest

from network.clock import Clock, Now
from network.sampled_rate import QuotaWindow
from replication.leader.fetching import close_records
from replication.throttle import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    ReplicationQuota,
    ReplicationQuotas,
    partitions_of,
)
from tests.broker.metadata_log import MetadataLog
from tests.replication.fetching import BACKOFF_MS, Pair, key, with_error
from tests.replication.managers import T0, T1, Managed, waiting
from tests.replication.partitions import from_follower
from wire.errors import ErrorCode

TOPIC, BROKER = 2, 4
TOPIC_ID = b"t" * 16

# --- the quota


def quota():
    clock = Clock(Now(0, 0))
    return ReplicationQuota(QuotaWindow(3, 1), clock), clock


def test_the_rate_is_of_the_time_since_the_oldest_window():
    made, clock = quota()
    made.bound = 100
    made.record(100)
    assert not made.is_exceeded
    made.record(1)
    assert (made.is_exceeded, made.per_second) == (True, 101)
    clock.set(Now(1_010, 0))
    assert not made.is_exceeded


def test_a_quota_without_a_bound_is_never_exceeded():
    made, _ = quota()
    made.record(1 << 60)
    assert not made.is_exceeded


def test_partitions_are_throttled_by_topic():
    made, _ = quota()
    assert (made.is_used, made.is_throttled((TOPIC_ID, 0))) == (False, False)
    made.mark(TOPIC_ID, frozenset({1}))
    assert made.is_used
    assert [made.is_throttled((TOPIC_ID, n)) for n in (0, 1)] == [False, True]
    assert not made.is_throttled((b"o" * 16, 1))
    made.mark(TOPIC_ID, None)
    assert made.is_throttled((TOPIC_ID, 7))
    made.mark(TOPIC_ID, frozenset())
    made.mark(TOPIC_ID, frozenset())
    assert not made.is_used


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, frozenset()),
        ("", frozenset()),
        ("*", None),
        (" * ", None),
        ("0:1,1:2,12:1", frozenset({0, 12})),
        ("0:11", frozenset()),
    ],
)
def test_the_replicas_of_this_broker_are_meant(text, found):
    assert partitions_of(text, 1) == found


# --- the image


class Published:
    """The quotas of broker 1 with what was published."""

    def __init__(self):
        self.quotas = ReplicationQuotas(1, QuotaWindow(), Clock(Now(0, 0)))
        self.log = MetadataLog()
        self.log.topic("a", partitions=4)

    def set(self, kind, name, config, value):
        self.log.set(kind, name, config, value)
        self.publish()

    def publish(self):
        self.quotas.publish(*self.log.take())

    def throttled(self, name="a"):
        topic_id = {"a": b"a" * 16, "b": b"b" * 16}[name]
        return tuple(
            [n for n in range(4) if quota.is_throttled((topic_id, n))]
            for quota in (self.quotas.leader, self.quotas.follower)
        )


def test_each_side_has_its_replicas():
    published = Published()
    published.set(TOPIC, "a", LEADER_REPLICAS, "0:1,1:2")
    assert published.throttled() == ([0], [])
    published.set(TOPIC, "a", FOLLOWER_REPLICAS, "*")
    assert published.throttled() == ([0], [0, 1, 2, 3])
    published.set(TOPIC, "a", LEADER_REPLICAS, None)
    assert published.throttled() == ([], [0, 1, 2, 3])
    published.set(TOPIC, "a", FOLLOWER_REPLICAS, "2:1")
    assert published.throttled() == ([], [2])


def test_a_topic_that_is_deleted_is_throttled_no_more():
    published = Published()
    published.set(TOPIC, "a", LEADER_REPLICAS, "*")
    published.set(TOPIC, "a", FOLLOWER_REPLICAS, "*")
    published.log.remove()
    published.publish()
    assert published.throttled() == ([], [])
    assert not published.quotas.leader.is_used
    assert not published.quotas.follower.is_used


def test_configs_of_a_topic_that_does_not_exist_are_ignored():
    published = Published()
    published.set(TOPIC, "b", LEADER_REPLICAS, "*")
    assert published.throttled("b") == ([], [])


def test_the_rate_of_this_broker_counts_then_that_of_all():
    published = Published()
    quotas = published.quotas
    assert (quotas.leader.bound, quotas.follower.bound) == (inf, inf)
    published.set(BROKER, "", LEADER_RATE, "10")
    published.set(BROKER, "2", LEADER_RATE, "11")
    assert (quotas.leader.bound, quotas.follower.bound) == (10, inf)
    published.set(BROKER, "1", LEADER_RATE, "20")
    published.set(BROKER, "1", FOLLOWER_RATE, "30")
    assert (quotas.leader.bound, quotas.follower.bound) == (20, 30)
    published.set(BROKER, "1", LEADER_RATE, str(2**63 - 1))
    published.set(BROKER, "1", FOLLOWER_RATE, None)
    assert (quotas.leader.bound, quotas.follower.bound) == (inf, inf)


# --- the leader


def managed(**fields):
    """Broker 1 leads two partitions, with follower 2 out of the ISR of both."""
    made = Managed()
    for each in (T0, T1):
        made.create(each, **{"isr": (1,), "replicas": (1, 2)} | fields)
        made.append([each])
    made.answers.clear()
    made.quota.bound = 100
    return made


def sizes(made, *keys, **fields):
    """Bytes of the records that follower 2 is answered, by partition."""
    (reads,) = made.fetch(*((each, 0) for each in keys), params=from_follower(**fields))
    close_records(reads)
    assert [read.row.code for read in reads] == [ErrorCode.none] * len(keys)
    assert [read.row.records_bytes for read in reads] == [
        0 if read.records is None else read.records.size_bytes for read in reads
    ]
    return [read.row.records_bytes for read in reads]


def test_a_used_up_quota_leaves_out_the_records_of_throttled_partitions():
    made = managed()
    made.quota.mark(T0[0], frozenset({0}))
    before = made.handles(T0)
    (size, other) = sizes(made, T0, T1)
    assert (size > 0, other > 0) == (True, True)
    made.quota.record(101)
    assert sizes(made, T0, T1) == [0, other]
    assert made.handles(T0) == before
    made.advance(2_000)
    assert sizes(made, T0, T1) == [size, other]


def test_followers_in_sync_and_consumers_are_not_throttled():
    made = managed(isr=(1, 2))
    made.quota.mark(T0[0], None)
    made.quota.record(1_000)
    assert sizes(made, T0)[0] > 0
    made = managed()
    made.quota.mark(T0[0], None)
    made.quota.record(1_000)
    (reads,) = made.fetch((T0, 0))
    close_records(reads)
    assert reads[0].row.records_bytes > 0


def test_throttled_partitions_leave_room_for_others():
    made = managed()
    made.quota.mark(T0[0], frozenset({0}))
    made.quota.record(1_000)
    (reads,) = made.fetch((T0, 0), (T1, 0), params=from_follower(), max_bytes=1)
    close_records(reads)
    assert [read.row.records_bytes > 0 for read in reads] == [False, True]


def test_a_throttled_fetch_waits():
    made = managed()
    made.quota.mark(T0[0], None)
    made.quota.record(1_000)
    assert made.fetch((T0, 0), params=waiting(from_follower())) == []
    made.append([T0])
    made.answers.clear()
    made.advance(500)
    (reads,) = made.taken()
    assert reads[0].row.records_bytes == 0


# --- the follower


def throttled_pair(*numbers, **config):
    """A follower of two partitions, of which these are throttled."""
    pair = Pair(records=3, count=2, **config)
    pair.follower.quota.bound = 100
    pair.follower.quota.mark(key()[0], frozenset(numbers))
    return pair


def test_bytes_of_throttled_partitions_count_whether_they_lag_or_not():
    pair = throttled_pair(1)
    pair.assign(0, 1)
    pair.exchange()
    assert pair.follower.quota.per_second == pair.led[key(1)].log.log.size_bytes


def test_a_used_up_quota_leaves_partitions_that_lag_out_of_the_next_request():
    pair = throttled_pair(1)
    pair.follower.quota.record(101)
    pair.assign(0, 1)
    assert pair.numbers() == ([0], [])
    pair.exchange()
    assert pair.numbers()[0] == [0]
    pair.follower.clock.now_ms += 2_000
    pair.exchange()
    assert pair.numbers() == ([1], [])
    pair.exchange()
    assert pair.is_same()


def test_partitions_that_do_not_lag_are_fetched_all_the_same():
    pair = throttled_pair(0)
    pair.assign(0)
    pair.exchange(2)
    assert pair.fetchers.lag(key()) == 0
    pair.follower.quota.record(1_000)
    pair.append(1)
    pair.exchange()
    assert pair.is_same()


def test_a_partition_that_was_fetched_is_forgotten_while_the_quota_is_used_up():
    pair = throttled_pair(0)
    pair.assign(0)
    pair.leader.partitions[key()].log.set_high_watermark(3)
    pair.exchange()
    assert pair.fetchers.lag(key()) == 0
    (sent,) = pair.follower.sent
    assert sent is not None


def test_without_a_partition_to_fetch_the_quota_is_looked_at_after_the_back_off():
    pair = throttled_pair(0)
    pair.follower.quota.record(250)
    pair.assign(0)
    assert pair.follower.sent == []
    assert pair.fetchers.next_ms() == BACKOFF_MS
    pair.follower.advance(BACKOFF_MS)
    assert pair.follower.sent == []
    assert pair.fetchers.next_ms() == 2 * BACKOFF_MS
    pair.follower.advance(2_000)
    assert pair.numbers() == ([0], [])
    assert pair.fetchers.next_ms() is None


def test_a_lost_request_delays_throttled_partitions_too():
    pair = throttled_pair(1)
    pair.follower.quota.record(1_000)
    pair.assign(0, 1)
    pair.lose()
    pair.follower.quota.bound = inf
    pair.fetchers.tick()
    assert pair.follower.sent == []
    assert pair.fetchers.next_ms() == BACKOFF_MS
    pair.follower.advance(BACKOFF_MS)
    assert pair.numbers() == ([0, 1], [])


def test_the_quota_is_looked_at_before_the_back_off_if_a_delay_ends():
    pair = throttled_pair(1)
    pair.follower.quota.record(1_000)
    pair.assign(0, 1)
    with_error(pair, ErrorCode.unknown_topic_or_partition)
    pair.exchange()
    assert pair.fetchers.next_ms() == BACKOFF_MS
    pair.follower.advance(BACKOFF_MS - 1)
    assert pair.fetchers.next_ms() == BACKOFF_MS
    pair.follower.quota.bound = inf
    pair.follower.advance(1)
    pair.exchange()
    assert pair.is_same()
    pair.lose()
    assert pair.fetchers.next_ms() == 2 * BACKOFF_MS


def test_a_throttled_partition_that_is_removed_is_not_taken_up_again():
    pair = throttled_pair(0, 1)
    pair.follower.quota.record(1_000)
    pair.assign(0, 1)
    pair.fetchers.remove(key(0))
    pair.follower.quota.bound = inf
    pair.follower.advance(BACKOFF_MS)
    assert pair.numbers() == ([1], [])


def test_a_partition_whose_throttle_is_removed_is_fetched_again():
    pair = throttled_pair(0, 1)
    pair.follower.quota.record(1_000_000)
    pair.assign(0, 1)
    pair.follower.quota.mark(key()[0], frozenset({1}))
    pair.follower.advance(BACKOFF_MS)
    assert pair.numbers() == ([0], [])
