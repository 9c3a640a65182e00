"""The partitions of a broker: appends, who waits for them, proposals of ISRs, deletions."""

import errno
from datetime import timedelta
from uuid import UUID

import msgspec
import pytest

from replication.leader.alter_partition import RETRY_MS
from replication.leader.appends import has_valid_acks
from replication.leader.isr import CommittedPartitionState, PendingShrinkIsr
from replication.leader.leadership import UNCHANGED, Changed
from replication.replica_manager import SHRINKS_PER_TICK
from storage.errors import OutOfSpaceError
from storage.logs.log_validator import AppendRules, RecordError, TimestampType
from storage.producers.producer_state import Origin
from tests.replication.managers import (
    NONE,
    OTHER,
    T0,
    T1,
    TOPIC,
    Managed,
    codes,
    offsets,
    waiting,
)
from tests.replication.partitions import (
    CONSUMER,
    LAG_MS,
    WALL_MS,
    from_follower,
    registration,
)
from tests.storage.test_unified_log import produced
from wire.api_keys import ALTER_PARTITION
from wire.errors import ErrorCode
from wire.messages import codec

NOT_LEADER = ErrorCode.not_leader_or_follower
UNKNOWN = ErrorCode.unknown_topic_or_partition
TIMED_OUT = ErrorCode.request_timed_out
ALONE = {"isr": (1,), "replicas": (1,)}
PAIR = {"isr": (1, 2), "replicas": (1, 2)}
NEW = codec.newest(ALTER_PARTITION, "response")


def only(answers):
    (answer,) = answers
    return answer


# --- Produce


def test_acks_1_and_0_are_answered_at_once_with_offsets():
    managed = Managed()
    managed.create(**PAIR)
    for acks, offset in ((1, 0), (0, 1)):
        result = only(managed.append(acks=acks))[T0]
        assert (result.code, result.base_offset, result.end_offset) == (NONE, offset, offset + 1)
        assert (result.append_time_ms, result.log_start_offset) == (-1, 0)
    assert managed.appended == [T0, T0]
    assert managed.manager.waiting_counts == (0, 0, 0)


def test_append_time_and_log_start_are_answered():
    managed = Managed()
    managed.create(rules=AppendRules(timestamp_type=TimestampType.LOG_APPEND_TIME), **ALONE)
    managed.append()
    managed.manager.partitions[T0].delete_records_on_leader(1)
    result = only(managed.append())[T0]
    assert (result.append_time_ms, result.log_start_offset) == (WALL_MS, 1)


@pytest.mark.parametrize("acks", [-2, 2, 100])
def test_other_acks_are_refused_for_each_partition(acks):
    managed = Managed()
    managed.create()
    results = only(managed.append([T0, OTHER], acks=acks))
    assert {key: result.code for key, result in results.items()} == {
        T0: ErrorCode.invalid_required_acks,
        OTHER: ErrorCode.invalid_required_acks,
    }
    assert managed.manager.partitions[T0].log.end_offset == 0
    assert managed.appended == []
    assert not has_valid_acks(acks)


def test_all_acks_wait_until_the_followers_have_fetched():
    managed = Managed()
    managed.create(**PAIR)
    assert managed.append(acks=-1) == []
    assert managed.manager.waiting_counts == (1, 0, 0)
    assert codes(only(managed.fetch((T0, 0), params=from_follower()))) == [NONE]
    fetched, results = managed.fetch((T0, 1), params=from_follower())
    assert codes(fetched) == [NONE]
    result = results[T0]
    assert (result.code, result.base_offset) == (NONE, 0)
    assert managed.manager.waiting_counts == (0, 0, 0)


def test_all_acks_of_a_single_replica_are_answered_at_once():
    managed = Managed()
    managed.create(**ALONE)
    assert only(managed.append(acks=-1))[T0].code is NONE


def test_a_wait_ends_with_its_time_and_keeps_the_offset():
    managed = Managed()
    managed.create(**PAIR)
    managed.append(acks=-1, timeout_ms=20)
    assert managed.manager.next_ms() == 1_020
    managed.advance(19)
    assert managed.taken() == []
    managed.advance(1)
    result = only(managed.taken())[T0]
    assert (result.code, result.base_offset, result.log_start_offset) == (TIMED_OUT, 0, 0)


def test_no_request_waits_longer_than_a_connection_may_be_idle():
    managed = Managed()
    managed.create(isr=(1, 2), replicas=(1, 2))
    forever_ms = 2**31 - 1
    assert managed.append(acks=-1, timeout_ms=forever_ms) == []
    params = msgspec.structs.replace(CONSUMER, max_wait_ms=forever_ms)
    assert managed.fetch((T0, 0), params=params) == []
    managed.manager.delete_records({T0: 0}, timeout_ms=forever_ms, answer=managed.answers.append)
    managed.advance(599_999)
    assert managed.taken() == []
    managed.advance(1)
    assert len(managed.taken()) == 3


def test_partitions_without_success_are_not_waited_for():
    managed = Managed()
    managed.create(**ALONE)
    managed.create(T1, leader=2)
    results = only(managed.append([T0, T1, OTHER, (TOPIC, 5)], acks=-1))
    assert [result.code for result in results.values()] == [NONE, NOT_LEADER, UNKNOWN, UNKNOWN]
    assert [result.log_start_offset for result in results.values()] == [0, -1, -1, -1]


def test_a_partition_in_the_metadata_that_is_not_hosted_has_another_leader():
    managed = Managed()
    managed.register(T0, registration(leader=1))
    assert only(managed.append())[T0].code is NOT_LEADER
    assert managed.manager.partition_of(T0) is NOT_LEADER
    assert managed.manager.partition_of(T1) is UNKNOWN


def test_too_few_in_sync_replicas_refuse_all_acks():
    managed = Managed()
    managed.create(minimum=2, isr=(1,), replicas=(1, 2))
    result = only(managed.append(acks=-1))[T0]
    assert result.code is ErrorCode.not_enough_replicas
    assert result.log_start_offset == 0
    assert only(managed.append(acks=1))[T0].code is NONE


def test_a_duplicate_is_answered_with_its_first_offset():
    managed = Managed()
    managed.create(**ALONE)
    batches = [produced(WALL_MS, producer=5, sequence=number) for number in (0, 1, 0)]
    results = [only(managed.append({T0: batch}))[T0] for batch in batches]
    assert [(each.code, each.base_offset) for each in results] == [(NONE, 0), (NONE, 1), (NONE, 0)]


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        ({"producer": 5, "sequence": 7}, ErrorCode.out_of_order_sequence_number),
        ({"producer": 5, "sequence": 1, "epoch": 0}, NONE),
        ({"producer": 6, "sequence": 0, "epoch": 1}, ErrorCode.invalid_producer_epoch),
    ],
)
def test_the_sequence_of_a_producer_is_kept(batch, code):
    managed = Managed()
    managed.create(**ALONE)
    managed.append({T0: produced(WALL_MS, producer=5, sequence=0)})
    managed.append({T0: produced(WALL_MS, producer=6, sequence=0, epoch=2)})
    result = only(managed.append({T0: produced(WALL_MS, **batch)}))[T0]
    assert (result.code, result.log_start_offset) == (code, 0)
    assert result.message is None


def test_a_rejected_batch_has_its_code_message_and_record_errors():
    managed = Managed()
    managed.create(rules=AppendRules(is_compacted=True))
    result = only(managed.append())[T0]
    assert result.code is ErrorCode.invalid_record
    text = "Compacted topic cannot accept message without key in topic partition p-0"
    assert result.record_errors == (RecordError(0, text),)
    assert result.message.startswith("One or more records have been rejected")
    assert result.log_start_offset == 0
    assert managed.appended == []


def test_a_batch_that_is_too_large_has_no_log_start():
    managed = Managed()
    managed.create(rules=AppendRules(batch_bytes_max=10))
    result = only(managed.append())[T0]
    assert (result.code, result.log_start_offset) == (ErrorCode.message_too_large, -1)


@pytest.mark.parametrize("error_number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("acks", [1, -1])
def test_a_failed_directory_is_reported(error_number, acks):
    managed = Managed()
    managed.create(**ALONE)
    managed.create(T1, **ALONE)
    managed.vfs[T0].failing = lambda kind, _path: error_number if kind == "write" else None
    results = only(managed.append([T0, T1], acks=acks))
    assert [result.code for result in results.values()] == [ErrorCode.kafka_storage_error, NONE]
    ((key, error),) = managed.failed
    assert key == T0
    assert isinstance(error, OSError | OutOfSpaceError)
    assert managed.appended == [T1]


def test_a_marker_that_cannot_be_read_is_corrupt():
    managed = Managed()
    managed.create(**ALONE)
    marker = produced(WALL_MS, producer=5, attributes=0x30)
    managed.manager.append(
        {T0: marker},
        required_acks=1,
        timeout_ms=0,
        answer=managed.answers.append,
        origin=Origin.COORDINATOR,
    )
    assert only(managed.taken())[T0].code is ErrorCode.corrupt_message
    assert managed.failed == []


# --- what ends a wait


def test_another_leader_ends_the_wait():
    managed = Managed()
    managed.create(**PAIR)
    managed.append(acks=-1)
    managed.register(T0, registration(2, 2, **PAIR))
    assert only(managed.taken())[T0].code is NOT_LEADER


def test_a_dropped_partition_is_unknown_if_its_topic_is():
    managed = Managed()
    managed.create(**PAIR)
    managed.append(acks=-1)
    managed.fetch((T0, 0), params=waiting())
    managed.forget(T0)
    managed.manager.drop(T0)
    fetched, produced_ = managed.taken()
    assert produced_[T0].code is UNKNOWN
    assert codes(fetched) == [UNKNOWN]
    assert T0 not in managed.manager.partitions


def test_a_dropped_partition_of_a_topic_has_another_leader():
    managed = Managed()
    managed.create(**PAIR)
    managed.append(acks=-1)
    managed.manager.drop(T0)
    assert only(managed.taken())[T0].code is NOT_LEADER


def test_an_offline_partition_ends_the_wait():
    managed = Managed()
    partition = managed.create(**PAIR)
    managed.append(acks=-1)
    partition.mark_offline()
    managed.manager.check(T0)
    assert only(managed.taken())[T0].code is ErrorCode.kafka_storage_error
    assert only(managed.append())[T0].code is ErrorCode.kafka_storage_error


def test_one_append_completes_what_waits_for_its_partition_only():
    managed = Managed()
    managed.create(**ALONE)
    managed.create(T1, **ALONE)
    managed.fetch((T0, 0), params=waiting())
    managed.fetch((T1, 0), params=waiting())
    assert managed.manager.waiting_counts == (0, 2, 0)
    results, fetched = managed.append()
    assert results[T0].code is NONE
    assert offsets(only(fetched)) == [0]
    assert managed.manager.waiting_counts == (0, 1, 0)


def test_an_append_that_raises_the_high_watermark_completes_a_produce():
    """Follower 2 may join the ISR and holds the high watermark back, until it is fenced."""
    managed = Managed()
    managed.create(isr=(1,), replicas=(1, 2))
    managed.brokers.registered[2].fenced = True
    managed.fetch((T0, 0), params=from_follower())
    managed.brokers.registered[2].fenced = False
    assert managed.append(acks=-1) == []
    managed.brokers.registered[2].fenced = True
    later, first = managed.append(acks=1)
    assert (later[T0].base_offset, first[T0].base_offset) == (1, 0)


def test_a_step_that_changed_nothing_answers_nobody():
    managed = Managed()
    managed.create(**PAIR)
    managed.append(acks=-1)
    partition = managed.manager.partitions[T0]
    partition.log.set_high_watermark(1)
    managed.manager.took(T0, UNCHANGED)
    assert managed.taken() == []
    managed.manager.took(T0, Changed(low_watermark_raised=True))
    assert len(managed.taken()) == 1


# --- proposals of ISRs


def expansion(managed):
    """Let follower 2 catch up, which is out of the ISR."""
    partition = managed.create(isr=(1,), replicas=(1, 2))
    managed.append()
    managed.fetch((T0, 1), params=from_follower())
    return partition


def answer(isr=(1, 2), code=NONE, partition_epoch=2):
    row = NEW.PartitionData(
        partition_index=0,
        error_code=code,
        leader_id=1,
        leader_epoch=1,
        isr=isr,
        partition_epoch=partition_epoch,
    )
    return NEW.AlterPartitionResponse(
        throttle_time=timedelta(0),
        error_code=NONE,
        topics=(NEW.TopicData(topic_id=UUID(bytes=TOPIC), partitions=(row,)),),
    )


def test_a_follower_that_caught_up_is_proposed_and_adopted():
    managed = Managed()
    partition = expansion(managed)
    assert managed.manager.next_ms() <= managed.clock.now_ms
    request = managed.manager.next_proposal(11)
    assert request.broker_epoch == 11
    ((row,),) = [topic.partitions for topic in request.topics]
    assert [member.broker_id for member in row.new_isr_with_epochs] == [1, 2]
    assert managed.manager.next_proposal(11) is None
    managed.manager.on_proposal_answer(answer())
    assert partition.role.state == CommittedPartitionState((1, 2))
    assert managed.manager.next_proposal(11) is None


def test_an_answer_that_raises_the_high_watermark_completes_a_produce():
    managed = Managed()
    managed.create(**PAIR)
    managed.append(acks=-1, timeout_ms=10_000)
    managed.advance(LAG_MS + 1)
    assert managed.manager.next_proposal(11) is not None
    assert managed.manager.waiting_counts == (1, 0, 0)
    managed.manager.on_proposal_answer(answer(isr=(1,)))
    assert only(managed.taken())[T0].code is NONE


def test_a_request_without_an_answer_is_made_again():
    managed = Managed()
    expansion(managed)
    first = managed.manager.next_proposal(11)
    managed.manager.on_proposal_answer(None)
    assert managed.manager.next_proposal(11) is None
    assert managed.manager.next_ms() == managed.clock.now_ms + RETRY_MS
    managed.advance(RETRY_MS)
    assert managed.manager.next_proposal(11) == first


def test_a_refused_proposal_is_made_again():
    managed = Managed()
    expansion(managed)
    managed.manager.next_proposal(11)
    managed.manager.on_proposal_answer(answer(code=ErrorCode.unknown_server_error))
    managed.advance(RETRY_MS)
    assert managed.manager.next_proposal(11) is not None


def test_a_proposal_beside_an_unanswered_one_is_given_up():
    managed = Managed()
    partition = expansion(managed)
    managed.manager.next_proposal(11)
    managed.register(T0, registration(1, 2, isr=(1,), replicas=(1, 2)))
    managed.fetch((T0, 1), params=from_follower())
    assert partition.role.state == CommittedPartitionState((1,))
    managed.manager.on_proposal_answer(answer(code=ErrorCode.fenced_leader_epoch))
    managed.fetch((T0, 1), params=from_follower())
    assert managed.manager.next_proposal(11) is None
    managed.advance(RETRY_MS)
    assert managed.manager.next_proposal(11) is not None


def test_an_answer_for_a_dropped_partition_is_ignored():
    managed = Managed()
    expansion(managed)
    managed.manager.next_proposal(11)
    managed.manager.drop(T0)
    managed.manager.on_proposal_answer(answer())
    assert managed.manager.next_proposal(11) is None


def test_lagging_followers_are_proposed_to_leave_at_every_half_of_the_lag_time():
    managed = Managed()
    managed.create(**PAIR)
    managed.append()
    half_ms = LAG_MS // 2
    assert managed.manager.next_ms() == 1_000 + half_ms
    managed.advance(half_ms)
    managed.advance(half_ms)
    assert managed.manager.next_proposal(11) is None
    assert managed.manager.next_ms() == 1_000 + 3 * half_ms
    managed.advance(half_ms - 1)
    assert managed.manager.next_proposal(11) is None
    managed.advance(1)
    request = managed.manager.next_proposal(11)
    ((row,),) = [topic.partitions for topic in request.topics]
    assert [member.broker_id for member in row.new_isr_with_epochs] == [1]


def test_isrs_are_looked_at_some_in_a_step():
    """A step that looked at all of 10,000 partitions would stop the broker for 0.2 s."""
    broker = Managed()
    keys = [(TOPIC, number) for number in range(SHRINKS_PER_TICK + 2)]
    for key in keys:
        broker.create(key, **PAIR)

    def pending():
        states = [broker.manager.partitions[key].role.state for key in keys]
        return sum(isinstance(state, PendingShrinkIsr) for state in states)

    while not pending():
        broker.advance(broker.manager.next_ms() - broker.clock.now_ms)
    assert pending() == SHRINKS_PER_TICK
    assert broker.manager.next_ms() == broker.clock.now_ms, "the rest is due"
    broker.manager.drop(keys.pop())
    broker.advance(0)
    assert pending() == SHRINKS_PER_TICK + 1
