"""The ISR of a partition over time: shrinks, answers of the controller, metadata in between."""

import pytest

from metadata.image import LEADER_RECOVERED
from replication.leader.isr import (
    CommittedPartitionState,
    LeaderAndIsr,
    Outcome,
    PendingExpandIsr,
    PendingShrinkIsr,
)
from replication.leader.leadership import UNCHANGED, Answered, Changed
from tests.replication.partitions import LAG_MS, append, fetch, from_follower, led, registration
from wire.errors import ErrorCode

PAST_MS = LAG_MS + 1


def answer(partition_epoch, isr, leader_epoch=1):
    return LeaderAndIsr(
        leader_id=1,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        isr=isr,
        leader_recovery_state=LEADER_RECOVERED,
    )


def test_replicas_that_lag_too_long_are_to_leave_but_count_until_they_have():
    partition = led(2)
    fetch(partition, 2, from_follower(2), now_ms=PAST_MS)
    assert partition.maybe_shrink_isr(LAG_MS) == UNCHANGED
    changed = partition.maybe_shrink_isr(PAST_MS)
    assert changed.proposal.isr == ((1, 11), (2, 12))
    assert not changed.high_watermark_raised
    assert isinstance(partition.leadership.state, PendingShrinkIsr)
    assert partition.maybe_shrink_isr(PAST_MS) == UNCHANGED
    assert fetch(partition, 0, from_follower(3), now_ms=PAST_MS).changed.proposal is None
    answered = partition.on_answer(changed.proposal, answer(2, (1, 2)), 3 * PAST_MS)
    assert answered == Answered(Outcome.ADOPTED, Changed(high_watermark_raised=True))
    assert partition.leadership.high_watermark == 2
    assert partition.leadership.state == CommittedPartitionState((1, 2))


def test_the_high_watermark_rises_when_one_outside_the_isr_lags_too_long():
    partition = led(isr=(1, 2))
    fetch(partition, 0, from_follower(2), now_ms=0)
    append(partition, 0)
    partition.make_leader(registration(isr=(1,), partition_epoch=2), 0)
    assert partition.leadership.high_watermark == 0
    assert partition.maybe_shrink_isr(LAG_MS) == UNCHANGED
    assert partition.maybe_shrink_isr(PAST_MS) == Changed(high_watermark_raised=True)
    assert partition.leadership.high_watermark == 1


def test_a_shrink_is_told_beside_a_high_watermark_that_rises_with_the_time():
    partition = led(isr=(1, 2))
    for replica_id in (2, 3):
        fetch(partition, 0, from_follower(replica_id), now_ms=0)
    partition.on_answer(partition.leadership.state.proposed, answer(2, (1, 2)), 0)
    append(partition, 0, count=2)
    fetch(partition, 1, from_follower(2), now_ms=0)
    assert partition.leadership.high_watermark == 0
    changed = partition.maybe_shrink_isr(PAST_MS)
    assert changed.high_watermark_raised
    assert changed.proposal.isr == ((1, 11),)
    assert partition.leadership.high_watermark == 1


@pytest.fixture
def expanding():
    """A leader alone whose proposal to take replica 2 is not answered."""
    partition = led(1, isr=(1,), replicas=(1, 2))
    fetch(partition, 1, from_follower(2), now_ms=0)
    assert isinstance(partition.leadership.state, PendingExpandIsr)
    append(partition, 0)
    assert partition.leadership.high_watermark == 1
    return partition


@pytest.mark.parametrize("code", [ErrorCode.operation_not_attempted, ErrorCode.ineligible_replica])
def test_a_refused_proposal_is_rolled_back(expanding, code):
    proposed = expanding.leadership.state.proposed
    answered = expanding.on_answer(proposed, code, PAST_MS)
    assert answered == Answered(Outcome.ROLLED_BACK, Changed(high_watermark_raised=True))
    assert expanding.leadership.state == CommittedPartitionState((1,))
    assert expanding.partition_epoch == 1
    assert expanding.leadership.high_watermark == 2


def test_a_proposal_that_could_not_be_decided_is_sent_again(expanding):
    state = expanding.leadership.state
    answered = expanding.on_answer(state.proposed, ErrorCode.not_controller, PAST_MS)
    assert answered == Answered(Outcome.TO_RETRY, Changed(proposal=state.proposed))
    assert expanding.leadership.state is state


@pytest.mark.parametrize(
    "refusal",
    [
        ErrorCode.fenced_leader_epoch,
        ErrorCode.invalid_update_version,
        ErrorCode.new_leader_elected,
        answer(2, (1, 2), leader_epoch=2),
        answer(0, (1, 2)),
    ],
)
def test_a_proposal_stays_pending_until_metadata_come(expanding, refusal):
    state = expanding.leadership.state
    answered = expanding.on_answer(state.proposed, refusal, PAST_MS)
    assert answered == Answered(Outcome.WAITING)
    assert expanding.leadership.state is state
    assert expanding.partition_epoch == 1
    fields = {"replicas": (1, 2), "isr": (1, 2)}
    expanding.make_leader(registration(partition_epoch=2, **fields), 0)
    assert expanding.leadership.state == CommittedPartitionState((1, 2))
    assert expanding.on_answer(state.proposed, refusal, 0) == Answered(Outcome.IGNORED)


def test_an_equal_partition_epoch_is_adopted():
    partition = led(1, isr=(1,), replicas=(1, 2), partition_epoch=7)
    proposal = fetch(partition, 1, from_follower(2), now_ms=0).changed.proposal
    assert partition.on_answer(proposal, answer(7, (1, 2)), 0).outcome is Outcome.ADOPTED
    assert partition.leadership.isr_size == 2


def test_metadata_that_an_answer_preceded_leave_the_next_proposal_pending():
    """Otherwise the high watermark would not wait for a replica that is about to be in the ISR."""
    partition = led(1, isr=(1,))
    first = fetch(partition, 1, from_follower(2), now_ms=0).changed.proposal
    partition.on_answer(first, answer(2, (1, 2)), 0)
    second = fetch(partition, 1, from_follower(3), now_ms=0).changed.proposal
    assert (second.partition_epoch, len(second.isr)) == (2, 3)
    fields = {"partition_epoch": 2, "isr": (1, 2)}
    transition = partition.make_leader(registration(**fields, adding_replicas=(3,)), 0)
    assert transition.is_taken
    assert partition.leadership.state.proposed is second
    partition.make_leader(registration(partition_epoch=3, isr=(1, 2)), 0)
    assert partition.leadership.state == CommittedPartitionState((1, 2))


def test_a_new_leader_epoch_ends_a_pending_change(expanding):
    proposed = expanding.leadership.state.proposed
    expanding.make_leader(registration(epoch=2, isr=(1,), replicas=(1, 2)), 0)
    assert expanding.leadership.state == CommittedPartitionState((1,))
    assert expanding.on_answer(proposed, answer(3, (1, 2)), 0) == Answered(Outcome.IGNORED)
    assert (expanding.leader_epoch, expanding.partition_epoch) == (2, 2)
