"""The simulator's own judgement of the cause with which a leadership ends."""

import pytest

from raft.effects import Effects, LeaderChanged
from raft.elections.leader_loss import Cause, LeaderLoss
from raft.events import DiskFull, RequestReceived, ResignRequested, ShutdownRequested, TimeAdvanced
from simulator.checks.raft.causes import causes_of, wrong_cause
from tests.simulator.checks.raft.test_roles import follower_of, leading, resigned, unattached
from wire.types import LeaderAndEpoch


def effects_with(*causes):
    changes = [
        LeaderChanged(
            leader=LeaderAndEpoch(None, 3),
            loss=cause
            and LeaderLoss(
                cause=cause,
                evidence="",
                role="leader",
                lost_epoch=3,
                lost_leader_id=1,
                noticed_ms=0,
            ),
        )
        for cause in causes
    ]
    return Effects(notify=changes)


@pytest.mark.parametrize(
    ("kind", "after", "causes"),
    [
        (DiskFull, resigned(3), [Cause.DISK_FULL]),
        (ShutdownRequested, resigned(3), [Cause.OPERATOR]),
        (ResignRequested, resigned(3), [Cause.FAULT]),
        (TimeAdvanced, resigned(3), [Cause.CHECK_QUORUM]),
        (RequestReceived, resigned(3), [Cause.STALLED_FLUSH]),
        (RequestReceived, resigned(3), [Cause.REMOVED]),
        (RequestReceived, unattached(4), [Cause.FENCED]),
        (RequestReceived, follower_of(2, 4), [Cause.FENCED]),
        (ResignRequested, leading(4), [Cause.FAULT, None]),
    ],
)
def test_a_leadership_ends_with_the_cause_of_its_event(kind, after, causes):
    assert wrong_cause(leading(3), after, kind, effects_with(*causes)) is None


@pytest.mark.parametrize(
    ("kind", "after", "causes"),
    [
        (DiskFull, resigned(3), [Cause.CHECK_QUORUM]),
        (TimeAdvanced, resigned(3), [Cause.DISK_FULL]),
        (TimeAdvanced, resigned(3), [Cause.FENCED]),
        (TimeAdvanced, resigned(3), [None]),
        (TimeAdvanced, resigned(3), []),
        (RequestReceived, unattached(4), [Cause.CHECK_QUORUM]),
        (RequestReceived, unattached(4), [Cause.FENCED, Cause.CANDIDACY]),
    ],
)
def test_another_cause_is_wrong(kind, after, causes):
    wrong = wrong_cause(leading(3), after, kind, effects_with(*causes))
    assert wrong is not None
    assert wrong.startswith(f"its epoch 3 ended by {kind.__name__}, the cause is ")


def test_other_roles_are_not_judged():
    assert wrong_cause(follower_of(2, 3), unattached(4), TimeAdvanced, Effects()) is None


def test_the_causes_of_a_step_are_in_order():
    assert causes_of(effects_with(Cause.FENCED, None)) == [Cause.FENCED, None]
