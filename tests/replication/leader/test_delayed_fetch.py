"""The condition that a Fetch waits for."""

from dataclasses import dataclass, field

import pytest

from replication.leader.delayed_fetch import (
    DelayedFetch,
    FetchStatus,
    fetchable_bytes,
    is_answered_at_once,
)
from replication.leader.fetch_params import FetchParams
from replication.leader.fetch_session import FetchPartition
from replication.leader.fetching import PartitionRead, WantedPartition
from replication.log_offsets import LogOffsetMetadata
from storage.logs.unified_log import FetchIsolation
from wire.errors import ErrorCode
from wire.messages.fetch_response import FetchedPartition
from wire.types import OffsetAndEpoch

A, B = (bytes(16), 0), (bytes(16), 1)
NOT_LEADER = ErrorCode.not_leader_or_follower


def at(offset, position=None, segment=0):
    return LogOffsetMetadata(offset, None if position is None else (segment, position))


def consumer(**fields):
    return FetchParams(
        **{
            "replica_id": None,
            "max_wait_ms": 500,
            "min_bytes": 1,
            "isolation": FetchIsolation.HIGH_WATERMARK,
            "is_leader_only": True,
            **fields,
        }
    )


def follower(**fields):
    return consumer(replica_id=7, isolation=FetchIsolation.LOG_END, **fields)


def parked(start, **fields):
    offset = start.offset if start else 10
    return FetchStatus(
        start, FetchPartition(**{"fetch_offset": offset, "max_bytes": 1_000, **fields})
    )


def read_to_end(key, start):
    request = FetchPartition(fetch_offset=start.offset, max_bytes=1_000)
    row = FetchedPartition(topic=key[0], partition=key[1])
    wanted = WantedPartition(key, key[0], request)
    return PartitionRead(wanted=wanted, row=row, start=start, is_at_end=True)


@dataclass
class Log:
    """A partition as a parked Fetch sees it; `asked` keeps what it was asked."""

    ends: tuple[LogOffsetMetadata, ...] | ErrorCode = (at(12, 300), at(11, 200), at(10, 100))
    """Log end, high watermark, last stable offset."""
    known: OffsetAndEpoch | ErrorCode | None = None
    last_epoch: int = 9
    asked: list = field(default_factory=list)

    def end(self, isolation, current_leader_epoch, *, is_leader_only):
        self.asked.append((current_leader_epoch, is_leader_only))
        if isinstance(self.ends, ErrorCode):
            return self.ends
        return self.ends[list(FetchIsolation).index(isolation)]

    def is_last_epoch(self, epoch):
        return epoch == self.last_epoch

    def end_of_epoch(self, current_leader_epoch, epoch, *, is_leader_only):
        assert not is_leader_only
        self.asked.append((current_leader_epoch, epoch))
        return self.known

    def grow(self, offset, position):
        self.ends = (at(offset, position),) * 3


def readable(params, log, status, *, is_throttled=False):
    return fetchable_bytes(params, log, status, is_throttled=is_throttled)


ROW = {"topic": bytes(16), "partition": 0}


@pytest.mark.parametrize(
    ("params", "rows", "is_answered"),
    [
        ({}, [{}], False),
        ({"max_wait_ms": 1}, [{}], False),
        ({"max_wait_ms": 0}, [{}], True),
        ({"max_wait_ms": -1}, [{}], True),
        ({}, [], True),
        ({"min_bytes": 30}, [{"records_bytes": 10}, {"records_bytes": 19}], False),
        ({"min_bytes": 30}, [{"records_bytes": 10}, {"records_bytes": 20}], True),
        ({"min_bytes": 0}, [{}], True),
        ({}, [{}, {"code": NOT_LEADER}], True),
        ({}, [{}, {"diverging_epoch": (0, 0)}], True),
        ({}, [{}, {"preferred_read_replica": 0}], True),
    ],
)
def test_when_a_fetch_is_answered_at_once(params, rows, is_answered):
    read = [FetchedPartition(**ROW, **row) for row in rows]
    assert is_answered_at_once(consumer(**params), read) is is_answered


@pytest.mark.parametrize(("before_bytes", "is_answered"), [(19, False), (20, True)])
def test_records_of_pieces_before_count_too(before_bytes, is_answered):
    read = [FetchedPartition(**ROW, records_bytes=10)]
    assert is_answered_at_once(consumer(min_bytes=30), read, before_bytes) is is_answered


@pytest.mark.parametrize(
    ("isolation", "bytes_readable"),
    [
        (FetchIsolation.LOG_END, 290),
        (FetchIsolation.HIGH_WATERMARK, 190),
        (FetchIsolation.TXN_COMMITTED, 90),
    ],
)
def test_bytes_count_up_to_the_end_that_may_be_read(isolation, bytes_readable):
    params, status = consumer(isolation=isolation), parked(at(9, 10))
    assert readable(params, Log(), status) == bytes_readable


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (parked(at(9, 10)), 190),
        (parked(at(9, 10), max_bytes=190), 190),
        (parked(at(9, 10), max_bytes=189), 189),
        (parked(at(10, 200)), 0),  # an empty stretch
        (parked(at(11, 200)), 0),
        (parked(at(11, 0, segment=-9)), 0),  # the end of the segment before, or its start
        (parked(at(12, 300)), None),  # the log was cut
        (parked(at(9, 10, segment=-9)), None),  # an older segment
        (parked(at(9, 10, segment=9)), None),  # cut, and grown again
        (parked(at(9, 201)), None),  # the same
        (parked(at(9)), 0),
        (parked(None), 0),
    ],
)
def test_bytes_that_a_consumer_could_read(status, expected):
    assert readable(consumer(), Log(), status) == expected


def test_bytes_to_an_end_without_a_place_are_unknown():
    log = Log((at(12), at(11), at(10)))
    assert readable(consumer(), log, parked(at(9, 10))) == 0


def test_a_fetch_offset_that_was_not_read_asks_nothing():
    log = Log()
    assert readable(consumer(), log, parked(None, last_fetched_epoch=3)) == 0
    assert log.asked == []
    assert readable(consumer(), NOT_LEADER, parked(None)) == 0


@pytest.mark.parametrize("is_leader_only", [False, True])
def test_the_log_is_asked_for_the_epoch_of_the_request(is_leader_only):
    log = Log()
    status = parked(at(9, 10), current_leader_epoch=4, last_fetched_epoch=3)
    readable(consumer(is_leader_only=is_leader_only), log, status)
    assert log.asked == [(4, is_leader_only), (4, 3)]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.kafka_storage_error,
        ErrorCode.fenced_leader_epoch,
    ],
)
def test_a_log_that_may_not_be_read_is_answered(code):
    assert readable(consumer(), code, parked(at(9, 10))) is None
    assert readable(consumer(), Log(code), parked(at(9, 10))) is None


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (OffsetAndEpoch(10, 3), 200),
        (OffsetAndEpoch(11, 3), 200),
        (OffsetAndEpoch(9, 3), None),  # the epoch ended before the fetch offset
        (OffsetAndEpoch(12, 2), None),  # the leader has no such epoch
        (None, None),
        (NOT_LEADER, None),
    ],
)
def test_a_follower_that_diverges_is_answered(known, expected):
    status = parked(at(10, 100), last_fetched_epoch=3)
    assert readable(follower(), Log(known=known), status) == expected
    at_end = parked(at(12, 300), last_fetched_epoch=3, fetch_offset=10)
    assert readable(follower(), Log(known=known), at_end) == (None if expected is None else 0)


def test_the_last_epoch_ends_with_the_log():
    log = Log(known=OffsetAndEpoch(9, 3), last_epoch=3)
    status = parked(at(10, 100), last_fetched_epoch=3)
    assert readable(follower(), log, status) == 200
    log.grow(9, 90)
    assert readable(follower(), log, status) is None, "it was cut"


def test_an_append_and_a_commit_are_news_to_those_who_read_so_far():
    """A follower reads to the log end, a consumer to the high watermark."""
    broker = Broker()
    copies, reads = (
        broker.fetch(params, at(11, 200), at(12, 300)) for params in (follower(), consumer())
    )
    held = {A: read_to_end(A, at(11, 200)), B: read_to_end(B, at(12, 300))}
    copies.add({}, held)
    assert not copies.try_complete((A, B))
    assert not copies.committed(A)
    assert copies.held == {B: held[B]}, "its row tells the high watermark"
    assert not reads.appended(A)
    broker.logs[A].grow(12, 300)
    assert not reads.appended(A)
    assert reads.committed(A)
    assert not copies.committed(A)
    assert copies.appended(A)


def test_what_is_held_is_looked_at_from_where_it_was_read_when_something_happens_to_it():
    broker = Broker()
    fetch = DelayedFetch(
        "request", follower(min_bytes=100), {}, broker.logs.get, broker.is_throttled
    )
    fetch.add({}, {A: read_to_end(A, at(12, 300)), B: read_to_end(B, at(12, 300))})
    assert not fetch.try_complete((A, B)), "they have just been read"
    broker.logs[A].grow(13, 399)
    assert not fetch.appended(A), "99 bytes"
    assert fetch.held.keys() == {B}
    broker.logs[A].grow(14, 400)
    assert fetch.appended(A)
    assert not fetch.committed(B), "a follower waits for records"
    assert not fetch.held
    broker.logs[B].grow(14, 400)
    assert fetch.appended(B)


def test_a_throttled_follower_reads_nothing():
    def of(status):
        return readable(follower(), Log(), status, is_throttled=True)

    assert of(parked(at(9, 10))) == 0
    assert of(parked(at(9, 10, segment=-9))) == 0
    assert of(parked(at(13, 310))) is None
    assert of(parked(at(9, 10), last_fetched_epoch=3)) is None


class Broker:
    """Two partitions; `throttled` are those that followers get nothing of."""

    def __init__(self):
        self.logs = {A: Log(), B: Log()}
        self.throttled = set()
        self.was_asked = []

    def fetch(self, params, start_of_a, start_of_b):
        statuses = {A: parked(start_of_a), B: parked(start_of_b)}
        return DelayedFetch("request", params, statuses, self.logs.get, self.is_throttled)

    def is_throttled(self, key, replica_id):
        assert replica_id == 7, "consumers have no replication quota"
        self.was_asked.append(key)
        return key in self.throttled


@pytest.mark.parametrize(("min_bytes", "is_complete"), [(380, True), (381, False)])
def test_the_bytes_of_all_partitions_count(min_bytes, is_complete):
    delayed = Broker().fetch(consumer(min_bytes=min_bytes), at(9, 10), at(9, 10))
    assert delayed.try_complete([A, B]) is is_complete
    assert (delayed.request, delayed.params.min_bytes) == ("request", min_bytes)


@pytest.mark.parametrize("refused", [A, B])
def test_one_partition_is_reason_enough_to_answer(refused):
    broker = Broker()
    delayed = broker.fetch(consumer(), at(11, 200), at(11, 200))
    assert not delayed.try_complete([A, B])
    broker.logs[refused] = NOT_LEADER
    assert delayed.try_complete([refused])


def test_a_parked_fetch_completes_when_the_logs_grow():
    """Bytes of a partition count as they were when it was looked at last."""
    broker = Broker()
    delayed = broker.fetch(follower(min_bytes=150), at(12, 300), at(12, 300))
    for key, end, is_complete in (
        (A, (12, 300), False),
        (A, (13, 399), False),
        (A, (13, 399), False),
        (B, (13, 350), False),
        (A, (12, 300), False),  # cut, and nothing is there any more
        (B, (14, 449), False),
        (A, (13, 301), True),
    ):
        broker.logs[key].grow(*end)
        assert delayed.try_complete([key]) is is_complete


def test_only_the_partitions_that_changed_are_looked_at():
    broker = Broker()
    delayed = broker.fetch(consumer(), at(11, 200), at(11, 200))
    assert not delayed.try_complete([A, B])
    for _ in range(3):
        assert not delayed.try_complete([B])
    assert [len(broker.logs[key].asked) for key in (A, B)] == [1, 4]
    broker.logs[A].grow(13, 400)  # without an event of A
    assert not delayed.try_complete([B])
    assert delayed.try_complete([A])


def test_what_a_quota_held_back_counts_when_it_has_room():
    """Without an event of these partitions: time has passed."""
    broker = Broker()
    broker.throttled = {A, B}
    delayed = broker.fetch(follower(min_bytes=300), at(9, 10), at(11, 200))
    assert not delayed.try_complete([A, B])
    assert delayed.readable_bytes == 0
    asked = len(broker.was_asked)
    assert not delayed.try_complete([B])
    assert len(broker.was_asked) == asked + 2, "of the event's, and of one that stands for all"
    broker.throttled = {B}
    assert not delayed.try_complete([B])
    assert delayed.readable_bytes == 290
    asked = len(broker.was_asked)
    assert not delayed.try_complete([B])
    assert broker.was_asked[asked:] == [B, B], "A is no longer among them"
    broker.throttled = set()
    assert delayed.try_complete([A])
    assert delayed.readable_bytes == 390


def test_a_follower_that_is_throttled_later_reads_nothing_from_then_on():
    broker = Broker()
    delayed = broker.fetch(follower(min_bytes=300), at(9, 10), at(12, 300))
    assert not delayed.try_complete([A, B])
    broker.throttled = {A}
    assert not delayed.try_complete([A])
    assert delayed.readable_bytes == 0
    broker.throttled = set()
    broker.logs[A] = NOT_LEADER
    assert delayed.try_complete([B]), "A is looked at again"


def test_a_throttled_follower_is_tried_when_the_high_watermark_rises_too():
    broker = Broker()
    broker.throttled = {A}
    delayed = broker.fetch(follower(), at(9, 10), at(12, 300))
    assert not delayed.try_complete([A, B])
    assert not delayed.committed(B)
    broker.throttled = set()
    assert delayed.committed(B)
