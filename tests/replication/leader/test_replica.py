"""State of a follower at its leader: caught up, in sync, eligible, stale."""

from dataclasses import dataclass

import pytest

from replication.leader.replica import ReplicaState, is_stale, new_replica
from replication.log_offsets import LogOffsetMetadata

LAG_MS = 100


@dataclass
class Broker:
    epoch: int = 5
    fenced: bool = False
    in_controlled_shutdown: bool = False


def at(offset):
    return LogOffsetMetadata(offset)


def fetched(state, offset, leader_end_offset, now_ms, broker_epoch=5):
    return state.after_fetch(
        at(offset), 0, leader_end_offset=leader_end_offset, broker_epoch=broker_epoch, now_ms=now_ms
    )


def test_a_new_replica_has_not_fetched_and_its_lag_starts_now_if_it_is_in_sync():
    assert new_replica(7, is_in_sync=True) == ReplicaState(last_caught_up_ms=7)
    assert new_replica(7, is_in_sync=False) == ReplicaState()


def test_a_fetch_is_kept():
    state = new_replica(7, is_in_sync=False).after_fetch(
        LogOffsetMetadata(10, (8, 64)), 3, leader_end_offset=12, broker_epoch=5, now_ms=9
    )
    assert state == ReplicaState(
        log_end=LogOffsetMetadata(10, (8, 64)),
        log_start_offset=3,
        leader_end_offset=12,
        last_fetch_ms=9,
        last_caught_up_ms=None,
        broker_epoch=5,
    )


@pytest.mark.parametrize(
    ("offset", "caught_up_ms"),
    [
        (8, 50),  # below the end at the previous fetch: as before
        (9, 50),
        (10, 60),  # all of what there was at the previous fetch, at 60
        (11, 60),
        (12, 70),  # all
        (13, 70),
    ],
)
def test_what_a_follower_has_says_when_it_was_caught_up(offset, caught_up_ms):
    state = ReplicaState(
        log_end=at(8), leader_end_offset=10, last_fetch_ms=60, last_caught_up_ms=50
    )
    state = fetched(state, offset, 12, 70)
    assert state.last_caught_up_ms == caught_up_ms
    assert (state.leader_end_offset, state.last_fetch_ms) == (12, 70)


def test_being_caught_up_is_never_taken_back():
    state = ReplicaState(leader_end_offset=10, last_fetch_ms=60, last_caught_up_ms=65)
    assert fetched(state, 10, 12, 70).last_caught_up_ms == 65
    assert fetched(state, 12, 12, 64).last_caught_up_ms == 65


def test_the_end_at_the_last_fetch_is_not_lowered():
    state = fetched(fetched(ReplicaState(), 5, 10, 60), 5, 9, 70)
    assert state.leader_end_offset == 10


def test_before_the_first_fetch_there_is_no_previous_one():
    assert fetched(ReplicaState(), 5, 10, 60).last_caught_up_ms is None
    # after a reset the end is known, the time is not
    state = ReplicaState().reset(3, 50, is_in_sync=False)
    assert fetched(state, 5, 10, 60).last_caught_up_ms is None


def test_a_reset_keeps_what_was_fetched_and_starts_the_lag():
    state = fetched(ReplicaState(), 8, 8, 10)
    again = state.reset(9, 40, is_in_sync=True)
    assert again == ReplicaState(
        log_end=at(8),
        log_start_offset=0,
        leader_end_offset=9,
        last_fetch_ms=40,
        last_caught_up_ms=40,
        broker_epoch=5,
    )
    out = state.reset(9, 40, is_in_sync=False)
    assert (out.last_fetch_ms, out.last_caught_up_ms) == (None, None)
    assert (out.log_end, out.broker_epoch, out.leader_end_offset) == (at(8), 5, 9)


@pytest.mark.parametrize(
    ("log_end", "caught_up_ms", "is_caught_up"),
    [
        (10, None, True),
        (9, None, False),
        (11, None, False),
        (None, None, False),
        (9, 900, True),
        (None, 900, True),
        (9, 899, False),
        (10, 0, True),
        (9, 1_000, True),
    ],
)
def test_caught_up_with_an_end_of_10_at_1000_ms(log_end, caught_up_ms, is_caught_up):
    state = ReplicaState(
        log_end=None if log_end is None else at(log_end), last_caught_up_ms=caught_up_ms
    )
    assert state.is_caught_up(10, 1_000, LAG_MS) is is_caught_up


def test_never_is_no_time_that_a_young_clock_could_reach():
    assert not ReplicaState(log_end=at(9)).is_caught_up(10, 1, LAG_MS)


@pytest.mark.parametrize(
    ("broker", "is_eligible"),
    [
        (Broker(), True),
        (None, False),
        (Broker(fenced=True), False),
        (Broker(in_controlled_shutdown=True), False),
        (Broker(epoch=6), False),
        (Broker(epoch=4), False),
    ],
)
def test_who_may_join_the_isr(broker, is_eligible):
    assert fetched(ReplicaState(), 0, 0, 0).is_eligible(broker) is is_eligible


def test_a_fetch_without_an_epoch_may_be_of_any_registration():
    assert fetched(ReplicaState(), 0, 0, 0, broker_epoch=None).is_eligible(Broker())
    assert not ReplicaState().is_eligible(Broker()), "it has not fetched"


@pytest.mark.parametrize(
    ("broker_epoch", "broker", "expected"),
    [
        (4, Broker(), True),
        (5, Broker(), False),
        (6, Broker(), False),
        (None, Broker(), False),
        (4, None, False),
        (4, Broker(fenced=True), False),
        (4, Broker(in_controlled_shutdown=True), True),
    ],
)
def test_a_fetch_of_an_earlier_registration_is_stale(broker_epoch, broker, expected):
    assert is_stale(broker_epoch, broker) is expected
