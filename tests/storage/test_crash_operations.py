"""Every public operation of the storage, cut off at each step of its trace, on many disks.

After a power failure (every disk that it may leave, or twelve drawn ones where these are over 600)
or a SIGKILL: what was acknowledged before the operation is there, what the operation does is absent
or complete, and opening again works.
"""

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.checkpoints.checkpoint_files import OffsetCheckpoint
from storage.checkpoints.flushed_end_file import FlushedEndFile
from storage.log_dir.bootstrap_checkpoint import write_bootstrap_checkpoint
from storage.log_dir.clean_shutdown_file import (
    CLEAN_SHUTDOWN_NAME,
    UNKNOWN_EPOCH,
    CleanShutdownFiles,
)
from storage.log_dir.meta_properties import (
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from storage.log_dir.partition_directories import (
    open_metadata_log,
)
from storage.log_dir.quorum_state_file import ElectionState, QuorumStateFile
from storage.log_dir.snapshot_files import SnapshotFiles, snapshot_name
from storage.log_dir.unproven_mark import UnprovenMark
from storage.logs.log import Log, LogConfig
from storage.segments.segment import Segment
from storage.space_reserve import RESERVE_BYTES, SpaceReserve
from tests.selection import thinned
from tests.storage import partition_operations
from tests.storage.crashes import (
    ACKNOWLEDGED,
    APPENDED,
    BASES,
    CONFIG,
    FLUSHED,
    LAZY,
    LogIs,
    Operation,
    append_and_flush,
    append_and_roll,
    append_fetched,
    ends,
    one_of,
    prepared_log,
    run,
    steps_of,
)
from tests.storage.possible_disks import FEW, MOST, Many, disks
from tests.storage.test_crash import batch
from wire.types import DirectoryId, LeaderEpoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey

OLD, NEW = OffsetAndEpoch(Offset(5), LeaderEpoch(1)), OffsetAndEpoch(Offset(9), LeaderEpoch(1))


# ---- small files -------------------------------------------------------------------------------


VOTE = ElectionState(LeaderEpoch(3), None, ReplicaKey(NodeId(2)))
VOTE_1 = ElectionState(LeaderEpoch(3), None, ReplicaKey(NodeId(2), DirectoryId(b"d" * 16)))
LED = ElectionState(LeaderEpoch(4), NodeId(1))
MINE = MetaProperties("cluster", NodeId(1))
OTHER = MetaProperties("cluster", NodeId(2))


def prepared_quorum_state(vfs: MemoryVfs) -> QuorumStateFile:
    file = QuorumStateFile(vfs, "/d", (NodeId(1),))
    file.write(VOTE)
    return file


def prepared_quorum_state_1(vfs: MemoryVfs) -> QuorumStateFile:
    """As with kraft.version 1."""
    file = QuorumStateFile(vfs, "/d", (NodeId(1),))
    file.write(VOTE_1, 1)
    return file


def prepared_checkpoint(vfs: MemoryVfs) -> OffsetCheckpoint:
    checkpoint = OffsetCheckpoint(vfs, "/d")
    checkpoint.record("a", 0, 5)
    return checkpoint


def prepared_flushed_end(vfs: MemoryVfs) -> FlushedEndFile:
    file = FlushedEndFile(vfs, "/d")
    file.record(50)
    file.write(60)
    return file


def prepared_meta(vfs: MemoryVfs) -> MemoryVfs:
    write_meta_properties(vfs, "/d", MINE)
    return vfs


def write_snapshot(files: SnapshotFiles, snapshot_id: OffsetAndEpoch) -> None:
    writer = files.writer(snapshot_id)
    writer.append(b"a" * 700)
    writer.append(b"b" * 700)
    writer.freeze()


def prepared_snapshots(vfs: MemoryVfs) -> SnapshotFiles:
    files = SnapshotFiles(vfs, "/d")
    write_snapshot(files, OLD)
    return files


def snapshots_are(vfs: MemoryVfs, is_done: bool) -> None:
    files = SnapshotFiles(vfs, "/d")
    files.clean()
    found = files.list()
    assert found == [OLD, NEW] if is_done else OLD in found
    for snapshot_id in found:  # a final name has the whole content
        assert files.read(snapshot_id) == b"a" * 700 + b"b" * 700


def prepared_two_snapshots(vfs: MemoryVfs) -> SnapshotFiles:
    files = prepared_snapshots(vfs)
    write_snapshot(files, NEW)
    return files


def delete_snapshot(files: SnapshotFiles) -> None:
    files.unlink(files.delete(OLD))


def old_snapshot_is_gone(vfs: MemoryVfs, is_done: bool) -> None:
    """The newer one is there; the older one is whole, or is nowhere once files are cleaned."""
    files = SnapshotFiles(vfs, "/d")
    removed = files.clean()
    assert not (is_done and removed)
    found = files.list()
    assert found == [NEW] if is_done else found in ([OLD, NEW], [NEW]), found
    for snapshot_id in found:
        assert files.read(snapshot_id) == b"a" * 700 + b"b" * 700
    assert {name for name in vfs.list("/d") if "checkpoint" in name} == set(
        map(snapshot_name, found)
    )


def abort_snapshot(files: SnapshotFiles) -> None:
    writer = files.writer(NEW)
    writer.append(b"a" * 700)
    writer.append(b"b" * 700)
    writer.abort()


def only_old_snapshot(vfs: MemoryVfs, is_done: bool) -> None:
    if is_done:
        assert [name for name in vfs.list("/d") if "checkpoint" in name] == [snapshot_name(OLD)]
    files = SnapshotFiles(vfs, "/d")
    files.clean()
    assert files.list() == [OLD]
    assert files.read(OLD) == b"a" * 700 + b"b" * 700
    write_snapshot(files, NEW)  # what is left of the first try is in nobody's way
    assert files.read(NEW) == b"a" * 700 + b"b" * 700


BOOTSTRAP = "/d/bootstrap.checkpoint"


def prepared_bootstrap(vfs: MemoryVfs) -> MemoryVfs:
    write_bootstrap_checkpoint(vfs, "/d", b"first" * 300)
    return vfs


BROKER_DIRECTORIES = ("/d", "/e")
EPOCH = 7


def prepared_clean_shutdown(vfs: MemoryVfs) -> CleanShutdownFiles:
    vfs.make_directory("/e")
    vfs.sync_directory("/")
    return CleanShutdownFiles(vfs, BROKER_DIRECTORIES)


def write_clean_shutdown(files: CleanShutdownFiles) -> None:
    files.write(EPOCH, is_everything_sound=True)


def prepared_orderly_end(vfs: MemoryVfs) -> CleanShutdownFiles:
    write_clean_shutdown(prepared_clean_shutdown(vfs))
    return CleanShutdownFiles(vfs, BROKER_DIRECTORIES)


def clean_epoch(vfs: MemoryVfs) -> int:
    return CleanShutdownFiles(vfs, BROKER_DIRECTORIES).previous_epoch


def clean_shutdown_is_removed(vfs: MemoryVfs, is_done: bool) -> None:
    assert clean_epoch(vfs) == UNKNOWN_EPOCH if is_done else clean_epoch(vfs) in (-1, EPOCH)
    left = [d for d in BROKER_DIRECTORIES if vfs.exists(f"{d}/{CLEAN_SHUTDOWN_NAME}")]
    assert not (is_done and left)


def prepared_mark(vfs: MemoryVfs) -> UnprovenMark:
    mark = UnprovenMark(vfs, "/d")
    mark.write()
    return mark


def mark_stands(vfs: MemoryVfs, is_done: bool) -> None:
    assert UnprovenMark(vfs, "/d").exists or not is_done


def mark_is_gone(vfs: MemoryVfs, is_done: bool) -> None:
    mark = UnprovenMark(vfs, "/d")
    assert not (is_done and mark.exists)
    mark.remove()  # a crash may have removed it
    assert not mark.exists


def prepared_reserve(vfs: MemoryVfs) -> SpaceReserve:
    reserve = SpaceReserve(vfs, "/d")
    assert reserve.fill()
    return reserve


def reserve_is_released(vfs: MemoryVfs, is_done: bool) -> None:
    if is_done:
        assert not vfs.exists("/d/.reserve")
    assert SpaceReserve(vfs, "/d").fill()
    assert vfs.size("/d/.reserve") == RESERVE_BYTES
    assert SpaceReserve(vfs, "/d").release()


def prepared_segment(vfs: MemoryVfs) -> Segment:
    log = Log.open(vfs, "/d/p", CONFIG)
    for offset in range(5):
        log.append(batch(offset, 1), offset)
    log.flush()
    vfs.sync_directory("/d")
    segment = Segment(vfs, "/d/p", 0, 100)
    assert segment.size_bytes > 0
    return segment


def segment_is(vfs: MemoryVfs, is_done: bool) -> None:
    """Check that each offset reads as its batch, with any content of the index after the crash."""
    log = Log.open(vfs, "/d/p", LogConfig(index_interval_bytes=100, verify_from_start=is_done))
    for offset in range(5):
        assert log.read(offset, 1) == batch(offset, 1)


OPERATIONS: dict[str, Operation] = {
    "log-append": Operation(
        prepared_log, append_and_roll, LogIs(ACKNOWLEDGED, APPENDED, killed_end=FLUSHED + 8)
    ),
    "log-append-fetched": Operation(
        prepared_log, append_fetched, LogIs(ACKNOWLEDGED, APPENDED, killed_end=FLUSHED + 8)
    ),
    "log-flush": Operation(
        prepared_log, append_and_flush, LogIs(ACKNOWLEDGED, APPENDED, done_end=FLUSHED + 8)
    ),
    "log-close": Operation(
        prepared_log, Log.close, LogIs(ACKNOWLEDGED, ends(FLUSHED), done_end=FLUSHED)
    ),
    "log-truncate": Operation(
        prepared_log,
        lambda log: log.truncate_to(13),
        LogIs(range(13), ends(13, 18, FLUSHED), done_end=13),
    ),
    "log-truncate-fully": Operation(
        prepared_log,
        lambda log: log.truncate_fully_and_start_at(40),
        LogIs(range(0), ends(0, *BASES, FLUSHED) | {(40, 40)}, done_end=40, done_start=40),
    ),
    "log-raise-start": Operation(
        prepared_log,
        lambda log: log.raise_log_start_to(14),
        LogIs(  # it starts where the segment of 14 does
            range(14, FLUSHED),
            {(start, FLUSHED) for start in (0, 6, 12)},
            done_end=FLUSHED,
            done_start=12,
        ),
    ),
    "log-open": Operation(
        lambda vfs: (prepared_log(vfs), vfs)[1],
        lambda vfs: open_metadata_log(vfs, "/d", CONFIG),
        LogIs(ACKNOWLEDGED, ends(FLUSHED), done_end=FLUSHED),
    ),
    "segment-indexes": Operation(prepared_segment, Segment.write_indexes, segment_is),
    "quorum-state": Operation(
        prepared_quorum_state,
        lambda file: file.write(LED),
        one_of(lambda vfs: QuorumStateFile(vfs, "/d").read(), VOTE, LED),
    ),
    "quorum-state-1": Operation(
        prepared_quorum_state_1,
        lambda file: file.write(LED, 1),
        one_of(lambda vfs: QuorumStateFile(vfs, "/d").read(), VOTE_1, LED),
    ),
    "quorum-state-0-to-1": Operation(
        prepared_quorum_state,
        lambda file: file.write(VOTE_1, 1),
        one_of(lambda vfs: QuorumStateFile(vfs, "/d").read(), VOTE, VOTE_1),
    ),
    "checkpoint": Operation(
        prepared_checkpoint,
        lambda checkpoint: checkpoint.record("a", 0, 6),
        one_of(lambda vfs: OffsetCheckpoint(vfs, "/d").get("a", 0), 5, 6),
    ),
    "checkpoint-forget": Operation(
        prepared_checkpoint,
        lambda checkpoint: checkpoint.forget("a", 0),
        one_of(lambda vfs: OffsetCheckpoint(vfs, "/d").get("a", 0), 5, 0),
    ),
    "flushed-end-lowered": Operation(
        prepared_flushed_end,
        lambda file: file.record(10),
        lambda vfs, is_done: one_of_ends(vfs, {10} if is_done else {10, 50, 60}),
    ),
    "flushed-end-written": Operation(
        prepared_flushed_end,
        lambda file: file.write(70),
        lambda vfs, _: one_of_ends(vfs, {50, 60, 70}),
    ),
    "meta-properties": Operation(
        prepared_meta,
        lambda vfs: write_meta_properties(vfs, "/d", OTHER),
        one_of(lambda vfs: read_meta_properties(vfs, "/d"), MINE, OTHER),
    ),
    "snapshot-write": Operation(
        prepared_snapshots, lambda files: write_snapshot(files, NEW), snapshots_are
    ),
    "snapshot-delete": Operation(
        prepared_two_snapshots, delete_snapshot, old_snapshot_is_gone, is_durable=False
    ),
    "snapshot-abort": Operation(
        prepared_snapshots, abort_snapshot, only_old_snapshot, is_durable=False
    ),
    "bootstrap-checkpoint": Operation(
        prepared_bootstrap,
        lambda vfs: write_bootstrap_checkpoint(vfs, "/d", b"second" * 300),
        one_of(lambda vfs: vfs.read(BOOTSTRAP), b"first" * 300, b"second" * 300),
    ),
    "clean-shutdown-write": Operation(
        prepared_clean_shutdown, write_clean_shutdown, one_of(clean_epoch, UNKNOWN_EPOCH, EPOCH)
    ),
    "clean-shutdown-remove": Operation(
        prepared_orderly_end, CleanShutdownFiles.remove, clean_shutdown_is_removed
    ),
    "reserve-release": Operation(
        prepared_reserve, SpaceReserve.release, reserve_is_released, is_durable=False
    ),
    "unproven-mark-write": Operation(
        lambda vfs: UnprovenMark(vfs, "/d"), UnprovenMark.write, mark_stands
    ),
    "unproven-mark-remove": Operation(prepared_mark, UnprovenMark.remove, mark_is_gone),
    "reserve": Operation(
        lambda vfs: SpaceReserve(vfs, "/d"),
        SpaceReserve.fill,
        lambda vfs, _: None if SpaceReserve(vfs, "/d").fill() else pytest.fail("not filled"),
    ),
    **partition_operations.OPERATIONS,
}


def one_of_ends(vfs: MemoryVfs, allowed: set[int]) -> None:
    file = FlushedEndFile(vfs, "/d")
    assert file.damage is None
    assert file.end_offset in allowed


@pytest.mark.parametrize("many", thinned([FEW, MOST], every=2), ids=["few", "most"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_power_failure_at_every_step(name: str, many: Many) -> None:
    operation = OPERATIONS[name]
    count = steps_of(operation)
    assert count > 0
    for step in [*range(count), None]:
        vfs, is_done = run(operation, step)
        assert is_done == (step is None)
        for left in disks(vfs, f"{name} {step}", many):
            operation.check(left, is_done and operation.is_durable)


@pytest.mark.parametrize("name", [name for name in OPERATIONS if not name.startswith("log-")])
def test_sigkill_at_every_step(name: str) -> None:
    operation = OPERATIONS[name]
    for step in [*range(steps_of(operation)), None]:
        vfs, is_done = run(operation, step)
        vfs.crash_at = None
        vfs.kill()
        operation.check(vfs, is_done)


LOGS = [name for name, operation in OPERATIONS.items() if isinstance(operation.check, LogIs)]


@pytest.mark.parametrize("config", [CONFIG, LAZY], ids=["verified", "lazy"])
@pytest.mark.parametrize("name", LOGS)
def test_sigkill_keeps_what_was_written_to_a_log(name: str, config: LogConfig) -> None:
    operation = OPERATIONS[name]
    check = operation.check
    assert isinstance(check, LogIs)
    end = check.done_end if check.killed_end is None else check.killed_end
    assert end is not None
    for step in [*range(steps_of(operation)), None]:
        vfs, is_done = run(operation, step)
        vfs.crash_at = None
        vfs.kill()
        check.look(vfs, config, end if is_done else None, is_done)
