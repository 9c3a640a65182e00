"""A partition: its roles by metadata, appends, deletion, offsets, and the errors of each."""

import pytest

from metadata.image import LEADER_RECOVERED, LEADER_RECOVERING
from replication.follower.following import FetchedFromLeader
from replication.leader.isr import CommittedPartitionState, LeaderAndIsr, Outcome
from replication.leader.leadership import UNCHANGED, Answered, Changed, Leadership
from replication.log_offsets import LogOffsetMetadata
from replication.reading import EARLIEST, EARLIEST_LOCAL, LATEST, MAX_TIMESTAMP
from replication.roles import Following, Offline, PartitionSettings, Transition
from simulator.cluster.memory_vfs import MemoryVfs
from storage.segments.timestamp_lookup import TimestampAndOffset
from tests.replication.partitions import (
    LAG_MS,
    LOG_END,
    STABLE,
    WALL_MS,
    WATERMARK,
    Brokers,
    append,
    fetch,
    from_follower,
    led,
    registration,
)
from tests.storage.test_unified_log import opened, produced
from wire.errors import ErrorCode
from wire.types import OffsetAndEpoch

NOT_LEADER = ErrorCode.not_leader_or_follower
FENCED, UNKNOWN_EPOCH = ErrorCode.fenced_leader_epoch, ErrorCode.unknown_leader_epoch
STORAGE_ERROR = ErrorCode.kafka_storage_error


def every_refusal(partition):
    """The answers of all operations, of a partition that refuses each."""
    fetched = FetchedFromLeader(records=memoryview(b""), high_watermark=0, log_start_offset=0)
    epoch = partition.leader_epoch
    return {
        partition.leadership,
        append(partition, 0),
        partition.append_as_follower(fetched, epoch, WALL_MS),
        partition.truncate_to_leader(OffsetAndEpoch(0, 0), epoch, WALL_MS),
        partition.truncate_fully_and_start_at(0, epoch, WALL_MS),
        fetch(partition, 0),
        partition.end(LOG_END, None, is_leader_only=False),
        partition.end_of_epoch(None, 0, is_leader_only=False),
        partition.offset_for_timestamp(LATEST, WATERMARK, None, is_leader_only=False),
        partition.delete_records_on_leader(0),
    }


# --- offline


def test_a_partition_waits_for_its_log_and_takes_the_newest_metadata_with_it():
    partition = Brokers().partition()
    assert every_refusal(partition) == {NOT_LEADER}
    assert not Transition().is_taken
    assert partition.make_follower(registration(2, 4), 0) == Transition()
    assert partition.make_leader(registration(1, 5), 0) == Transition()
    assert partition.make_follower(registration(2, 4), 0) == Transition()
    assert every_refusal(partition) == {NOT_LEADER}
    assert (partition.leader_epoch, partition.partition_epoch) == (-1, -1)
    transition = partition.open_log(opened(MemoryVfs()), 0)
    assert transition == Transition(is_taken=True, is_new_leader=True, is_new_leader_epoch=True)
    assert (partition.leader_epoch, partition.partition_epoch) == (5, 5)
    assert partition.leadership is partition.role


def test_a_log_may_be_opened_before_the_metadata_come():
    partition = Brokers().partition()
    assert partition.open_log(opened(MemoryVfs()), 0) == Transition()
    assert every_refusal(partition) == {NOT_LEADER}
    assert partition.make_follower(registration(2, 4), 0).is_taken
    assert partition.role == Following(2, 4, 4)


def test_a_log_is_opened_once():
    partition = led()
    with pytest.raises(AssertionError, match="open"):
        partition.open_log(opened(MemoryVfs()), 0)


def test_the_partition_of_a_failed_directory_is_offline_for_good():
    partition = led(1)
    partition.mark_offline()
    assert every_refusal(partition) == {STORAGE_ERROR}
    assert partition.role == Offline(STORAGE_ERROR, 1, 1)
    assert partition.log is None
    assert partition.make_leader(registration(1, 2), 0) == Transition()
    assert partition.make_follower(registration(2, 3), 0) == Transition()
    assert every_refusal(partition) == {STORAGE_ERROR}
    with pytest.raises(AssertionError, match="failed"):
        partition.open_log(opened(MemoryVfs()), 0)


def test_a_directory_may_fail_before_the_log_is_open():
    partition = Brokers().partition()
    partition.make_leader(registration(1, 5), 0)
    partition.mark_offline()
    assert every_refusal(partition) == {STORAGE_ERROR}


# --- leader


def test_a_new_leader_starts_its_epoch_at_the_end_of_its_log():
    log = opened(MemoryVfs())
    log.append_as_leader(produced(WALL_MS, WALL_MS), 3, WALL_MS)
    partition = led(log=log, epoch=5)
    leader = partition.leadership
    assert leader.epoch_start_offset == 2
    assert partition.end_of_epoch(None, 4, is_leader_only=True) == OffsetAndEpoch(2, 3)
    assert partition.end_of_epoch(None, 5, is_leader_only=True) == OffsetAndEpoch(2, 5)
    assert partition.end_of_epoch(None, 6, is_leader_only=True) is None
    assert leader.state == CommittedPartitionState((1, 2, 3), LEADER_RECOVERED)
    assert set(leader.replicas) == {2, 3}


def test_a_replica_alone_is_committed_up_to_its_end_as_it_becomes_leader():
    log = opened(MemoryVfs())
    log.append_as_leader(produced(WALL_MS, WALL_MS), 3, WALL_MS)
    partition = Brokers().partition()
    partition.open_log(log, 0)
    transition = partition.make_leader(registration(1, 5, isr=(1,)), 0)
    assert transition.changed == Changed(high_watermark_raised=True)
    assert log.high_watermark == 2


def test_metadata_of_an_older_partition_epoch_are_left():
    partition = led(epoch=5, partition_epoch=9)
    assert partition.make_leader(registration(1, 5, partition_epoch=8, isr=(1,)), 0) == Transition()
    assert partition.make_follower(registration(2, 6, partition_epoch=8), 0) == Transition()
    assert partition.make_follower(registration(2, 4, partition_epoch=10), 0) == Transition()
    assert partition.leadership.isr_size == 3
    follower = Brokers().partition()
    follower.open_log(opened(MemoryVfs()), 0)
    follower.make_follower(registration(2, 5, partition_epoch=9), 0)
    assert follower.make_leader(registration(1, 6, partition_epoch=8), 0) == Transition()
    assert follower.role == Following(2, 5, 9)


def test_a_later_partition_epoch_of_a_leader_changes_the_isr_and_the_assignment_only():
    partition = led(2)
    leader = partition.leadership
    fetch(partition, 1, from_follower(2), now_ms=7)
    known = leader.replicas[2]
    transition = partition.make_leader(
        registration(
            1,
            1,
            partition_epoch=2,
            isr=(1, 2),
            replicas=(1, 2, 3, 4),
            adding_replicas=(4,),
            removing_replicas=(3,),
        ),
        9,
    )
    assert transition == Transition(is_taken=True, changed=Changed(high_watermark_raised=True))
    assert partition.log.high_watermark == 1
    assert partition.leadership is leader
    assert leader.epoch_start_offset == 0
    assert leader.replicas[2] is known
    assert leader.replicas[4].last_caught_up_ms is None
    assert leader.state == CommittedPartitionState((1, 2))
    assert (partition.leader_epoch, partition.partition_epoch) == (1, 2)
    partition.make_leader(registration(1, 1, partition_epoch=3, isr=(1, 2), replicas=(1, 2, 4)), 9)
    assert set(leader.replicas) == {2, 4}


def test_a_leader_elected_again_starts_its_replicas_anew():
    partition = led(2)
    fetch(partition, 1, from_follower(2), now_ms=7)
    transition = partition.make_leader(registration(1, 2, isr=(1, 3)), 50)
    assert transition == Transition(is_taken=True, is_new_leader_epoch=True)
    leader = partition.leadership
    assert leader.epoch_start_offset == 2
    assert partition.log.epoch_entries[-1].epoch == 2
    assert leader.replicas[2].log_end == LogOffsetMetadata(
        1, (0, leader.replicas[2].log_end.place[1])
    )
    assert leader.replicas[2].last_caught_up_ms is None
    assert leader.replicas[2].leader_end_offset == 2
    assert leader.replicas[3].last_caught_up_ms == 50


def test_a_leader_that_was_a_follower_knows_nothing_of_its_replicas():
    partition = led(2)
    fetch(partition, 1, from_follower(2), now_ms=7)
    partition.make_follower(registration(2, 2), 8)
    transition = partition.make_leader(registration(1, 3, isr=(1, 2)), 50)
    assert transition == Transition(is_taken=True, is_new_leader=True, is_new_leader_epoch=True)
    replicas = partition.leadership.replicas
    assert replicas[2].log_end is None
    assert (replicas[2].last_caught_up_ms, replicas[3].last_caught_up_ms) == (50, None)
    assert replicas[2].leader_end_offset is None


def test_a_leader_after_an_unclean_election_proposes_that_it_has_recovered():
    partition = led(isr=(1,), leader_recovery_state=LEADER_RECOVERING)
    proposal = fetch(partition, 0, from_follower(2)).changed.proposal
    assert proposal.leader_recovery_state == LEADER_RECOVERED
    assert proposal.isr == ((1, 11), (2, 12))


def test_metadata_are_those_of_the_role_that_is_asked_for():
    partition = led()
    with pytest.raises(AssertionError, match="leader"):
        partition.make_leader(registration(2, 2), 0)
    with pytest.raises(AssertionError, match="leader"):
        partition.make_follower(registration(1, 2), 0)
    with pytest.raises(AssertionError, match="INV-PT-3"):
        partition.make_follower(registration(2, 1, partition_epoch=2), 0)


# --- follower


def test_a_leader_becomes_follower_and_its_fetcher_starts_for_a_new_leader_epoch_only():
    partition = led(1)
    transition = partition.make_follower(registration(2, 2), 0)
    assert transition == Transition(is_taken=True, is_new_leader_epoch=True)
    assert partition.role == Following(2, 2, 2)
    transition = partition.make_follower(registration(2, 2, partition_epoch=3, isr=(2,)), 0)
    assert transition == Transition(is_taken=True)
    assert partition.role == Following(2, 2, 3)
    assert partition.make_follower(registration(-1, 3, partition_epoch=4), 0).is_new_leader_epoch
    assert partition.role == Following(None, 3, 4)
    assert partition.leadership is NOT_LEADER
    assert append(partition, 0) is NOT_LEADER
    assert partition.delete_records_on_leader(0) is NOT_LEADER
    assert partition.maybe_shrink_isr(LAG_MS * 9) == UNCHANGED
    assert partition.configure(PartitionSettings(), 0) == UNCHANGED


def test_the_leader_epoch_of_a_request_is_compared():
    partition = led(1, epoch=5)
    for epoch, code in (
        (None, ErrorCode.none),
        (4, FENCED),
        (5, ErrorCode.none),
        (6, UNKNOWN_EPOCH),
    ):
        assert partition.check_current_leader_epoch(epoch) is code
        expected = partition.log if code is ErrorCode.none else code
        assert partition.local_log(epoch, is_leader_only=True) is expected
    partition.make_follower(registration(2, 6), 0)
    assert partition.local_log(5, is_leader_only=True) is FENCED
    assert partition.local_log(6, is_leader_only=True) is NOT_LEADER
    assert partition.local_log(6, is_leader_only=False) is partition.log


# --- append


def test_records_are_appended_with_the_leader_epoch_and_committed_when_the_isr_has_them():
    partition = led(epoch=5, isr=(1,))
    appended = append(partition, LAG_MS, acks=-1, count=2)
    assert (appended.append.base_offset, appended.append.end_offset) == (0, 2)
    assert appended.changed == Changed(high_watermark_raised=True)
    assert partition.log.last_epoch == 5
    partition = led()
    assert append(partition, 0, acks=-1).changed == UNCHANGED
    assert partition.leadership.high_watermark == 0


def test_too_few_replicas_in_sync_refuse_acks_all_and_hold_the_high_watermark():
    partition = led(minimum=2, isr=(1,))
    assert append(partition, LAG_MS, acks=-1) is ErrorCode.not_enough_replicas
    assert partition.log.end_offset == 0
    for acks in (0, 1):
        assert append(partition, LAG_MS, acks=acks).changed == UNCHANGED
    assert partition.log.end_offset == 2
    assert partition.configure(PartitionSettings(min_insync_replicas=2), LAG_MS) == UNCHANGED
    changed = partition.configure(PartitionSettings(min_insync_replicas=1), LAG_MS)
    assert changed == Changed(high_watermark_raised=True)
    assert append(partition, LAG_MS, acks=-1).append.end_offset == 3


def test_the_minimum_is_at_most_the_number_of_replicas():
    partition = led(minimum=5)
    assert partition.leadership.effective_min_isr == 3
    assert append(partition, 0, acks=-1).append.end_offset == 1
    assert partition.leadership.maximal_isr_size == 3


def test_the_settings_before_a_leadership_hold_in_it():
    partition = led(isr=(1,))
    partition.make_follower(registration(2, 2), 0)
    partition.configure(PartitionSettings(min_insync_replicas=2), 0)
    partition.make_leader(registration(1, 3, isr=(1,)), 0)
    assert append(partition, 0, acks=-1) is ErrorCode.not_enough_replicas


def test_who_is_in_sync_and_how_many_must_be():
    partition = led(minimum=2, isr=(1, 2))
    assert [partition.leadership.is_in_sync(each) for each in (1, 2, 3)] == [True, True, False]
    assert not partition.leadership.is_under_min_isr
    assert led(minimum=2, isr=(1,)).leadership.is_under_min_isr


def test_the_default_settings_are_those_of_kafka():
    assert PartitionSettings() == PartitionSettings(min_insync_replicas=1, deletes=True)


# --- answers of the controller


def test_an_answer_is_adopted_with_its_partition_epoch():
    partition = led(2, isr=(1,))
    proposal = fetch(partition, 2, from_follower(2), now_ms=1).changed.proposal
    answer = LeaderAndIsr(
        leader_id=1,
        leader_epoch=1,
        partition_epoch=2,
        isr=(1, 2),
        leader_recovery_state=LEADER_RECOVERED,
    )
    answered = partition.on_answer(proposal, answer, 1)
    assert answered == Answered(Outcome.ADOPTED)
    assert partition.partition_epoch == 2
    assert partition.leadership.state == CommittedPartitionState((1, 2))
    assert partition.on_answer(proposal, answer, 1) == Answered(Outcome.IGNORED)


def test_an_answer_to_one_that_leads_no_more_is_ignored():
    partition = led(2, isr=(1,))
    proposal = fetch(partition, 2, from_follower(2), now_ms=1).changed.proposal
    partition.make_follower(registration(2, 2), 0)
    code = ErrorCode.fenced_leader_epoch
    assert partition.on_answer(proposal, code, 1) == Answered(Outcome.IGNORED)


# --- deletion


def test_records_are_deleted_up_to_the_high_watermark():
    partition = led(4, isr=(1,), replicas=(1,))
    deletion = partition.delete_records_on_leader(2)
    assert (deletion.requested_offset, deletion.low_watermark) == (2, 2)
    assert deletion.changed == Changed(low_watermark_raised=True)
    assert partition.log.log_start_offset == 2
    again = partition.delete_records_on_leader(1)
    assert (again.requested_offset, again.low_watermark, again.changed) == (1, 2, UNCHANGED)
    assert partition.delete_records_on_leader(5) is ErrorCode.offset_out_of_range
    assert partition.delete_records_on_leader(-2) is ErrorCode.offset_out_of_range
    assert partition.log.log_start_offset == 2
    to_end = partition.delete_records_on_leader(-1)
    assert (to_end.requested_offset, to_end.low_watermark) == (4, 4)


def test_records_of_a_compacted_topic_are_not_deleted():
    partition = led(4, isr=(1,), deletes=False)
    assert partition.delete_records_on_leader(1) is ErrorCode.policy_violation
    partition.configure(PartitionSettings(), 0)
    assert partition.delete_records_on_leader(0).requested_offset == 0


def test_a_deletion_waits_for_the_live_followers():
    brokers = Brokers()
    partition = led(4, brokers=brokers, isr=(1, 2), replicas=(1, 2))
    fetch(partition, 4, from_follower(2), now_ms=1)
    assert partition.leadership.low_watermark == 0
    deletion = partition.delete_records_on_leader(3)
    assert (deletion.low_watermark, deletion.changed) == (0, UNCHANGED)
    changed = fetch(partition, 4, from_follower(2), now_ms=2, log_start_offset=2).changed
    assert (changed, partition.leadership.low_watermark) == (Changed(low_watermark_raised=True), 2)
    assert fetch(partition, 4, from_follower(2), now_ms=2, log_start_offset=2).changed == UNCHANGED
    brokers.registered[2].fenced = True
    assert partition.leadership.low_watermark == 3


# --- offsets


def test_the_ends_of_a_log_have_their_places():
    log = opened(MemoryVfs(), segment_bytes=200)
    partition = led(4, log=log, isr=(1, 2), replicas=(1, 2))
    fetch(partition, 3, from_follower(2), now_ms=1)
    log_end, watermark, stable = (
        partition.end(each, 1, is_leader_only=True) for each in (LOG_END, WATERMARK, STABLE)
    )
    assert log_end == LogOffsetMetadata(4, log.place_of(4))
    assert watermark == LogOffsetMetadata(3, log.place_of(3))
    assert stable is watermark
    assert partition.end(LOG_END, 0, is_leader_only=True) is FENCED


def test_the_last_epoch_is_the_newest_that_the_log_knows():
    partition = led(1, isr=(1,), replicas=(1,), epoch=5)
    assert [partition.is_last_epoch(epoch) for epoch in (4, 5, 6)] == [False, True, False]
    assert not Brokers().partition().is_last_epoch(5)


def test_an_open_transaction_holds_the_last_stable_offset():
    partition = led(1, isr=(1,), replicas=(1,))
    partition.append_as_leader(
        produced(WALL_MS, producer=7, attributes=0x10), required_acks=1, wall_ms=WALL_MS, now_ms=0
    )
    stable, watermark = (
        partition.end(each, None, is_leader_only=True) for each in (STABLE, WATERMARK)
    )
    assert stable == LogOffsetMetadata(1, partition.log.place_of(1))
    assert watermark.offset == 2
    latest = partition.offset_for_timestamp(LATEST, STABLE, None, is_leader_only=True)
    assert latest.offset == 1


def test_offsets_by_time():
    assert (LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL) == (-1, -2, -3, -4), "on the wire"
    partition = led(isr=(1, 2), replicas=(1, 2), epoch=5)
    for timestamp_ms in (WALL_MS, WALL_MS + 5, WALL_MS + 3):
        partition.append_as_leader(
            produced(timestamp_ms), required_acks=1, wall_ms=WALL_MS, now_ms=0
        )

    def found(timestamp_ms, isolation=WATERMARK, epoch=5):
        return partition.offset_for_timestamp(timestamp_ms, isolation, epoch, is_leader_only=True)

    fetch(partition, 2, from_follower(2), now_ms=1)
    assert found(LATEST) == TimestampAndOffset(-1, 2, 5)
    assert found(LATEST, LOG_END) == TimestampAndOffset(-1, 3, 5)
    assert found(EARLIEST) == found(EARLIEST_LOCAL) == TimestampAndOffset(-1, 0, 5)
    assert found(MAX_TIMESTAMP) == TimestampAndOffset(WALL_MS + 5, 1, 5)
    assert found(WALL_MS + 1) == TimestampAndOffset(WALL_MS + 5, 1, 5)
    assert found(WALL_MS + 6) is None
    assert found(0) == TimestampAndOffset(WALL_MS, 0, 5)
    assert found(-5) is found(-6) is None
    assert found(LATEST, epoch=4) is FENCED


def test_a_record_that_is_not_committed_has_no_offset_by_time():
    partition = led(1, isr=(1, 2), replicas=(1, 2))

    def found(isolation):
        return partition.offset_for_timestamp(WALL_MS, isolation, None, is_leader_only=True)

    assert found(WATERMARK) is None
    assert found(LOG_END) == TimestampAndOffset(WALL_MS, 0, 1)


def test_a_new_leader_with_a_high_watermark_below_its_epoch_does_not_tell_the_end():
    log = opened(MemoryVfs())
    log.append_as_leader(produced(WALL_MS, WALL_MS), 3, WALL_MS)
    log.set_high_watermark(1)
    partition = led(log=log, epoch=5, isr=(1, 2), replicas=(1, 2))

    def found(timestamp_ms, isolation=WATERMARK):
        return partition.offset_for_timestamp(timestamp_ms, isolation, None, is_leader_only=False)

    log.append_as_leader(produced(WALL_MS + 9), 5, WALL_MS)
    for isolation in (WATERMARK, STABLE):
        assert found(LATEST, isolation) is ErrorCode.offset_not_available
        assert found(WALL_MS + 5, isolation) is ErrorCode.offset_not_available
        assert found(MAX_TIMESTAMP, isolation) is ErrorCode.offset_not_available
        assert found(WALL_MS + 10, isolation) is ErrorCode.offset_not_available
        assert found(EARLIEST, isolation).offset == found(WALL_MS, isolation).offset == 0
    assert found(LATEST, LOG_END).offset == 3
    fetch(partition, 2, from_follower(2), now_ms=1)
    assert found(LATEST).offset == 2
    partition.make_follower(registration(2, 6), 0)
    assert found(LATEST).leader_epoch == 6
    assert not isinstance(partition.role, Leadership)
