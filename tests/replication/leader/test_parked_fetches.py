"""Fetches of many partitions that wait: only those to which something happened are read again."""

import msgspec
import pytest

from replication.leader.fetches import _is_at_end
from replication.leader.fetching import PartitionRead
from replication.log_offsets import LogOffsetMetadata
from replication.partition import Partition
from storage.logs.unified_log import FetchIsolation
from tests.replication.managers import NONE, T0, T1, Managed, codes, offsets, waiting, want
from tests.replication.partitions import CONSUMER, from_follower, registration
from wire.errors import ErrorCode
from wire.messages.fetch_response import FetchedPartition


class Counted(Partition):
    reads = looks = 0

    def fetch(self, *arguments, **named):
        self.reads += 1
        return super().fetch(*arguments, **named)

    def end(self, *arguments, **named):
        self.looks += 1
        return super().end(*arguments, **named)


def followed():
    """Two partitions of a follower, which has told where its logs start."""
    managed = Managed()
    partitions = [managed.create(key, isr=(1, 2), replicas=(1, 2)) for key in (T0, T1)]
    managed.fetch((T0, 0), (T1, 0), params=waiting(from_follower(), max_wait_ms=0))
    for partition in partitions:
        partition.__class__ = Counted
    return managed, *partitions


def test_a_partition_without_news_is_read_and_looked_at_once():
    managed, first, second = followed()
    at_end = waiting(from_follower())
    assert managed.fetch((T0, 0), (T1, 0), params=at_end) == []
    assert (first.looks, second.looks) == (0, 0), "the read has said that nothing is there"
    _, reads = managed.append([T1])
    assert [read.wanted.key for read in reads] == [T0, T1]
    assert [offsets(read) for read in reads] == [[], [0]]
    assert (first.reads, second.reads) == (1, 2)
    assert (first.looks, second.looks) == (0, 1)


def test_a_consumer_s_partition_is_looked_at_when_something_was_committed():
    managed, first, second = followed()
    assert managed.fetch((T0, 0), (T1, 0), params=waiting()) == []
    assert (first.looks, second.looks) == (0, 0), "the read has said that nothing is there"
    managed.append([T1])
    assert (first.looks, second.looks) == (0, 0), "nothing is committed"
    _, reads = managed.fetch((T1, 1), params=waiting(from_follower(), max_wait_ms=0))
    assert reads is not None
    assert (first.looks, second.looks) == (0, 1)


def test_a_consumer_above_the_high_watermark_is_answered_at_once_as_in_kafka():
    managed, first, _ = followed()
    managed.append([T0])
    assert first.log.high_watermark == 0
    (reads,) = managed.fetch((T0, 1), params=waiting())
    assert codes(reads) == [NONE]
    assert first.looks == 1


@pytest.mark.parametrize(
    ("isolation", "offset", "expected"),
    [
        (FetchIsolation.HIGH_WATERMARK, 4, True),
        (FetchIsolation.HIGH_WATERMARK, 3, False),
        (FetchIsolation.TXN_COMMITTED, 3, True),
        (FetchIsolation.TXN_COMMITTED, 4, False),
        (FetchIsolation.LOG_END, 5, True),
        (FetchIsolation.LOG_END, 4, False),
    ],
)
def test_a_read_is_at_the_end_of_what_its_request_may_read(isolation, offset, expected):
    row = FetchedPartition(topic="t", partition=0, high_watermark=4, last_stable_offset=3)
    start = LogOffsetMetadata(offset, (0, 0))
    read = PartitionRead(wanted=want(T0, offset), row=row, start=start, is_at_end=offset == 5)
    assert _is_at_end(isolation, read) is expected
    assert not _is_at_end(isolation, msgspec.structs.replace(read, start=None, is_at_end=False))


def test_a_consumer_of_committed_transactions_is_not_looked_at_either():
    managed, first, _ = followed()
    committed = waiting(msgspec.structs.replace(CONSUMER, isolation=FetchIsolation.TXN_COMMITTED))
    assert managed.fetch((T0, 0), params=committed) == []
    assert first.looks == 0


def test_records_that_were_too_few_are_read_again_with_those_of_others():
    managed, first, second = followed()
    managed.append([T0])
    few = waiting(from_follower(), min_bytes=100)
    assert managed.fetch((T0, 0), (T1, 0), params=few) == []
    _, reads = managed.append([T1])
    assert [offsets(read) for read in reads] == [[0], [0]]
    assert (first.reads, second.reads) == (2, 2)


def test_a_partition_that_has_another_leader_is_no_reason_to_read_others():
    managed, first, second = followed()
    assert managed.fetch((T0, 0), (T1, 0), params=waiting(from_follower())) == []
    managed.register(T1, registration(2, 2, isr=(1, 2), replicas=(1, 2)))
    (reads,) = managed.taken()
    assert codes(reads) == [NONE, ErrorCode.not_leader_or_follower]
    assert (first.reads, second.reads) == (1, 2)


def test_the_end_of_the_time_reads_all_again():
    managed, first, _ = followed()
    at_end = waiting(from_follower(), max_wait_ms=10)
    assert managed.fetch((T0, 0), (T1, 0), params=at_end) == []
    managed.advance(10)
    (reads,) = managed.taken()
    assert codes(reads) == [NONE, NONE]
    assert first.reads == 2


def test_a_consumer_above_the_high_watermark_is_answered_at_once():
    managed, *_ = followed()
    managed.append([T0])
    (reads,) = managed.fetch((T0, 1), (T1, 0), params=waiting())
    assert [offsets(read) for read in reads] == [[], []]
    assert managed.manager.waiting_counts == (0, 0, 0)
