"""Elections as nodes keep and log them: what each saw, the newest ones, and counts by cause."""

import pytest

from kernel.kernel import Kernel
from kernel.quorum.elections import ELECTIONS_MAX, Elections
from network.clock import Clock, Now
from raft.effects import LeaderChanged
from raft.elections.leader_loss import Cause, LeaderLoss
from tests.kernel.harness import World
from wire.types import LeaderAndEpoch, LeaderEpoch, NodeId


def changed(
    epoch: int, leaderless_ms: int | None = 7, cause: Cause = Cause.TIME_OUT
) -> LeaderChanged:
    return LeaderChanged(
        leader=LeaderAndEpoch(NodeId(2), LeaderEpoch(epoch)),
        loss=LeaderLoss(
            cause=cause,
            evidence="silence",
            role="follower",
            lost_epoch=LeaderEpoch(epoch - 1),
            lost_leader_id=NodeId(1),
            noticed_ms=3,
        ),
        leaderless_ms=leaderless_ms,
    )


@pytest.fixture
def elections() -> Elections:
    return Elections(Clock(Now(10, 1_700_000_000_000)))


def test_an_election_is_kept_with_what_was_seen(elections: Elections) -> None:
    elections.on_leader_changed(changed(5))
    (kept,) = elections.newest
    assert (kept.epoch, kept.leader_id, kept.lost_epoch, kept.lost_leader_id) == (5, 2, 4, 1)
    assert (kept.cause, kept.evidence, kept.role) == (Cause.TIME_OUT, "silence", "follower")
    assert (kept.known_ms, kept.leaderless_ms) == (1_700_000_000_000, 7)


def test_neither_a_start_nor_a_loss_is_an_election(elections: Elections) -> None:
    elections.on_leader_changed(LeaderChanged(leader=LeaderAndEpoch(NodeId(2), LeaderEpoch(5))))
    loss = changed(5).loss
    elections.on_leader_changed(
        LeaderChanged(leader=LeaderAndEpoch(None, LeaderEpoch(5)), loss=loss)
    )
    assert not elections.newest
    assert not elections.counts


def test_the_newest_are_kept_and_all_are_counted(elections: Elections) -> None:
    for epoch in range(1, ELECTIONS_MAX + 2):
        elections.on_leader_changed(changed(epoch))
    elections.on_leader_changed(changed(90, None, Cause.ANNOUNCED))
    assert len(elections.newest) == ELECTIONS_MAX
    assert [elections.newest[0].epoch, elections.newest[-1].epoch] == [3, 90]
    assert elections.counts == {Cause.TIME_OUT: ELECTIONS_MAX + 1, Cause.ANNOUNCED: 1}
    assert elections.leaderless_ms[Cause.TIME_OUT] == 7 * (ELECTIONS_MAX + 1)
    assert elections.leaderless_ms[Cause.ANNOUNCED] == 0


def ready() -> tuple[World, int]:
    world = World(3)
    world.start_all()
    world.run_until(world.is_ready)
    leader = world.active()
    assert leader is not None
    return world, leader


def run_on(world: World, before: int) -> int:
    """Run until another node leads and all that run follow it."""

    def is_over() -> bool:
        leader = world.active()
        return leader not in (None, before) and all(
            node.kernel.core.leader.leader_id == leader
            for node in world.nodes.values()
            if node.kernel is not None
        )

    world.run_until(is_over)
    leader = world.active()
    assert leader is not None
    return leader


def newest(kernel: Kernel) -> tuple[Cause, str]:
    election = kernel.elections.newest[-1]
    return election.cause, election.role


def test_voters_saw_a_killed_leader_refuse_connections() -> None:
    world, before = ready()
    world.kill(before)
    leader = run_on(world, before)
    election = world.kernel(leader).elections.newest[-1]
    assert (election.cause, election.role) == (Cause.EVIDENCE, "follower")
    assert (election.leader_id, election.lost_leader_id) == (leader, before)
    assert election.leaderless_ms is not None
    assert 0 < election.leaderless_ms < 1_000


def test_a_leader_that_is_stopped_knows_why_and_others_that_it_resigned() -> None:
    world, before = ready()
    kernel = world.kernel(before)
    world.terminate(before)
    leader = run_on(world, before)
    assert newest(world.kernel(leader)) == (Cause.RESIGNATION, "follower")
    assert newest(kernel) == (Cause.OPERATOR, "leader")


def test_a_change_of_the_leader_is_one_line_with_its_cause() -> None:
    world, before = ready()
    survivor = next(i for i in (1, 2, 3) if i != before)
    start = len(world.nodes[survivor].logs)
    world.kill(before)
    leader = run_on(world, before)
    lines = [line for line in world.nodes[survivor].logs[start:] if line.event == "leader_changed"]
    assert lines[-1].fields["leader_id"] == leader
    assert lines[-1].fields["cause"] == "evidence"
    assert lines[-1].fields["evidence"] == f"leader {before} refuses connections"
    assert lines[-1].fields["seen_as"] == "follower"
    assert isinstance(lines[-1].fields["leaderless_ms"], int)
    first = world.nodes[survivor].logs[0]
    assert (first.event, set(first.fields)) == ("leader_changed", {"leader_id", "epoch"})
