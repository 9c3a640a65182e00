"""Snapshots that a full disk refuses: tried again soon and seldom, and logged once."""

import errno
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kernel.config import MetadataLogConfig
from kernel.quorum.log_writer import RETRY_MS
from kernel.quorum.snapshots import PAUSE_MS_MAX
from simulator.cluster.memory_vfs import MemoryVfs
from storage.errors import OutOfSpaceError
from tests.kernel.deadlines import check_deadlines
from tests.kernel.harness import World, create_topic_body
from tests.kernel.quorum.test_snapshots import (
    PARTITION,
    SMALL,
    create,
    have_all,
    lagging,
    leader_of,
    log_start,
    ready,
    said,
    snapshots,
)
from wire.types import Offset

BY_GROWTH = MetadataLogConfig(
    record_bytes_between_snapshots=1_000, snapshot_interval_ms_max=0, idle_interval_ms_max=0
)
BY_AGE = MetadataLogConfig(snapshot_interval_ms_max=3_600_000, idle_interval_ms_max=0)
ATTEMPTS_MAX = 9
"""In the first 60 s: the first, then after 0.5, 1, 2, 4, 8, 16 and 30 s."""


def refuse(world: World, node_id: int, kind: str) -> Callable[[], int]:
    """Refuse a node's snapshots at an operation; returns the count of those refused so far."""
    refused: list[str] = []

    def failing(operation: str, path: str) -> int | None:
        if operation != kind or not path.endswith(".checkpoint.part"):
            return None
        refused.append(path)
        return errno.ENOSPC

    world.nodes[node_id].vfs.failing = failing
    return lambda: len(refused)


def grow(world: World, topic: str) -> None:
    """Ask for a topic whose records are enough for a snapshot by growth."""
    world.client(1).send(19, create_topic_body(topic, partitions=50))


def refused(config: MetadataLogConfig, kind: str = "write") -> tuple[World, Callable[[], int]]:
    """A node whose first snapshot has just been refused."""
    world = World(1, metadata_log=config)
    world.start_all()
    world.run_until(world.is_ready)
    count = refuse(world, 1, kind)
    grow(world, "a")
    world.run_until(lambda: count() > 0, 3_700_000)
    return world, count


@pytest.mark.parametrize("config", [BY_GROWTH, BY_AGE])
@pytest.mark.parametrize("kind", ["write", "create"])
def test_a_refused_snapshot_is_tried_again_without_a_new_record(
    config: MetadataLogConfig, kind: str
) -> None:
    world, count = refused(config, kind)
    world.nodes[1].vfs.failing = None
    world.run_for(RETRY_MS - 10)
    assert not snapshots(world, 1)
    world.run_for(100)
    assert len(snapshots(world, 1)) == 1
    assert count() == 1


@pytest.mark.parametrize("config", [BY_GROWTH, BY_AGE])
def test_attempts_are_seldom_and_logged_once(config: MetadataLogConfig) -> None:
    world, count = refused(config)
    for number in range(60):
        create(world, 1, range(number, number + 1))  # each commit is an occasion
        world.run_for(1_000)
        check_deadlines(world.kernel(1))
    assert ATTEMPTS_MAX - 2 <= count() <= ATTEMPTS_MAX
    before = count()
    world.run_for(4 * PAUSE_MS_MAX)
    assert count() - before == 4
    (line,) = said(world, 1, "snapshot_not_written")
    assert "no space left" in str(line.fields["error"])
    world.nodes[1].vfs.failing = None
    world.run_for(PAUSE_MS_MAX)
    written = said(world, 1, "snapshot_written")
    assert written[0].fields["end_offset"] == world.kernel(1).core.log_end_offset


def test_the_pause_begins_at_the_refusal() -> None:
    """Not at the attempt: a large snapshot may take longer than the pause to fill the disk."""
    world = World(1, metadata_log=BY_GROWTH)
    world.start_all()
    world.run_until(world.is_ready)
    vfs, refusals = world.nodes[1].vfs, list[int]()

    def failing(operation: str, path: str) -> int | None:
        if operation != "write" or not path.endswith(".part") or vfs.size(path) < 30_000:
            return None
        refusals.append(world.now_ms)
        return errno.ENOSPC

    vfs.failing = failing
    world.client(1).create_topic("a", partitions=3_000)
    world.run_until(lambda: len(refusals) == 2)
    assert refusals[1] - refusals[0] > RETRY_MS + 5


def test_a_second_full_disk_is_logged_and_retried_as_the_first() -> None:
    world, count = refused(BY_GROWTH)
    world.run_until(lambda: count() == 4)
    world.nodes[1].vfs.failing = None
    world.run_until(lambda: bool(snapshots(world, 1)))
    again = refuse(world, 1, "write")
    grow(world, "b")
    world.run_until(lambda: again() == 1)
    assert len(said(world, 1, "snapshot_not_written")) == 2
    assert RETRY_MS <= world.run_until(lambda: again() == 2) <= RETRY_MS + 100


def test_a_retry_within_a_transaction_waits_for_its_end() -> None:
    world, _ = refused(BY_AGE)
    world.nodes[1].vfs.failing = None
    loader = world.kernel(1).loader
    loader._transaction_start = Offset(1)
    steps = world.steps
    world.run_for(10_000)
    assert not snapshots(world, 1)
    assert world.steps - steps < 200, "no busy loop"
    loader._transaction_start = None
    world.run_for(RETRY_MS + 100)
    assert len(snapshots(world, 1)) == 1


def test_a_fetched_snapshot_ends_the_retries() -> None:
    """It covers what the refused one would have held; the next refusal is a new one."""
    world = ready(metadata_log=replace(SMALL, idle_interval_ms_max=0))
    full = next(i for i in world.alive if i != world.active())
    other = leader_of(world)
    count = refuse(world, full, "write")
    create(world, other, range(20))
    world.run_until(lambda: count() == 6)  # the next attempt is 16 s away
    world.pause(full)
    end = world.kernel(full).core.log_end_offset
    create(world, other, range(20, 80))
    world.run_until(lambda: log_start(world, other) > end)
    world.nodes[full].vfs.failing = None
    world.resume(full)
    world.run_until(lambda: bool(said(world, full, "snapshot_loaded")))
    world.run_until(lambda: have_all(world, 80))
    written = len(said(world, full, "snapshot_written"))
    world.run_for(20_000)
    assert len(said(world, full, "snapshot_written")) == written
    refuse(world, full, "write")
    create(world, other, range(80, 110))
    world.run_until(lambda: len(said(world, full, "snapshot_not_written")) == 2)


def test_a_fetched_snapshot_is_the_last_by_age_too() -> None:
    timed = replace(SMALL, snapshot_interval_ms_max=30_000, idle_interval_ms_max=0)
    world = ready(metadata_log=timed)
    slow = next(i for i in world.alive if i != world.active())
    world.run_for(25_000)
    world.pause(slow)
    end = world.kernel(slow).core.log_end_offset
    create(world, leader_of(world), range(60))
    world.run_until(lambda: log_start(world, leader_of(world)) > end)
    world.resume(slow)
    world.run_until(lambda: bool(said(world, slow, "snapshot_loaded")))
    create(world, leader_of(world), range(60, 61))
    world.run_for(20_000)
    assert not said(world, slow, "snapshot_written")
    world.run_for(11_000)
    assert len(said(world, slow, "snapshot_written")) == 1


def test_a_snapshot_by_age_with_nothing_new_does_not_delay_one_by_growth() -> None:
    config = replace(BY_GROWTH, snapshot_interval_ms_max=3_000)
    world = World(1, metadata_log=config)
    world.start_all()
    world.run_until(lambda: bool(snapshots(world, 1)))
    world.run_for(3_100)  # nothing has come since: none was due
    grow(world, "a")
    assert world.run_until(lambda: len(said(world, 1, "snapshot_written")) == 2) < 100


def test_a_fetched_snapshot_that_is_refused_is_logged_once_until_it_is_installed() -> None:
    world, away = lagging()
    world.start(away)
    vfs = world.nodes[away].vfs
    for count in (1, 2):
        vfs.bytes_max = vfs.used_bytes()
        start = log_start(world, leader_of(world))
        create(world, leader_of(world), range(count * 100, count * 100 + 45))
        assert start < log_start(world, leader_of(world)), "it needs a snapshot"
        world.run_for(10_000)
        assert len(said(world, away, "disk_full")) == count
        vfs.bytes_max = None
        world.run_until(lambda s=start: log_start(world, away) > s)
        assert len(said(world, away, "disk_has_space_again")) == count


def test_what_was_fetched_of_a_snapshot_goes_when_the_disk_is_found_full_elsewhere() -> None:
    """Its blocks are those that a vote or the log may need."""
    world, away = lagging()
    world.start(away)
    vfs, writer = world.nodes[away].vfs, world.kernel(away).writer
    world.run_until(lambda: bool(partial_snapshots(vfs)))
    writer._note_full(OutOfSpaceError("/data"))
    vfs.bytes_max = vfs.used_bytes()
    world.run_until(lambda: not partial_snapshots(vfs), 500)
    vfs.bytes_max = None
    world.run_until(lambda: have_all(world, 60))


def partial_snapshots(vfs: MemoryVfs) -> list[str]:
    return [name for name in vfs.list(PARTITION) if name.endswith(".part")]
