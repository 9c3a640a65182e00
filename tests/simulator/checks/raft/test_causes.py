"""The simulator's own judgement of the cause with which a leadership ends."""

import pytest

from raft.effects import Effects, LeaderChanged
from raft.elections.leader_loss import Cause, LeaderLoss
from raft.events import DiskFull, RequestReceived, ResignRequested, ShutdownRequested, TimeAdvanced
from raft.fetching.progress import Progress
from raft.roles import Transfer
from simulator.checks.raft.causes import causes_of, wrong_cause, wrong_successor
from tests.simulator.checks.raft.test_roles import follower_of, leading, resigned, unattached
from wire.types import LeaderAndEpoch, ReplicaKey


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


@pytest.mark.parametrize("kind", [RequestReceived, TimeAdvanced])
def test_a_transfer_ends_a_leadership_at_any_event(kind):
    causes = effects_with(Cause.OPERATOR)
    assert wrong_cause(leading(3), resigned(3), kind, causes, is_transferred=True) is None
    assert wrong_cause(leading(3), resigned(3), kind, causes) is not None
    fenced = effects_with(Cause.OPERATOR)
    assert wrong_cause(leading(3), unattached(4), kind, fenced, is_transferred=True) is not None


TRANSFER = Transfer(reply_token=1, target=ReplicaKey(2), epoch=3, end_offset=7, deadline_ms=9)


def successor(reached, ends, kind=TimeAdvanced, cause=Cause.OPERATOR, transfer=TRANSFER):
    before = leading(3)
    before.progress = {ReplicaKey(2): Progress(end_offset=reached)}
    return wrong_successor(before, kind, effects_with(cause), transfer, ends)


def test_a_successor_has_the_whole_log_and_all_of_it_is_committed():
    assert successor(7, (7, 7)) is None
    said = "its leadership went to 2, which has"
    assert successor(6, (7, 7)) == f"{said} 6 of 7, 7 committed"
    assert successor(7, (7, 6)) == f"{said} 7 of 7, 6 committed"
    assert successor(7, (8, 7)) == f"{said} 7 of 8, 7 committed"


@pytest.mark.parametrize("more", [
    {"transfer": None}, {"cause": Cause.CHECK_QUORUM}, {"kind": ShutdownRequested},
])  # fmt: skip
def test_other_resignations_choose_no_successor(more):
    assert successor(0, (7, 7), **more) is None


def test_a_follower_hands_nothing_over():
    effects = effects_with(Cause.OPERATOR)
    assert wrong_successor(follower_of(2, 3), TimeAdvanced, effects, TRANSFER, (7, 7)) is None
