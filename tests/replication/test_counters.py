"""Counts of appends, reads and answers to proposals, as Kafka counts them."""

import msgspec
import pytest

from replication.counters import Counters
from replication.leader.appending import AppendResult
from replication.leader.isr import (
    CommittedPartitionState,
    Outcome,
    PendingExpandIsr,
    PendingShrinkIsr,
    ProposedIsr,
)
from storage.logs.log_validator import WITHOUT_KEY, AppendRules, RecordError
from tests.replication.leader.test_fetching import filled
from tests.replication.managers import T0, T1, Managed, codes, waiting, want
from tests.replication.partitions import LAG_MS, WALL_MS
from tests.replication.test_replica_manager import ALONE, PAIR, answer, expansion
from tests.storage.test_unified_log import produced
from wire.errors import ErrorCode
from wire.types import NodeId, TopicId

PROPOSED = ProposedIsr(leader_epoch=1, partition_epoch=1, isr=(), leader_recovery_state=0)
COMMITTED = CommittedPartitionState((1, 2))
EXPAND = PendingExpandIsr(3, PROPOSED, COMMITTED)
SHRINK = PendingShrinkIsr((2,), PROPOSED, COMMITTED)


def test_appends_are_counted_with_their_records_and_bytes():
    managed = Managed()
    managed.create(**ALONE)
    batch = produced(WALL_MS, WALL_MS, WALL_MS)
    managed.append({T0: batch, T1: produced(WALL_MS)})
    managed.append({T0: batch})
    expected = Counters(messages_in=6, bytes_in=2 * len(batch.buffer), produce_requests=3)
    assert managed.counters.of_all() == expected
    assert managed.counters.topics == {T0[0]: expected}


@pytest.mark.parametrize(
    ("code", "count"),
    [
        (ErrorCode.not_leader_or_follower, 0),
        (ErrorCode.message_too_large, 0),
        (ErrorCode.invalid_timestamp, 1),
        (ErrorCode.out_of_order_sequence_number, 1),
    ],
)
def test_errors_of_clients_and_moved_leaders_are_no_failures(code, count):
    counters = Counters()
    counters.appended(AppendResult(code=code), 100, T0[0])
    for each in (counters, counters.topics[T0[0]]):
        assert (each.produce_requests, each.failed_produce_requests) == (1, count)


@pytest.mark.parametrize(
    ("code", "texts", "field", "count"),
    [
        (ErrorCode.message_too_large, (), "bytes_rejected", 100),
        (ErrorCode.corrupt_message, (), "invalid_crcs", 1),
        (ErrorCode.invalid_record, (), "invalid_offsets_or_sequences", 1),
        (ErrorCode.invalid_record, (f"{WITHOUT_KEY} x", f"{WITHOUT_KEY} y"), "no_key_records", 2),
        (ErrorCode.invalid_record, ("another",), "no_key_records", 0),
        (ErrorCode.invalid_timestamp, ("late",), "no_key_records", 0),
    ],
)
def test_what_is_wrong_with_a_batch_is_counted(code, texts, field, count):
    counters = Counters()
    errors = tuple(RecordError(i, text) for i, text in enumerate(texts))
    counters.appended(AppendResult(code=code, record_errors=errors), 100, T0[0])
    names = "bytes_rejected", "invalid_crcs", "invalid_offsets_or_sequences", "no_key_records"
    assert {n: getattr(counters, n) for n in names} == dict.fromkeys(names, 0) | {field: count}


def test_a_record_without_a_key_begins_its_error_as_it_is_counted():
    managed = Managed()
    managed.create(rules=AppendRules(is_compacted=True), **ALONE)
    managed.append({T0: produced(WALL_MS, WALL_MS)})
    assert managed.counters.no_key_records == 2


def test_partitions_that_a_produce_awaits_in_vain_are_counted():
    managed = Managed()
    managed.create(**PAIR)
    managed.create(T1, **ALONE)
    managed.append({T0: produced(WALL_MS), T1: produced(WALL_MS)}, acks=-1)
    managed.advance(60_000)
    assert managed.counters.expired_produces == 1


@pytest.mark.parametrize(("replica", "expected"), [(None, (1, 0)), (NodeId(2), (0, 1))])
def test_fetches_whose_wait_ends_are_counted_by_reader(replica, expected):
    managed = Managed()
    managed.create(**PAIR)
    params = msgspec.structs.replace(waiting(), replica_id=replica)
    managed.fetch((T0, 0), params=params)
    managed.advance(60_000)
    counters = managed.counters
    assert (counters.expired_consumer_fetches, counters.expired_follower_fetches) == expected


def test_reads_are_counted_once_for_each_partition_of_a_request():
    managed = Managed()
    managed.create(**ALONE)
    managed.create(T1, **ALONE)
    assert managed.fetch((T0, 0), (T1, 0), params=waiting()) == []
    managed.append()
    managed.advance(1_000)
    assert managed.counters.fetch_requests == 2
    (reads,) = managed.fetch((T0, 0))
    assert codes(reads) == [ErrorCode.none]
    assert managed.counters.fetch_requests == 3
    assert managed.counters.of(T0[0]).fetch_requests == 3


def test_reads_are_counted_by_topic():
    counters, other = Counters(), (TopicId(b"u" * 16), 0)
    counters.read([want(key, 0) for key in (T0, T1, other, T0)])
    found = {topic_id: each.fetch_requests for topic_id, each in counters.topics.items()}
    assert (counters.fetch_requests, found) == (4, {T0[0]: 3, other[0]: 1})


def test_a_damaged_log_fails_a_read():
    managed = filled()
    managed.vfs[T0].open("/d/p-0/" + "0" * 20 + ".log").pwrite(b"\xff" * 12, 8)
    managed.fetch(want(T0, 0, max_bytes=1))
    assert managed.counters.failed_fetch_requests == 1
    assert managed.counters.of(T0[0]).failed_fetch_requests == 1


def test_records_that_are_sent_count_for_consumers_or_followers():
    counters = Counters()
    counters.sent_to_replica(3, is_added=False)
    counters.sent_to_replica(4, is_added=True)
    counters.sent(5, T0[0])
    counters.replicated(6, is_added=False)
    counters.replicated(7, is_added=True)
    assert counters == Counters(
        replication_bytes_out=7,
        reassignment_bytes_out=4,
        bytes_out=5,
        replication_bytes_in=13,
        reassignment_bytes_in=7,
        topics={T0[0]: Counters(bytes_out=5)},
    )
    counters.forget([T0[0], TopicId(b"?" * 16)])
    assert counters.topics == {}


@pytest.mark.parametrize(
    ("before", "outcome", "counted"),
    [
        (EXPAND, Outcome.ADOPTED, Counters(isr_expands=1)),
        (SHRINK, Outcome.ADOPTED, Counters(isr_shrinks=1)),
        (EXPAND, Outcome.ROLLED_BACK, Counters(failed_isr_updates=1)),
        (SHRINK, Outcome.TO_RETRY, Counters(failed_isr_updates=1)),
        (COMMITTED, Outcome.IGNORED, Counters()),
    ],
)
def test_answers_to_proposals_are_counted(before, outcome, counted):
    counters = Counters()
    counters.proposed(before, outcome)
    assert counters == counted


def test_the_isr_that_the_controller_adopts_is_counted():
    managed = Managed()
    expansion(managed)
    managed.manager.next_proposal(11)
    managed.manager.on_proposal_answer(answer())
    assert managed.counters.isr_expands == 1


def test_a_shrink_that_the_controller_adopts_is_counted():
    managed = Managed()
    managed.create(**PAIR)
    managed.append()
    managed.advance(2 * LAG_MS)
    managed.manager.next_proposal(11)
    managed.manager.on_proposal_answer(answer(isr=(1,)))
    assert (managed.counters.isr_shrinks, managed.counters.isr_expands) == (1, 0)
