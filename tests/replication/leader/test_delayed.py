"""Conditions that Produce and DeleteRecords wait for."""

from dataclasses import dataclass

import pytest

from replication.leader.delayed import (
    AwaitedOffset,
    DelayedDeleteRecords,
    DelayedProduce,
    DeletedRecords,
    delete_records_result,
    produce_code,
)
from replication.leader.purgatory import Purgatory
from wire.errors import ErrorCode

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
    assert not delayed.try_complete([A, B])
    assert delayed.results == {A: TIMED_OUT, B: TIMED_OUT}
    assert delayed.pending == (A, B)
    leaders[A].high_watermark = 5
    assert not delayed.try_complete([A, B])
    assert delayed.results == {A: NONE, B: TIMED_OUT}
    assert delayed.pending == (B,)
    leaders[A] = NOT_LEADER  # the result of A stays
    leaders[B] = ErrorCode.unknown_topic_or_partition
    assert delayed.try_complete([A, B])
    assert delayed.results == {A: NONE, B: ErrorCode.unknown_topic_or_partition}
    assert delayed.pending == ()


def test_a_produce_does_not_wait_for_a_partition_that_refused_it():
    refused = AwaitedOffset(-1, ErrorCode.message_too_large)
    delayed = DelayedProduce(None, {A: refused, B: AwaitedOffset(1)}, {B: Leader()}.get)
    assert delayed.pending == (B,)
    assert delayed.results == {A: ErrorCode.message_too_large, B: TIMED_OUT}
    delayed = DelayedProduce(None, {A: refused}, {}.get)
    assert delayed.try_complete([A])
    assert delayed.results == {A: ErrorCode.message_too_large}


def test_only_the_partitions_that_changed_are_looked_at():
    leaders = {A: Leader(), B: Leader()}
    delayed = DelayedProduce(None, {A: AwaitedOffset(1), B: AwaitedOffset(1)}, leaders.get)
    assert not delayed.try_complete([A, B])
    leaders[B].high_watermark = 1
    assert not delayed.try_complete([A])
    assert delayed.pending == (A, B)
    leaders[A].high_watermark = 1
    assert not delayed.try_complete([A])
    assert delayed.pending == (B,)
    assert delayed.try_complete([B])


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
    assert not delayed.try_complete([A, B])
    out_of_range = DeletedRecords(ErrorCode.offset_out_of_range)
    assert delayed.results == {A: DeletedRecords(TIMED_OUT), B: out_of_range}
    assert delayed.pending == (A,)
    leaders[A].low_watermark = 6
    assert delayed.try_complete([A, B])
    assert delayed.results == {A: DeletedRecords(NONE, 6), B: out_of_range}
    assert delayed.request == "request"
