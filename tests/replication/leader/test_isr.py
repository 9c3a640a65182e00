"""The ISR of a led partition: changes, answers, and both watermarks."""

from dataclasses import dataclass

import pytest

from metadata.image import LEADER_RECOVERED, LEADER_RECOVERING
from replication.leader.isr import (
    CommittedPartitionState,
    Epochs,
    LeaderAndIsr,
    Outcome,
    PendingExpandIsr,
    PendingShrinkIsr,
    ProposedIsr,
    adopted,
    committed_isr,
    effective_min_isr,
    expand,
    high_watermark,
    low_watermark,
    maximal_isr,
    needs_expansion,
    out_of_sync_replicas,
    outcome_of,
    shrink,
)
from replication.leader.replica import ReplicaState
from replication.log_offsets import LogOffsetMetadata
from wire.errors import ErrorCode

NOW_MS, LAG_MS = 1_000, 100
EPOCHS = {"leader_epoch": 3, "partition_epoch": 7}
BOTH = CommittedPartitionState((1, 2))
EXPANDING = expand(BOTH, 3, Epochs(3, 7, {1: 11, 2: 12, 3: 13}))
SHRINKING = shrink(BOTH, (2,), Epochs(3, 7, {1: 11, 2: 12}))


@dataclass
class Broker:
    epoch: int = 5
    fenced: bool = False
    in_controlled_shutdown: bool = False


def at(offset, segment=None):
    return LogOffsetMetadata(offset, None if segment is None else (segment, 0))


def replica(offset, *, is_in_sync=True, start=0):
    return ReplicaState(
        log_end=None if offset is None else at(offset),
        log_start_offset=start,
        last_caught_up_ms=NOW_MS if is_in_sync else None,
        broker_epoch=5,
    )


# --- changes


def test_an_expansion_counts_at_once_for_the_high_watermark():
    pending = EXPANDING
    assert pending == PendingExpandIsr(
        3,
        ProposedIsr(
            leader_epoch=3,
            partition_epoch=7,
            isr=((1, 11), (2, 12), (3, 13)),
            leader_recovery_state=LEADER_RECOVERED,
        ),
        BOTH,
    )
    assert committed_isr(EXPANDING) == (1, 2)
    assert maximal_isr(EXPANDING) == (1, 2, 3)


def test_a_shrink_counts_when_it_is_committed():
    pending = SHRINKING
    assert pending == PendingShrinkIsr(
        (2,),
        ProposedIsr(
            leader_epoch=3,
            partition_epoch=7,
            isr=((1, 11),),
            leader_recovery_state=LEADER_RECOVERED,
        ),
        BOTH,
    )
    assert committed_isr(SHRINKING) == (1, 2)
    assert maximal_isr(SHRINKING) == (1, 2)


def test_the_committed_isr_is_the_maximal_one():
    assert committed_isr(BOTH) == maximal_isr(BOTH) == (1, 2)


def test_a_proposal_has_no_epoch_of_a_member_that_has_not_fetched_and_keeps_the_recovery_state():
    state = CommittedPartitionState((1, 2), LEADER_RECOVERING)
    proposed = expand(state, 3, Epochs(3, 7, {1: 11, 3: None})).proposed
    assert proposed.isr == ((1, 11), (2, None), (3, None))
    assert proposed.leader_recovery_state == LEADER_RECOVERING
    proposed = shrink(state, (2,), Epochs(3, 7, {})).proposed
    assert proposed.isr == ((1, None),)
    assert proposed.leader_recovery_state == LEADER_RECOVERING


def test_proposals_that_make_no_sense():
    with pytest.raises(AssertionError):
        expand(BOTH, 2, Epochs(3, 7, {}))
    for leaving in ((), (1, 2), (3,)):
        with pytest.raises(AssertionError):
            shrink(BOTH, leaving, Epochs(3, 7, {}))


@pytest.mark.parametrize(
    ("min_insync_replicas", "count", "expected"), [(1, 3, 1), (3, 3, 3), (4, 3, 3)]
)
def test_min_isr_is_at_most_the_number_of_replicas(min_insync_replicas, count, expected):
    assert effective_min_isr(min_insync_replicas, count) == expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, True),
        ({"replica": replica(11)}, True),
        ({"replica": replica(9)}, False),
        ({"high_watermark": 11}, False),
        ({"epoch_start_offset": 11}, False),
        ({"high_watermark": 0, "epoch_start_offset": 0}, True),
        ({"replica": replica(10, is_in_sync=False)}, True),  # the lag does not count
        ({"replica": replica(None)}, False),
        ({"replica": None}, False),
        ({"broker": None}, False),
        ({"broker": Broker(fenced=True)}, False),
        ({"broker": Broker(epoch=6)}, False),
        ({"replica_id": 2}, False),  # a member
        ({"state": EXPANDING, "replica_id": 4}, False),
        ({"state": SHRINKING}, False),
    ],
)
def test_who_is_to_join(changed, expected):
    fields = {
        "state": BOTH,
        "replica_id": 3,
        "replica": replica(10),
        "broker": Broker(),
        "high_watermark": 10,
        "epoch_start_offset": 10,
        **changed,
    }
    assert needs_expansion(**fields) is expected


@pytest.mark.parametrize(
    ("state", "replicas", "expected"),
    [
        (CommittedPartitionState((2, 1, 3)), {2: replica(9), 3: replica(9)}, ()),
        (
            CommittedPartitionState((2, 1, 3)),
            {2: replica(9, is_in_sync=False), 3: replica(10, is_in_sync=False)},
            (2,),
        ),
        (CommittedPartitionState((2, 1, 3)), {}, (2, 3)),
        (CommittedPartitionState((1,)), {2: replica(9, is_in_sync=False)}, ()),
        (SHRINKING, {}, ()),
        (EXPANDING, {}, ()),
    ],
)
def test_who_is_to_leave(state, replicas, expected):
    leaving = out_of_sync_replicas(
        state, 1, replicas, leader_end_offset=10, now_ms=NOW_MS, lag_ms_max=LAG_MS
    )
    assert leaving == expected


def test_a_member_leaves_after_the_lag_time():
    replicas = {2: ReplicaState(log_end=at(9), last_caught_up_ms=NOW_MS - LAG_MS)}
    for now_ms, leaving in ((NOW_MS, ()), (NOW_MS + 1, (2,))):
        assert leaving == out_of_sync_replicas(
            BOTH, 1, replicas, leader_end_offset=10, now_ms=now_ms, lag_ms_max=LAG_MS
        )


# --- answers

ACCEPTED = LeaderAndIsr(
    leader_id=1,
    leader_epoch=3,
    partition_epoch=8,
    isr=(1, 2, 3),
    leader_recovery_state=LEADER_RECOVERED,
)


def accepted(**changed):
    fields = {name: getattr(ACCEPTED, name) for name in ACCEPTED.__struct_fields__}
    return LeaderAndIsr(**{**fields, **changed})


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (accepted(), Outcome.ADOPTED),
        (accepted(partition_epoch=7), Outcome.ADOPTED),
        (accepted(partition_epoch=6), Outcome.WAITING),
        (accepted(leader_epoch=2), Outcome.WAITING),
        (accepted(leader_epoch=4), Outcome.WAITING),
        (ErrorCode.ineligible_replica, Outcome.ROLLED_BACK),
        (ErrorCode.operation_not_attempted, Outcome.ROLLED_BACK),
        (ErrorCode.unknown_topic_or_partition, Outcome.WAITING),
        (ErrorCode.unknown_topic_id, Outcome.WAITING),
        (ErrorCode.fenced_leader_epoch, Outcome.WAITING),
        (ErrorCode.invalid_update_version, Outcome.WAITING),
        (ErrorCode.invalid_request, Outcome.WAITING),
        (ErrorCode.new_leader_elected, Outcome.WAITING),
        (ErrorCode.not_controller, Outcome.TO_RETRY),
        (ErrorCode.unknown_server_error, Outcome.TO_RETRY),
    ],
)
@pytest.mark.parametrize("state", [EXPANDING, SHRINKING])
def test_the_outcome_of_each_answer(state, answer, expected):
    assert outcome_of(state, state.proposed, answer, **EPOCHS) is expected


@pytest.mark.parametrize("answer", [ACCEPTED, ErrorCode.ineligible_replica])
@pytest.mark.parametrize("state", [BOTH, SHRINKING])
def test_an_answer_to_another_proposal_is_ignored(state, answer):
    assert outcome_of(state, EXPANDING.proposed, answer, **EPOCHS) is Outcome.IGNORED


def test_what_is_adopted_is_what_the_controller_says():
    answer = accepted(isr=(3, 1), leader_recovery_state=LEADER_RECOVERING)
    assert adopted(answer) == CommittedPartitionState((3, 1), LEADER_RECOVERING)


# --- watermarks


def watermark(state, replicas, *, current=5, log_end=10, min_isr=1, broker=None):
    raised = high_watermark(
        state,
        at(current),
        at(log_end),
        replicas,
        lambda _: broker or Broker(),
        min_isr=min_isr,
        now_ms=NOW_MS,
        lag_ms_max=LAG_MS,
    )
    return None if raised is None else raised.offset


LAGGING = {"is_in_sync": False}


@pytest.mark.parametrize(
    ("state", "replicas", "expected"),
    [
        (CommittedPartitionState((1,)), {}, 10),
        (BOTH, {2: replica(8)}, 8),
        (BOTH, {2: replica(8, **LAGGING)}, 8),
        (BOTH, {2: replica(12)}, 10),
        (BOTH, {2: replica(10)}, 10),
        (BOTH, {2: replica(5)}, None),
        (BOTH, {2: replica(4)}, None),
        (BOTH, {2: replica(None)}, None),
        (BOTH, {2: replica(8), 3: replica(7)}, 7),  # caught up a moment ago: it may join
        (BOTH, {2: replica(7), 3: replica(8)}, 7),
        (BOTH, {2: replica(8), 3: replica(7, **LAGGING)}, 8),
        (BOTH, {2: replica(8), 3: replica(None)}, 8),
        (BOTH, {2: replica(8), 3: replica(3)}, None),
        (EXPANDING, {2: replica(8), 3: replica(7, **LAGGING)}, 7),
        (SHRINKING, {2: replica(6, **LAGGING)}, 6),
    ],
)
def test_the_high_watermark_is_what_the_maximal_isr_has(state, replicas, expected):
    assert watermark(state, replicas) == expected


@pytest.mark.parametrize(
    ("broker", "expected"),
    [
        (Broker(), 7),
        (Broker(fenced=True), 8),
        (Broker(epoch=6), 8),
        (Broker(in_controlled_shutdown=True), 8),
    ],
)
def test_it_waits_only_for_replicas_that_may_join(broker, expected):
    assert watermark(BOTH, {2: replica(8), 3: replica(7)}, broker=broker) == expected


@pytest.mark.parametrize(
    ("state", "min_isr", "expected"),
    [
        (BOTH, 1, 8),
        (BOTH, 2, 8),
        (BOTH, 3, None),
        (EXPANDING, 3, None),  # the committed ISR counts, not the maximal one
        (SHRINKING, 2, 8),
    ],
)
def test_it_does_not_move_below_min_isr(state, min_isr, expected):
    assert watermark(state, {2: replica(8), 3: replica(8)}, min_isr=min_isr) == expected


@pytest.mark.parametrize(
    ("current", "new", "is_raised"),
    [
        (at(5), at(6), True),
        (at(6), at(6), False),
        (at(6, 0), at(6, 6), True),  # the log rolled at 6
        (at(6, 6), at(6, 6), False),
        (at(6, 6), at(6, 0), False),
        (at(6), at(6, 6), False),
        (at(6, 0), at(6), False),
    ],
)
def test_it_is_raised_to_a_later_offset_or_segment(current, new, is_raised):
    raised = high_watermark(
        CommittedPartitionState((1,)),
        current,
        new,
        {},
        lambda _: None,
        min_isr=1,
        now_ms=NOW_MS,
        lag_ms_max=LAG_MS,
    )
    assert raised == (new if is_raised else None)


def test_the_place_of_the_high_watermark_is_that_of_the_replica():
    state = ReplicaState(log_end=LogOffsetMetadata(8, (0, 80)))
    raised = high_watermark(
        BOTH,
        at(5),
        at(10),
        {2: state},
        lambda _: None,
        min_isr=1,
        now_ms=NOW_MS,
        lag_ms_max=LAG_MS,
    )
    assert raised == LogOffsetMetadata(8, (0, 80))


def test_it_is_not_lowered_to_a_later_segment():
    state = ReplicaState(log_end=at(5, 4))
    raised = high_watermark(
        BOTH,
        at(6, 0),
        at(10, 4),
        {2: state},
        lambda _: None,
        min_isr=1,
        now_ms=NOW_MS,
        lag_ms_max=LAG_MS,
    )
    assert raised is None


def test_the_place_of_the_log_end_is_newer_than_that_of_a_replica_with_all():
    state = ReplicaState(log_end=LogOffsetMetadata(10, (0, 80)))
    raised = high_watermark(
        BOTH,
        at(5),
        LogOffsetMetadata(10, (10, 0)),
        {2: state},
        lambda _: None,
        min_isr=1,
        now_ms=NOW_MS,
        lag_ms_max=LAG_MS,
    )
    assert raised == LogOffsetMetadata(10, (10, 0))


def test_a_high_watermark_above_the_log_end_is_an_error():
    with pytest.raises(AssertionError):
        watermark(BOTH, {}, current=11)


@pytest.mark.parametrize(
    ("replicas", "brokers", "expected"),
    [
        ({}, {}, 6),
        ({2: replica(9, start=4), 3: replica(9, start=5)}, {2: Broker(), 3: Broker()}, 4),
        ({2: replica(9, start=7)}, {2: Broker()}, 6),
        ({2: replica(9, start=4)}, {}, 6),
        ({2: replica(9, start=4)}, {2: Broker(fenced=True)}, 6),
        ({2: replica(9, start=4)}, {2: Broker(in_controlled_shutdown=True)}, 4),
        ({2: replica(None, start=None)}, {2: Broker()}, None),
        ({2: replica(None, start=None)}, {}, 6),
        ({2: replica(9, start=None), 3: replica(9, start=2)}, {3: Broker()}, 2),
    ],
)
def test_the_low_watermark_is_the_smallest_start_of_the_live(replicas, brokers, expected):
    assert low_watermark(6, replicas, brokers.get) == expected
