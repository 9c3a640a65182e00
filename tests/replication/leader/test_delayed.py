"""Conditions that Produce, Fetch and DeleteRecords wait for."""

from dataclasses import dataclass, field

import pytest

from replication.leader.delayed import (
    AwaitedOffset,
    DelayedDeleteRecords,
    DelayedFetch,
    DelayedProduce,
    DeletedRecords,
    FetchParams,
    FetchStatus,
    delete_records_result,
    fetchable_bytes,
    is_answered_at_once,
    produce_code,
)
from replication.leader.fetch_session import FetchPartition
from replication.leader.purgatory import Purgatory
from replication.log_offsets import LogOffsetMetadata, LogOffsetSnapshot
from storage.logs.unified_log import FetchIsolation
from wire.errors import ErrorCode
from wire.messages.fetch_response import FetchedPartition
from wire.types import OffsetAndEpoch

A, B = (bytes(16), 0), (bytes(16), 1)
NONE, TIMED_OUT = ErrorCode.none, ErrorCode.request_timed_out
NOT_LEADER, TOO_FEW = ErrorCode.not_leader_or_follower, ErrorCode.not_enough_replicas_after_append


@dataclass
class Leader:
    high_watermark: int = 0
    low_watermark: int | None = 0
    maximal_isr_size: int = 2
    effective_min_isr: int = 2


# --- Produce


@pytest.mark.parametrize(
    ("leader", "code"),
    [
        (Leader(high_watermark=9), None),
        (Leader(high_watermark=10), NONE),
        (Leader(high_watermark=11), NONE),
        (Leader(high_watermark=10, maximal_isr_size=3), NONE),
        (Leader(high_watermark=10, maximal_isr_size=1), TOO_FEW),
        (Leader(high_watermark=9, maximal_isr_size=1), None),
        (NOT_LEADER, NOT_LEADER),
        (ErrorCode.kafka_storage_error, ErrorCode.kafka_storage_error),
    ],
)
def test_the_result_of_a_produce_up_to_offset_10(leader, code):
    assert produce_code(10, leader) is code


def test_a_produce_waits_for_all_its_partitions_and_keeps_each_result():
    leaders = {A: Leader(), B: Leader()}
    delayed = DelayedProduce("request", {A: AwaitedOffset(5), B: AwaitedOffset(7)}, leaders.get)
    assert delayed.request == "request"
    assert not delayed.try_complete()
    assert delayed.results == {A: TIMED_OUT, B: TIMED_OUT}
    assert delayed.pending == (A, B)
    leaders[A].high_watermark = 5
    assert not delayed.try_complete()
    assert delayed.results == {A: NONE, B: TIMED_OUT}
    assert delayed.pending == (B,)
    leaders[A] = NOT_LEADER  # the result of A stays
    leaders[B] = ErrorCode.unknown_topic_or_partition
    assert delayed.try_complete()
    assert delayed.results == {A: NONE, B: ErrorCode.unknown_topic_or_partition}
    assert delayed.pending == ()


def test_a_produce_does_not_wait_for_a_partition_that_refused_it():
    refused = AwaitedOffset(-1, ErrorCode.message_too_large)
    delayed = DelayedProduce(None, {A: refused, B: AwaitedOffset(1)}, {B: Leader()}.get)
    assert delayed.pending == (B,)
    assert delayed.results == {A: ErrorCode.message_too_large, B: TIMED_OUT}
    delayed = DelayedProduce(None, {A: refused}, {}.get)
    assert delayed.try_complete()
    assert delayed.results == {A: ErrorCode.message_too_large}


def test_a_produce_in_a_purgatory():
    leaders = {A: Leader(), B: Leader()}
    purgatory = Purgatory()
    for name, statuses in (("a", {A: AwaitedOffset(5)}), ("b", {B: AwaitedOffset(5)})):
        purgatory.try_complete_else_watch(
            DelayedProduce(name, statuses, leaders.get), statuses, deadline_ms=30_000
        )
    leaders[A].high_watermark = leaders[B].high_watermark = 5
    assert [done.request for done in purgatory.check(A)] == ["a"]
    (expired,) = purgatory.expire(30_000)
    assert (expired.request, expired.results) == ("b", {B: TIMED_OUT})


# --- DeleteRecords


@pytest.mark.parametrize(
    ("leader", "result"),
    [
        (Leader(low_watermark=9, high_watermark=99), None),
        (Leader(low_watermark=None, high_watermark=99), None),
        (Leader(low_watermark=10), DeletedRecords(NONE, 10)),
        (Leader(low_watermark=12), DeletedRecords(NONE, 12)),
        (NOT_LEADER, DeletedRecords(NOT_LEADER, None)),
    ],
)
def test_the_result_of_a_deletion_up_to_offset_10(leader, result):
    assert delete_records_result(10, leader) == result


def test_a_deletion_waits_for_the_low_watermark():
    leaders = {A: Leader(), B: Leader()}
    refused = AwaitedOffset(0, ErrorCode.offset_out_of_range)
    delayed = DelayedDeleteRecords("request", {A: AwaitedOffset(5), B: refused}, leaders.get)
    assert not delayed.try_complete()
    out_of_range = DeletedRecords(ErrorCode.offset_out_of_range)
    assert delayed.results == {A: DeletedRecords(TIMED_OUT), B: out_of_range}
    assert delayed.pending == (A,)
    leaders[A].low_watermark = 6
    assert delayed.try_complete()
    assert delayed.results == {A: DeletedRecords(NONE, 6), B: out_of_range}
    assert delayed.request == "request"


# --- Fetch


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


@dataclass
class Logs:
    """Every partition looks like this, but those in `errors`."""

    snapshot: LogOffsetSnapshot = field(
        default_factory=lambda: LogOffsetSnapshot(at(12, 300), at(11, 200), at(10, 100))
    )
    errors: dict = field(default_factory=dict)
    known: OffsetAndEpoch | None = None
    throttled: tuple = ()
    asked: list = field(default_factory=list)

    def offset_snapshot(self, partition, current_leader_epoch, *, is_leader_only):
        self.asked.append((partition, current_leader_epoch, is_leader_only))
        return self.errors.get(partition, self.snapshot)

    def end_of_epoch(self, partition, current_leader_epoch, epoch):
        self.asked.append((partition, current_leader_epoch, epoch))
        return self.known

    def is_throttled(self, partition, replica_id):
        assert replica_id is not None, "consumers have no replication quota"
        return (partition, replica_id) in self.throttled


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
    assert fetchable_bytes(params, A, status, Logs()) == bytes_readable


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
    assert fetchable_bytes(consumer(), A, status, Logs()) == expected


def test_bytes_to_an_end_without_a_place_are_unknown():
    logs = Logs(LogOffsetSnapshot(at(12), at(11), at(10)))
    assert fetchable_bytes(consumer(), A, parked(at(9, 10)), logs) == 0


def test_a_fetch_offset_that_was_not_read_asks_nothing():
    logs = Logs()
    fetchable_bytes(consumer(), A, parked(None, last_fetched_epoch=3), logs)
    assert logs.asked == []


@pytest.mark.parametrize("is_leader_only", [False, True])
def test_the_log_is_asked_for_the_epoch_of_the_request(is_leader_only):
    logs = Logs()
    status = parked(at(9, 10), current_leader_epoch=4, last_fetched_epoch=3)
    fetchable_bytes(consumer(is_leader_only=is_leader_only), B, status, logs)
    assert logs.asked == [(B, 4, is_leader_only), (B, 4, 3)]


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
    assert fetchable_bytes(consumer(), A, parked(at(9, 10)), Logs(errors={A: code})) is None


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (OffsetAndEpoch(10, 3), 200),
        (OffsetAndEpoch(11, 3), 200),
        (OffsetAndEpoch(9, 3), None),  # the epoch ended before the fetch offset
        (OffsetAndEpoch(12, 2), None),  # the leader has no such epoch
        (None, None),
    ],
)
def test_a_follower_that_diverges_is_answered(known, expected):
    status = parked(at(10, 100), last_fetched_epoch=3)
    assert fetchable_bytes(follower(), A, status, Logs(known=known)) == expected
    at_end = parked(at(12, 300), last_fetched_epoch=3, fetch_offset=10)
    assert fetchable_bytes(follower(), A, at_end, Logs(known=known)) == (
        None if expected is None else 0
    )


def test_a_throttled_follower_reads_nothing():
    logs = Logs(throttled=((A, 7),))
    assert fetchable_bytes(follower(), A, parked(at(9, 10)), logs) == 0
    assert fetchable_bytes(follower(), A, parked(at(9, 10, segment=-9)), logs) == 0
    assert fetchable_bytes(follower(), B, parked(at(9, 10)), logs) == 290
    assert fetchable_bytes(consumer(), A, parked(at(9, 10)), logs) == 190
    assert fetchable_bytes(follower(), A, parked(at(13, 310)), logs) is None
    diverging = parked(at(9, 10), last_fetched_epoch=3)
    assert fetchable_bytes(follower(), A, diverging, logs) is None


@pytest.mark.parametrize(("min_bytes", "is_complete"), [(380, True), (381, False)])
def test_the_bytes_of_all_partitions_count(min_bytes, is_complete):
    statuses = {A: parked(at(9, 10)), B: parked(at(9, 10))}
    delayed = DelayedFetch("request", consumer(min_bytes=min_bytes), statuses, Logs())
    assert delayed.try_complete() is is_complete
    assert (delayed.request, delayed.params.min_bytes) == ("request", min_bytes)


@pytest.mark.parametrize("refused", [A, B])
def test_one_partition_is_reason_enough_to_answer(refused):
    statuses = {A: parked(at(11, 200)), B: parked(at(11, 200))}
    logs = Logs()
    delayed = DelayedFetch(None, consumer(), statuses, logs)
    assert not delayed.try_complete()
    logs.errors[refused] = NOT_LEADER
    assert delayed.try_complete()


def test_a_parked_fetch_completes_when_the_log_grows():
    logs = Logs()
    delayed = DelayedFetch(None, follower(min_bytes=100), {A: parked(at(12, 300))}, logs)
    for log_end, is_complete in ((at(12, 300), False), (at(13, 399), False), (at(14, 400), True)):
        logs.snapshot = LogOffsetSnapshot(log_end, at(11, 200), at(10, 100))
        assert delayed.try_complete() is is_complete
