"""Voters on full disks: they vote, they do not lead, and who has space does so within seconds."""

import errno
from typing import Final

import pytest

from raft.roles import Candidate, Leader, Prospective
from storage.space_reserve import RESERVE_BYTES, RESERVE_NAME
from tests.kernel.harness import World, create_topic_body
from tests.kernel.quorum.test_disk_faults import are_equal, fill, leader_of, said
from tests.kernel.quorum.test_snapshots import have_all, lagging
from tests.kernel.test_kernel import ready_world
from tests.selection import thinned
from wire.errors import ErrorCode

ELECTED_MS_MAX: Final = 4_000
"""A fetch time-out and an election with its retries."""
STANDING: Final = (Prospective, Candidate, Leader)


def run_and_see(world: World, node_id: int, duration_ms: int) -> set[type]:
    """The roles that a node has within this time."""
    end_ms, roles = world.now_ms + duration_ms, set()
    while world.now_ms < end_ms:
        roles.add(type(world.kernel(node_id).core.role))
        world.advance_once()
    return roles


def refuse_the_log(world: World, node_id: int) -> None:
    """No space for records, while quorum-state and the reserve have theirs."""
    world.nodes[node_id].vfs.failing = lambda kind, path: (
        errno.ENOSPC if kind == "write" and path.endswith(".log") else None
    )


@pytest.mark.parametrize("seed", thinned(range(3), 3))
@pytest.mark.parametrize("refuse", [fill, refuse_the_log])
def test_a_voter_on_a_full_disk_that_is_elected_makes_way(refuse, seed: int) -> None:
    """The leader dies and comes back; its first successor cannot write the record of its epoch."""
    world = ready_world(seed=seed)
    killed = leader_of(world)
    full = min(i for i in world.alive if i != killed)
    refuse(world, full)
    world.kill(killed)
    world.run_for(500)
    world.start(killed)
    world.run_until(lambda: world.active() not in (None, full), ELECTED_MS_MAX)
    assert world.client(killed).create_topic("a").error_code is ErrorCode.none
    epoch = world.kernel(full).core.leader.epoch
    world.run_for(30_000)
    assert world.kernel(full).core.leader.epoch == epoch, "the full disk disturbs nobody"
    assert len(said(world, full, "disk_full")) == 1
    vfs = world.nodes[full].vfs
    vfs.bytes_max = vfs.failing = None
    world.run_until(lambda: are_equal(world))


@pytest.mark.parametrize("seed", thinned(range(3), 3))
def test_a_voter_on_a_full_disk_does_not_stand(seed: int) -> None:
    """Not when both others are gone, and not after a restart; with space again it does."""
    world = ready_world(seed=seed)
    full = next(i for i in world.alive if i != world.active())
    vfs = fill(world, full)
    world.run_until(lambda: bool(said(world, full, "disk_full")))
    others = [i for i in world.alive if i != full]
    for node_id in others:
        world.kill(node_id)
    assert run_and_see(world, full, 20_000).isdisjoint(STANDING)
    world.kill(full)
    vfs = world.nodes[full].vfs
    if vfs.exists(f"/data/{RESERVE_NAME}"):
        vfs.unlink(f"/data/{RESERVE_NAME}")
    vfs.bytes_max = vfs.used_bytes() + RESERVE_BYTES // 2
    world.start(full)
    assert run_and_see(world, full, 20_000).isdisjoint(STANDING)
    vfs.bytes_max = None
    assert Prospective in run_and_see(world, full, 5_000)
    world.start(others[0])
    world.run_until(lambda: world.active() is not None, ELECTED_MS_MAX)


def test_a_voter_whose_disk_refuses_a_fetched_snapshot_does_not_stand() -> None:
    """No append was refused yet, but the next one would be; with space again it stands."""
    world, away = lagging()
    world.start(away)
    vfs = fill(world, away)
    world.run_until(lambda: bool(said(world, away, "disk_full")))
    others = [i for i in world.alive if i != away]
    for node_id in others:
        world.kill(node_id)
    assert run_and_see(world, away, 20_000).isdisjoint(STANDING)
    vfs.bytes_max = None
    assert Prospective in run_and_see(world, away, 5_000)
    for node_id in others:
        world.start(node_id)
    world.run_until(lambda: have_all(world, 60))


@pytest.mark.parametrize("kept", thinned([1, 2, 3], 3))
def test_those_that_get_space_again_elect_one_of_them(kept: int) -> None:
    world = ready_world()
    for node_id in world.alive:
        fill(world, node_id)
    world.run_for(10_000)
    assert world.active() is None
    for node_id in set(world.alive) - {kept}:
        world.nodes[node_id].vfs.bytes_max = None
    world.run_until(lambda: world.active() not in (None, kept), ELECTED_MS_MAX)


def test_a_voter_on_a_full_disk_votes_for_who_has_space() -> None:
    """The third is stopped: without the vote of the full disk nobody would lead."""
    world = ready_world()
    full = leader_of(world)
    stopped = max(i for i in world.alive if i != full)
    other = min(i for i in world.alive if i != full)
    world.run_for(2_000)
    fill(world, full)
    world.pause(stopped)
    world.client(full).send(19, create_topic_body("a"))
    world.run_until(lambda: world.kernel(other).core.is_leader, ELECTED_MS_MAX)
    world.resume(stopped)
    world.run_until(lambda: world.active() == other, ELECTED_MS_MAX)


@pytest.mark.parametrize("seed", thinned(range(3), 3))
def test_a_candidate_that_finds_its_disk_full_at_its_own_vote_withdraws(seed: int) -> None:
    """Its quorum-state got the blocks of the reserve; the record of its epoch would get none."""
    world = ready_world(seed=seed)
    killed = leader_of(world)
    full = min(i for i in world.alive if i != killed)
    world.run_for(2_000)
    fill(world, full)
    world.kill(killed)
    roles = run_and_see(world, full, 3_000)
    assert Prospective in roles
    assert roles.isdisjoint({Candidate, Leader})


def test_a_retry_that_fails_leaves_the_disk_full_to_the_core_too() -> None:
    """There are blocks for the reserve, and none for what is retried."""
    world = ready_world(1)
    refuse_the_log(world, 1)
    correlation_id = (client := world.client(1)).send(19, create_topic_body("a"))
    kernel = world.kernel(1)
    world.run_until(lambda: kernel.writer.is_disk_full)
    end_ms = world.now_ms + 3_000
    while world.now_ms < end_ms:
        assert kernel.core._state.is_disk_full
        world.advance_once()
    world.nodes[1].vfs.failing = None
    world.run_until(lambda: correlation_id in client.answers)
    assert not kernel.core._state.is_disk_full
