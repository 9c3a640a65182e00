"""Fetches of several partitions: what is read at once, what is waited for, which handles stay."""

import errno

import msgspec
import pytest

from replication.leader.fetching import close_records
from storage.producers.producer_state import Origin
from tests.replication.managers import (
    NONE,
    OTHER,
    T0,
    T1,
    Managed,
    codes,
    offsets,
    waiting,
    want,
)
from tests.replication.partitions import (
    CONSUMER,
    STABLE,
    WALL_MS,
    from_follower,
    registration,
    with_isolation,
)
from tests.storage.test_unified_log import marker, produced
from wire.errors import ErrorCode

NOT_LEADER = ErrorCode.not_leader_or_follower
OUT_OF_RANGE = ErrorCode.offset_out_of_range
ALONE = {"isr": (1,), "replicas": (1,)}
PAIR = {"isr": (1, 2), "replicas": (1, 2)}
TRANSACTIONAL = 0x10


def filled(records=3, *keys):
    """Partitions that broker 1 has alone, with one-record batches."""
    managed = Managed()
    for key in keys or (T0,):
        managed.create(key, **ALONE)
        for _ in range(records):
            managed.append([key])
    return managed


def only(answers):
    (answer,) = answers
    return answer


def read(managed, *wanted, **arguments):
    return only(managed.fetch(*wanted, **arguments))


# --- what is read


def test_records_and_offsets_are_answered_at_once():
    managed = filled()
    before = managed.handles()
    (row,) = read(managed, (T0, 1))
    assert managed.handles() == before + 1
    assert offsets(row) == [1, 2]
    assert managed.handles() == before
    assert (row.row.topic, row.row.partition, row.row.code) == (T0[0], 0, NONE)
    assert (row.row.high_watermark, row.row.last_stable_offset) == (3, 3)
    assert row.row.log_start_offset == 0
    assert row.row.aborted_transactions is None
    assert row.row.records_bytes == row.records.size_bytes > 0


def test_all_partitions_share_the_bytes_of_the_response():
    managed = filled(3, T0, T1)
    size = read(managed, (T0, 0))[0].records.size_bytes // 3
    for max_bytes, expected in (
        (6 * size, [[0, 1, 2], [0, 1, 2]]),
        (5 * size, [[0, 1, 2], [0, 1]]),
        (4 * size - 1, [[0, 1, 2], []]),
        (2 * size, [[0, 1], []]),
        (0, [[0], []]),
    ):
        reads = read(managed, (T0, 0), (T1, 0), max_bytes=max_bytes)
        assert [offsets(each) for each in reads] == expected


def test_the_first_partition_with_records_may_exceed():
    managed = filled(3, T0, T1)
    wanted = [want(T0, 3, max_bytes=1), want(T1, 0, max_bytes=1), want(T0, 0, max_bytes=1)]
    assert [offsets(each) for each in read(managed, *wanted)] == [[], [0], []]
    assert [offsets(each) for each in read(managed, *wanted, max_bytes=0)] == [[], [0], []]


def test_a_partition_has_its_own_limit():
    managed = filled(3, T0, T1)
    (first,) = read(managed, (T0, 0))
    size = len(first.records.read()) // 3
    reads = read(managed, want(T0, 0, max_bytes=2 * size), want(T1, 0, max_bytes=size))
    assert [offsets(each) for each in reads] == [[0, 1], [0]]


def test_errors_stand_in_their_row():
    managed = filled()
    managed.create(T1, leader=2)
    reads = read(managed, (T0, 4), (T1, 0), (OTHER, 0), (T0, 0), params=waiting(min_bytes=1 << 20))
    assert codes(reads) == [
        OUT_OF_RANGE,
        NOT_LEADER,
        ErrorCode.unknown_topic_or_partition,
        NONE,
    ]
    assert (reads[0].row.high_watermark, reads[0].row.log_start_offset) == (-1, -1)
    assert offsets(reads[3]) == [0, 1, 2]


def test_a_directory_that_fails_at_a_read_is_reported():
    managed = filled(3, T0, T1)
    managed.vfs[T0].failing = lambda kind, _path: errno.EIO if kind == "read" else None
    reads = read(managed, want(T0, 0, max_bytes=1), (T1, 0))
    assert codes(reads) == [ErrorCode.kafka_storage_error, NONE]
    ((key, error),) = managed.failed
    assert (key, error.errno) == (T0, errno.EIO)
    assert offsets(reads[1]) == [0, 1, 2]


def test_a_damaged_header_is_a_corrupt_message():
    managed = filled()
    path = "/d/p-0/" + "0" * 20 + ".log"
    managed.vfs[T0].open(path).pwrite(b"\xff" * 12, 8)
    assert codes(read(managed, want(T0, 0, max_bytes=1))) == [ErrorCode.corrupt_message]
    assert managed.failed == []


def test_a_failure_behind_the_records_closes_them():
    managed = filled()
    abort(managed)
    before = managed.handles()
    managed.vfs[T0].failing = lambda kind, path: (
        errno.EIO if kind == "read" and path.endswith(".txnindex") else None
    )
    assert codes(read(managed, (T0, 0), params=with_isolation(STABLE))) == [
        ErrorCode.kafka_storage_error
    ]
    assert managed.handles() == before


# --- followers


def test_a_diverging_follower_is_answered_at_once():
    managed = filled()
    managed.register(T0, registration(1, 4, **PAIR))
    wanted = want(T0, 9, last_fetched_epoch=1, log_start_offset=0)
    (row,) = read(managed, wanted, params=waiting(from_follower()))
    assert (row.row.diverging_epoch, row.row.records_bytes) == ((1, 3), 0)
    assert row.start.place is None
    (row,) = read(managed, wanted, params=with_isolation(STABLE))
    assert (row.row.diverging_epoch, row.row.aborted_transactions) == ((1, 3), None)


def test_a_follower_reads_to_the_end_and_moves_the_high_watermark_for_consumers():
    managed = Managed()
    managed.create(**PAIR)
    managed.append()
    assert managed.fetch((T0, 0), params=waiting()) == []
    (row,) = read(managed, (T0, 0), params=from_follower())
    assert offsets(row) == [0]
    follower, consumer = managed.fetch((T0, 1), params=from_follower())
    assert follower[0].row.high_watermark == 0
    assert (offsets(consumer[0]), consumer[0].row.high_watermark) == ([0], 1)


def test_a_fetch_that_waited_does_not_move_its_replica_again():
    managed = Managed()
    partition = managed.create(**PAIR)
    assert managed.fetch((T0, 0), params=waiting(from_follower())) == []
    fetched_ms = partition.role.replicas[2].last_fetch_ms
    managed.advance(7)
    _, (row,) = managed.append()
    assert offsets(row) == [0]
    assert partition.role.replicas[2].last_fetch_ms == fetched_ms == 1_000
    assert partition.role.replicas[2].log_end.offset == 0


# --- aborted transactions


def abort(managed, sequence=0):
    """A transaction of one record of producer 7 that is aborted."""
    batch = produced(WALL_MS, producer=7, sequence=sequence, attributes=TRANSACTIONAL)
    assert managed.append({T0: batch})[0][T0].code is NONE
    managed.manager.append(
        {T0: marker(0)},
        required_acks=1,
        timeout_ms=0,
        origin=Origin.COORDINATOR,
        answer=managed.answers.append,
    )
    assert managed.taken()[0][T0].code is NONE


def test_committed_reads_name_the_aborted_transactions():
    managed = filled(1)
    abort(managed)
    abort(managed, 1)
    (row,) = read(managed, (T0, 0), params=with_isolation(STABLE))
    assert offsets(row) == [0, 1, 2, 3, 4]
    assert row.row.aborted_transactions == ((7, 1), (7, 3))
    (row,) = read(managed, (T0, 3), params=with_isolation(STABLE))
    assert (offsets(row), row.row.aborted_transactions) == ([3, 4], ((7, 3),))
    (row,) = read(managed, (T0, 5), params=with_isolation(STABLE))
    assert (row.records, row.row.aborted_transactions) == (None, ())
    (row,) = read(managed, (T0, 0))
    assert row.row.aborted_transactions is None
    close_records([row])


def test_committed_reads_name_those_of_their_segment_only():
    managed = Managed()
    managed.create(settings={"segment_bytes": 160}, **ALONE)
    abort(managed)
    abort(managed, 1)
    log = managed.manager.partitions[T0].log
    assert [each.base_offset for each in log.log.segments] == [0, 2]
    (row,) = read(managed, (T0, 0), params=with_isolation(STABLE))
    assert (offsets(row), row.row.aborted_transactions) == ([0, 1], ((7, 0),))


def test_committed_reads_end_at_an_open_transaction():
    managed = filled(1)
    managed.append({T0: produced(WALL_MS, producer=9, attributes=TRANSACTIONAL)})
    (row,) = read(managed, (T0, 0), params=with_isolation(STABLE))
    assert (offsets(row), row.row.last_stable_offset, row.row.high_watermark) == ([0], 1, 2)


# --- who waits


def test_a_fetch_waits_for_records_and_holds_no_handle():
    managed = filled(1)
    before = managed.handles()
    assert managed.fetch((T0, 0), params=waiting(min_bytes=100)) == []
    assert managed.handles() == before
    _, (row,) = managed.append()
    assert offsets(row) == [0, 1]
    assert managed.handles() == before
    assert managed.manager.waiting_counts == (0, 0, 0)


def test_a_wait_ends_with_its_time_and_what_there_is():
    managed = filled(1)
    managed.fetch((T0, 0), params=waiting(min_bytes=1 << 20, max_wait_ms=10))
    managed.fetch((T0, 1), params=waiting(max_wait_ms=10))
    managed.append()
    managed.taken()
    assert managed.manager.next_ms() == 1_010
    managed.advance(10)
    assert [offsets(row) for (row,) in managed.taken()] == [[0, 1]]


@pytest.mark.parametrize("max_wait_ms", [0, -1])
def test_a_fetch_that_does_not_wait_is_answered_without_records(max_wait_ms):
    managed = filled(1)
    (row,) = read(managed, (T0, 1), params=waiting(max_wait_ms=max_wait_ms))
    assert (row.row.code, row.records) == (NONE, None)


def test_another_epoch_ends_the_wait_of_a_fetch():
    managed = filled(1)
    managed.fetch(want(T0, 1, current_leader_epoch=1), params=waiting())
    managed.register(T0, registration(1, 2, **ALONE))
    assert codes(only(managed.taken())) == [ErrorCode.fenced_leader_epoch]


def test_a_follower_may_be_read_where_the_request_allows_it():
    managed = filled(2)
    managed.register(T0, registration(2, 2))
    anywhere = msgspec.structs.replace(CONSUMER, is_leader_only=False)
    (row,) = read(managed, (T0, 0), params=anywhere)
    assert offsets(row) == [0, 1]
    assert managed.fetch((T0, 2), params=waiting(anywhere)) == []
    managed.forget(T0)
    managed.manager.drop(T0)
    assert codes(only(managed.taken())) == [ErrorCode.unknown_topic_or_partition]


def test_a_follower_whose_epoch_grew_again_is_told():
    """Waits behind a known epoch, which is looked up at each try."""
    managed = filled(2)
    managed.register(T0, registration(1, 2, **PAIR))
    assert not managed.manager.is_throttled(T0, 2)
    wanted = want(T0, 2, last_fetched_epoch=1, current_leader_epoch=2, log_start_offset=0)
    assert managed.fetch(wanted, params=waiting(from_follower())) == []
    _, (row,) = managed.append()
    assert offsets(row) == [2]
