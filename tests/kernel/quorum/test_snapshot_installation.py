"""A fetched snapshot takes the log's place: crashes, failing disks and full ones at every step.

Freeze the snapshot, drop the log, remove the older snapshots: whatever cuts that off, the node that
opens afterwards has the old log with the old snapshot, or an empty log where the new one ends.
"""

import errno
import random
from typing import Final

import pytest
from msgspec.structs import replace

from kernel import effects as out
from kernel.events import Now
from kernel.opening import OpenedStorage, open_storage, raft_core
from metadata.bootstrap import bootstrap_records
from metadata.snapshot import encode_snapshot
from network.clock import Clock
from raft.effects import WriteSnapshotChunk
from raft.events import Event, SnapshotInstalled, SnapshotRefused
from simulator.cluster.memory_vfs import MemoryVfs, SimulatedCrashError
from storage.errors import FsyncError, OutOfSpaceError
from storage.space_reserve import RESERVE_NAME
from tests.kernel.harness import CLUSTER_ID, config_of
from tests.selection import thinned
from wire.batches.batch import encode_batch
from wire.types import LeaderEpoch, Offset, OffsetAndEpoch

CONFIG = config_of(1)
OLD: Final = OffsetAndEpoch(Offset(5), LeaderEpoch(1))
NEW: Final = OffsetAndEpoch(Offset(40), LeaderEpoch(2))
CONTENT: Final = b"".join(
    encode_snapshot(
        bootstrap_records(),
        level=25,
        epoch=LeaderEpoch(1),
        last_contained_timestamp_ms=1,
        timestamp_ms=2,
    )
)
BEFORE, AFTER = (0, 20, (OLD,)), (40, 40, (NEW,))
LAST_CHUNK = WriteSnapshotChunk(
    snapshot_id=NEW, position_bytes=len(CONTENT) - 50, chunk=CONTENT[-50:], done=True, generation=7
)
INSTALLED = SnapshotInstalled(snapshot_id=NEW, generation=7)
SEEDS = pytest.mark.parametrize("seeds", thinned([range(2), range(2, 12)], every=2), ids=str)


def opened(vfs: MemoryVfs) -> OpenedStorage:
    effects: list[out.Effect] = []
    found = open_storage(CONFIG, vfs, None, Clock(Now(0, 0)), effects, installed=lambda _: None)
    assert not effects, effects
    return found


def what_opens(vfs: MemoryVfs) -> tuple[int, int, tuple[OffsetAndEpoch, ...]]:
    """Log start, log end, snapshots; the newest one is loaded and no other file is left."""
    found = opened(vfs)
    log, files = found.log, found.files
    assert found.loader.image.provenance.end_offset == found.snapshots[-1].offset
    assert files.list() == list(found.snapshots)
    assert all(files.read(snapshot_id) == CONTENT for snapshot_id in found.snapshots)
    for offset in range(log.log_start_offset, log.end_offset):
        assert log.read(offset, 1) == batch(offset)
    return log.log_start_offset, log.end_offset, found.snapshots


def batch(offset: int) -> bytes:
    return encode_batch([b"v"], Offset(offset), LeaderEpoch(1), 1_000)


def fetched() -> tuple[MemoryVfs, OpenedStorage]:
    """A log with a snapshot, and all but the last chunk of a newer one."""
    vfs = MemoryVfs()
    vfs.make_directory("/data")
    vfs.sync_directory("/")
    found = opened(vfs)
    for offset in range(20):
        found.log.append(batch(offset), offset)
    found.log.flush()
    older = found.files.writer(OLD)
    older.append(CONTENT)
    older.freeze()
    first = WriteSnapshotChunk(
        snapshot_id=NEW, position_bytes=0, chunk=CONTENT[:-50], done=False, generation=7
    )
    assert found.writer.downloads.write(first) is None
    return vfs, found


def install(found: OpenedStorage) -> Event | None:
    core = raft_core(CONFIG, CLUSTER_ID, found, random.Random(0), 0)
    return found.writer.perform(LAST_CHUNK, core)


def trace() -> list[tuple[str, str]]:
    """The operations of an installation."""
    vfs, found = fetched()
    vfs.operation_log = []
    assert install(found) == INSTALLED
    assert found.log.end_offset == 40
    return vfs.operation_log


TRACE: Final = trace()
"""(kind, path) of each operation that a crash or an error can hit."""
FIRST_OF_LOG: Final = next(
    number for number, (_, path) in enumerate(TRACE) if "flushed-end" in path
)
"""From here on the snapshot is in place and its fetch cannot be refused any more."""


def cut_off(step: int) -> MemoryVfs:
    vfs, found = fetched()
    vfs.crash_at = vfs.operations + step
    with pytest.raises(SimulatedCrashError):
        install(found)
    vfs.crash_at = None
    return vfs


@SEEDS
def test_a_power_failure_at_every_step(seeds: range) -> None:
    states = set()
    for step in range(len(TRACE)):
        vfs = cut_off(step)
        disks = [vfs.crash(), *(vfs.crash(random.Random(f"{step} {seed}")) for seed in seeds)]
        states |= {what_opens(disk) for disk in disks}
    assert states == {BEFORE, AFTER}
    vfs, found = fetched()
    install(found)
    assert what_opens(vfs.crash()) == AFTER


def test_a_sigkill_at_every_step() -> None:
    renamed = [kind for kind, _ in TRACE].index("rename")
    for step in range(len(TRACE)):
        vfs = cut_off(step)
        vfs.kill()
        assert what_opens(vfs) == (BEFORE if step <= renamed else AFTER)


@SEEDS
def test_a_second_crash_while_the_first_is_recovered(seeds: range) -> None:
    for step in range(0, len(TRACE), 2):
        for seed in seeds:
            rng = random.Random(f"{step} {seed}")
            vfs = cut_off(step).crash(rng)
            vfs.crash_at = vfs.operations + rng.randrange(12)
            try:
                opened(vfs)
            except SimulatedCrashError:
                assert vfs.operations > 0
            assert what_opens(vfs.crash(rng)) in (BEFORE, AFTER)


@pytest.mark.parametrize("step", range(len(TRACE)))
def test_a_disk_that_is_full_once_gets_blocks_from_the_reserve(step: int) -> None:
    """Refused as long as the old log is whole; from then on it is done, or the node stops."""
    vfs, found = fetched()
    vfs.faults[vfs.operations + step] = errno.ENOSPC
    try:
        answer = install(found)
    except (OSError, FsyncError):
        # neither a write nor a new file: such an error ends the node
        assert TRACE[step][0] not in ("write", "create")
        vfs.kill()
        assert what_opens(vfs) in (BEFORE, AFTER)
        return
    is_of_log = step >= FIRST_OF_LOG
    expected = INSTALLED if is_of_log else SnapshotRefused(snapshot_id=NEW)
    assert answer == replace(expected, is_disk_full=True)
    log = found.log
    assert (log.log_start_offset, log.end_offset) == ((40, 40) if is_of_log else (0, 20))
    assert vfs.exists(f"/data/{RESERVE_NAME}") != is_of_log
    log.append(batch(log.end_offset), log.end_offset)  # it goes on
    log.flush()
    assert opened(vfs.crash()).log.end_offset == (41 if is_of_log else 21)


def test_a_disk_that_stays_full_stops_the_node_and_the_next_start_ends_it() -> None:
    for name in ("flushed-end", f"{NEW.offset:020d}.log"):
        vfs, found = fetched()
        vfs.failing = lambda kind, path, name=name: (
            errno.ENOSPC if kind == "create" and name in path else None
        )
        with pytest.raises(OutOfSpaceError, match=name):
            install(found)
        vfs.failing = None
        vfs.kill()
        assert what_opens(vfs) == what_opens(vfs.crash()) == AFTER


@pytest.mark.parametrize("step", range(len(TRACE)))
def test_an_error_at_every_step_ends_the_node_and_loses_nothing(step: int) -> None:
    vfs, found = fetched()
    vfs.faults[vfs.operations + step] = errno.EIO
    with pytest.raises((OSError, FsyncError)):
        install(found)
    for seed in range(3):
        assert what_opens(vfs.crash(random.Random(f"{step} {seed}"))) in (BEFORE, AFTER)
    vfs.kill()
    assert what_opens(vfs) in (BEFORE, AFTER)
