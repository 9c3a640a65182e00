"""Snapshots whose end another thread is slow to reach, and what retention may not pass."""

from collections.abc import Callable

from msgspec.structs import replace

from kernel import effects as out
from kernel.config import MetadataLogConfig
from kernel.quorum.snapshot_retention import SnapshotRetention
from simulator.cluster.memory_vfs import MemoryVfs
from tests.kernel.deadlines import check_deadlines
from tests.kernel.harness import World
from tests.kernel.quorum.test_snapshot_installation import CONTENT, batch, opened
from tests.kernel.quorum.test_snapshots import (
    CHUNKS,
    SMALL,
    create,
    have_all,
    leader_of,
    log_start,
    said,
    snapshots,
)
from wire.types import LeaderEpoch, Offset, OffsetAndEpoch


class SlowDisk(World):
    """The sync and rename of a snapshot of one node take until `release`."""

    slow: int | None = None

    def _write_snapshot(self, node_id: int, life: int, effect: out.RunSnapshot) -> None:
        if node_id != self.slow:
            super()._write_snapshot(node_id, life, effect)
            return
        self.held.append(lambda: World._write_snapshot(self, node_id, life, effect))

    def __init__(self) -> None:
        timed = replace(SMALL, snapshot_interval_ms_max=3_600_000)
        super().__init__(3, metadata_log=timed, quorum=CHUNKS)
        self.held: list[Callable[[], None]] = []

    def release(self) -> None:
        """It has come to its end."""
        self.slow = None
        for end in self.held:
            end()


def frozen() -> tuple[SlowDisk, int, OffsetAndEpoch]:
    """A follower that is stopped while it freezes a snapshot, until the logs begin behind it."""
    world = SlowDisk()
    world.start_all()
    world.run_until(world.is_ready)
    world.slow = slow = next(i for i in world.alive if i != world.active())
    create(world, leader_of(world), range(30))
    world.run_until(lambda: bool(world.held))
    job = world.kernel(slow).snapshots._job
    assert job is not None
    world.pause(slow)
    others = [i for i in world.alive if i != slow]
    create(world, others[0], range(30, 90))
    end = world.kernel(slow).log.end_offset
    world.run_until(lambda: all(log_start(world, i) > end for i in others))
    world.run_for(200)
    return world, slow, job.snapshot_id


def test_a_snapshot_that_ends_after_a_fetched_one_took_its_place_is_removed() -> None:
    world, slow, obsolete = frozen()
    world.resume(slow)
    world.run_until(lambda: bool(said(world, slow, "snapshot_loaded")))
    kernel = world.kernel(slow)
    (fetched,) = snapshots(world, slow)
    assert fetched.offset == log_start(world, slow) > obsolete.offset
    assert kernel.snapshots.obsolete == obsolete
    before = len(said(world, slow, "snapshot_written"))
    world.release()
    check_deadlines(kernel)
    assert kernel.snapshots.obsolete is None
    assert obsolete not in snapshots(world, slow)
    assert len(said(world, slow, "snapshot_written")) == before
    core = kernel.core
    assert core.log_start_offset == log_start(world, slow)
    world.run_until(lambda: have_all(world, 90))
    create(world, leader_of(world), range(90, 120))
    world.run_until(lambda: len(said(world, slow, "snapshot_written")) > before)
    assert all(found.offset >= log_start(world, slow) for found in snapshots(world, slow))


def test_a_snapshot_that_ends_in_time_is_kept() -> None:
    world = SlowDisk()
    world.start_all()
    world.run_until(world.is_ready)
    world.slow = slow = next(i for i in world.alive if i != world.active())
    create(world, leader_of(world), range(30))
    world.run_until(lambda: bool(world.held))
    job = world.kernel(slow).snapshots._job
    assert job is not None
    assert world.kernel(slow).snapshots.obsolete is None
    world.release()
    assert said(world, slow, "snapshot_written")[-1].fields["end_offset"] == job.snapshot_id.offset
    assert job.snapshot_id in snapshots(world, slow)


def snapshot_id(end_offset: int) -> OffsetAndEpoch:
    return OffsetAndEpoch(Offset(end_offset), LeaderEpoch(1))


def test_retention_stays_below_what_this_node_has_flushed() -> None:
    """The high watermark may be of the two others: what this disk lacks, its snapshot covers."""
    vfs = MemoryVfs()
    vfs.make_directory("/data")
    vfs.sync_directory("/")
    found = opened(vfs)
    log, files = found.log, found.files
    for offset in range(20):
        log.append(batch(offset), offset)
    log.flush()
    for end_offset in (5, 10, 15):
        writer = files.writer(snapshot_id(end_offset))
        writer.append(CONTENT)
        writer.freeze()
    nothing_is_kept = replace(MetadataLogConfig(), retention_bytes=0)
    retention = SnapshotRetention(nothing_is_kept, log, files)
    assert retention.clean(0, 9) is None
    assert (log.log_start_offset, len(files.list())) == (0, 3)
    assert retention.clean(0, 10) == snapshot_id(10)
    assert (log.log_start_offset, files.list()) == (10, [snapshot_id(10), snapshot_id(15)])
    assert retention.clean(0, 14) is None
    assert retention.clean(0, 15) == snapshot_id(15)
    assert (log.log_start_offset, files.list()) == (15, [snapshot_id(15)])
    assert retention.clean(0, 20) is None, "the newest stays"
