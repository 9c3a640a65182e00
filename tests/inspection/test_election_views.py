"""Elections over HTTP: those of the log joined with what this node saw, and a loss that goes on."""

from inspection.quorum_views import ElectionView, loss_view, with_causes
from inspection.running_node import ELECTIONS_MAX, RunningNode
from kernel.events import Now
from kernel.quorum.elections import Election
from raft.elections.leader_loss import Cause, LeaderLoss
from tests.inspection.conftest import Site, ready_world
from tests.inspection.test_metrics import scraped_of
from wire.types import LeaderEpoch, NodeId


def logged(epoch: int, offset: int | None = 9) -> ElectionView:
    return ElectionView(epoch=epoch, leader_id=1, offset=offset, timestamp_ms=100, seen=None)


def seen(epoch: int, leaderless_ms: int | None = 7) -> Election:
    return Election(
        epoch=LeaderEpoch(epoch),
        leader_id=NodeId(2),
        cause=Cause.STALLED_FLUSH,
        evidence="offsets",
        role="leader",
        lost_epoch=LeaderEpoch(epoch - 1),
        lost_leader_id=NodeId(3),
        known_ms=200,
        leaderless_ms=leaderless_ms,
    )


def test_elections_of_the_log_get_what_was_seen_and_others_are_added_in_order() -> None:
    views = with_causes([logged(3), logged(5)], [seen(4), seen(5)])
    assert [view.epoch for view in views] == [3, 4, 5]
    assert [view.offset for view in views] == [9, None, 9]
    assert [view.leader_id for view in views] == [1, 2, 1]
    assert [view.timestamp_ms for view in views] == [100, None, 100]
    assert views[0].seen is None
    found = views[2].seen
    assert found is not None
    assert (found.cause, found.evidence, found.role) == ("stalled_flush", "offsets", "leader")
    assert (found.lost_epoch, found.lost_leader_id) == (4, 3)
    assert (found.known_ms, found.leaderless_ms) == (200, 7)


def test_a_loss_that_goes_on_has_the_time_of_the_wall() -> None:
    assert loss_view(None, Now(10, 1_000)) is None
    loss = LeaderLoss(
        cause=Cause.TIME_OUT,
        evidence="silence",
        role="follower",
        lost_epoch=LeaderEpoch(4),
        lost_leader_id=NodeId(3),
        noticed_ms=4,
    )
    view = loss_view(loss, Now(10, 1_000))
    assert view is not None
    assert view.noticed_ms == 994
    assert (view.cause, view.evidence, view.role) == ("time_out", "silence", "follower")
    assert (view.lost_epoch, view.lost_leader_id) == (4, 3)


async def test_the_answer_has_cause_and_loss(site: Site) -> None:
    quorum = await site.get("/v1/quorum")
    (election,) = quorum["elections"]
    assert election["seen"]["cause"] in {"no_leader", "time_out"}
    assert election["seen"]["leaderless_ms"] >= 0
    assert quorum["leader_loss"] is None
    for node_id in {1, 2, 3} - {site.node_id}:
        site.world.kill(node_id)
    site.world.run_until(lambda: not site.kernel.core.is_leader)
    quorum = await site.get("/v1/quorum")
    assert quorum["leader_loss"]["cause"] == "check_quorum"
    assert quorum["leader_loss"]["lost_leader_id"] == site.node_id


async def test_only_the_newest_are_shown() -> None:
    world = ready_world()
    node = RunningNode(world.kernel(1), world._now)
    for epoch in range(100, 100 + ELECTIONS_MAX):
        world.kernel(1).elections.newest.append(seen(epoch))
    epochs = [view.epoch for view in node.elections()]
    assert epochs == list(range(100, 100 + ELECTIONS_MAX)), "without that of the log"


def test_elections_and_the_time_without_a_leader_by_cause() -> None:
    world = ready_world()
    seen = world.kernel(1).elections
    seen.counts[Cause.DISK_FULL] = 3
    seen.leaderless_ms[Cause.DISK_FULL] = 45
    values = scraped_of(RunningNode(world.kernel(1), world._now))
    assert values['kraftline_quorum_elections_total{cause="disk_full"}'] == 3
    assert values['kraftline_quorum_leaderless_ms_total{cause="disk_full"}'] == 45
    causes = [name for name in values if name.startswith("kraftline_quorum_elections_total{")]
    assert len(causes) == len(Cause), "each from the start, counted or not"
