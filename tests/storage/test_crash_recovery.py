"""First creation, flushes apart from their report, and crashes in the middle of a recovery.

As test_crash_operations.py: the operation is cut off at each step of its trace, on many disks. Here
the start is a disk that an earlier crash has left, so that every end here is a second crash.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from simulator.cluster.memory_vfs import MemoryVfs, SimulatedCrashError
from storage.log_dir.partition_directories import open_metadata_log
from storage.log_dir.quorum_state_file import QUORUM_STATE_NAME, QuorumStateFile
from storage.log_dir.snapshot_files import SnapshotFiles, snapshot_name
from storage.logs.log import Log, LogConfig
from tests.selection import thinned
from tests.storage.crashes import (
    ACKNOWLEDGED,
    APPENDED,
    CONFIG,
    DIRECTORY,
    DISKS,
    FLUSHED,
    LAZY,
    LogIs,
    Operation,
    append_and_roll,
    disk,
    ends,
    one_of,
    prepared_log,
    run,
    same,
    steps_of,
)
from tests.storage.possible_disks import FEW, MOST, Many, disks
from tests.storage.test_crash import batch
from tests.storage.test_crash_operations import (
    LED,
    NEW,
    OLD,
    VOTE,
    prepared_snapshots,
    snapshots_are,
    write_snapshot,
)

WHOLE = b"a" * 700 + b"b" * 700
MANY = pytest.mark.parametrize("many", thinned([FEW, MOST], every=2), ids=["few", "most"])
CONFIGS = pytest.mark.parametrize("config", [CONFIG, LAZY], ids=["verified", "lazy"])
TAIL = 8
"""Batches written behind the acknowledged ones and not flushed."""


# ---- operations that begin on a sound disk -----------------------------------------------------


def with_tail(vfs: MemoryVfs) -> Log:
    log = prepared_log(vfs)
    append_and_roll(log)
    return log


def first_batches(vfs: MemoryVfs) -> None:
    log = open_metadata_log(vfs, "/d", CONFIG)
    for offset in range(log.end_offset, 5):
        log.append(batch(offset, 1), offset)
    log.flush()


def read_state(vfs: MemoryVfs) -> object:
    return QuorumStateFile(vfs, "/d").read()


def no_snapshots(vfs: MemoryVfs) -> SnapshotFiles:
    return SnapshotFiles(vfs, "/d")


def first_snapshot_is(vfs: MemoryVfs, is_done: bool) -> None:
    files = SnapshotFiles(vfs, "/d")
    files.clean()
    found = files.list()
    assert found == [OLD] if is_done else found in ([], [OLD])
    assert all(files.read(snapshot_id) == WHOLE for snapshot_id in found)


def left_behind(vfs: MemoryVfs) -> SnapshotFiles:
    """OLD is whole; NEW was being written, an older one being removed when the process died."""
    files = prepared_snapshots(vfs)
    for name in (snapshot_name(NEW) + ".part", "0" * 20 + "-0000000001.checkpoint.deleted"):
        file = vfs.open(f"/d/{name}", create=True)
        file.pwrite(b"a" * 300, 0)
        file.sync()
    vfs.sync_directory("/d")
    return files


def cleaned_is(vfs: MemoryVfs, is_done: bool) -> None:
    """Check that files left behind stop nothing, whenever their removal was cut off."""
    if is_done:
        assert [name for name in vfs.list("/d") if "checkpoint" in name] == [snapshot_name(OLD)]
    snapshots_are(vfs, False)
    write_snapshot(SnapshotFiles(vfs, "/d"), NEW)
    snapshots_are(vfs, True)


OPERATIONS = {
    "log-first-creation": Operation(
        same, lambda vfs: open_metadata_log(vfs, "/d", CONFIG), LogIs(range(0), ends(0), done_end=0)
    ),
    "log-first-batches": Operation(
        same, first_batches, LogIs(range(0), ends(*range(6)), done_end=5)
    ),
    "log-truncate-flushed-and-unflushed": Operation(
        with_tail,
        lambda log: log.truncate_to(13),
        LogIs(range(13), ends(*range(13, FLUSHED + TAIL + 1)), done_end=13),
    ),
    "log-truncate-unflushed": Operation(
        with_tail,
        lambda log: log.truncate_to(FLUSHED + 3),
        LogIs(ACKNOWLEDGED, APPENDED, killed_end=FLUSHED + 3),
    ),
    "log-truncate-all-unflushed": Operation(
        with_tail,
        lambda log: log.truncate_to(FLUSHED),
        LogIs(ACKNOWLEDGED, APPENDED, done_end=FLUSHED),
    ),
    "quorum-state-first": Operation(
        lambda vfs: QuorumStateFile(vfs, "/d"),
        lambda file: file.write(LED),
        one_of(read_state, None, LED),
    ),
    "snapshot-first": Operation(
        no_snapshots, lambda files: write_snapshot(files, OLD), first_snapshot_is
    ),
    "snapshots-clean": Operation(left_behind, SnapshotFiles.clean, cleaned_is, is_durable=False),
}


@MANY
@pytest.mark.parametrize("name", OPERATIONS)
def test_power_failure_at_every_step(name: str, many: Many) -> None:
    operation = OPERATIONS[name]
    for step in [*range(steps_of(operation)), None]:
        vfs, is_done = run(operation, step)
        for left in disks(vfs, f"{name} {step}", many):
            operation.check(left, is_done and operation.is_durable)


@pytest.mark.parametrize("name", OPERATIONS)
def test_sigkill_at_every_step(name: str) -> None:
    operation, check = OPERATIONS[name], OPERATIONS[name].check
    for step in [*range(steps_of(operation)), None]:
        vfs, is_done = run(operation, step)
        vfs.crash_at = None
        vfs.kill()
        if not isinstance(check, LogIs):
            check(vfs, is_done)
            continue
        end = check.done_end if check.killed_end is None else check.killed_end
        check.look(vfs, CONFIG, end if is_done else None, is_done)


# ---- a flush whose plan runs elsewhere, as in the kernel -----------------------------------------


@dataclass
class Flushing:
    """Plans are made, run and reported one after the other, with batches between all of them."""

    log: Log
    acknowledged: int = FLUSHED

    def act(self) -> None:
        """Two plans are under way at once; the second is run before the first is reported."""
        self._append(3)
        first = self.log.flush_plan()
        self._append(5)
        first.run()
        self.acknowledged = first.end_offset
        self._append(4)
        second = self.log.flush_plan()
        self._append(2)
        second.run()
        self.acknowledged = second.end_offset
        self.log.flush_done(first)
        self._append(6)
        self.log.flush_done(second)
        assert self.log.flushed_end_offset == second.end_offset < self.log.end_offset

    def _append(self, count: int) -> None:
        for offset in range(self.log.end_offset, self.log.end_offset + count):
            self.log.append(batch(offset, 2), offset)


def flushing_until(crash_at: int | None) -> tuple[MemoryVfs, Flushing, int]:
    vfs = disk()
    flushing = Flushing(prepared_log(vfs))
    before = vfs.operations
    vfs.crash_at = None if crash_at is None else before + crash_at
    try:
        flushing.act()
    except SimulatedCrashError:
        assert crash_at is not None
    return vfs, flushing, vfs.operations - before


@MANY
@CONFIGS
def test_what_a_plan_synced_is_there_before_it_is_reported(config: LogConfig, many: Many) -> None:
    """A plan that ran is acknowledged: its report, and plans after it, take nothing back."""
    count = flushing_until(None)[2]
    assert count > 30
    for step in [*range(count), None]:
        vfs, flushing, _ = flushing_until(step)
        for left in disks(vfs, f"flush {step}", many):
            log = open_metadata_log(left, "/d", config)
            assert log.end_offset >= flushing.acknowledged
            for offset in range(log.end_offset):
                assert log.read(offset, 1) == batch(offset, 1 if offset < FLUSHED else 2), offset


# ---- a log with a damaged tail: crashes while it is cut ------------------------------------------


def last_path(vfs: MemoryVfs, number: int = -1) -> str:
    names = sorted(name for name in vfs.list(DIRECTORY) if name.endswith(".log"))
    return f"{DIRECTORY}/{names[number]}"


def write_at(vfs: MemoryVfs, path: str, content: bytes, position: int) -> None:
    file = vfs.open(path)
    file.pwrite(content, position)
    file.close()


def torn(vfs: MemoryVfs) -> None:
    path = last_path(vfs)
    file = vfs.open(path)
    file.truncate(vfs.size(path) - 17)
    file.close()


def header_only(vfs: MemoryVfs) -> None:
    path = last_path(vfs)
    write_at(vfs, path, batch(FLUSHED + TAIL, 2)[:30], vfs.size(path))


def zeros_behind(vfs: MemoryVfs) -> None:
    path = last_path(vfs)
    write_at(vfs, path, bytes(600), vfs.size(path))


def unflushed_position(vfs: MemoryVfs) -> tuple[str, int]:
    """The segment and place of the first batch that nobody acknowledged."""
    found = next(n for n in range(-1, -9, -1) if base_of(last_path(vfs, n)) <= FLUSHED)
    path = last_path(vfs, found)
    return path, len(b"".join(batch(n, 1) for n in range(base_of(path), FLUSHED)))


def base_of(path: str) -> int:
    return int(path.rpartition("/")[2][:20])


def flipped(vfs: MemoryVfs) -> None:
    """The damage is in the segment before the last: one is cut, others are dropped."""
    path, position = unflushed_position(vfs)
    assert path != last_path(vfs)
    byte = vfs.read(path)[position + 70]
    write_at(vfs, path, bytes([byte ^ 1]), position + 70)


def empty_last(vfs: MemoryVfs) -> None:
    vfs.open(last_path(vfs)).truncate(0)


def garbled_epochs(vfs: MemoryVfs) -> None:
    torn(vfs)
    file = vfs.open(f"{DIRECTORY}/leader-epoch-checkpoint", create=True)
    file.truncate(0)
    file.pwrite(b"0\nx\n", 0)
    file.close()


def stray_bytes_in_indexes(vfs: MemoryVfs) -> None:
    flipped(vfs)
    for suffix in ("index", "timeindex"):
        file = vfs.open(f"{last_path(vfs)[:-3]}{suffix}", create=True)
        file.pwrite(b"\xff" * 24, 0)
        file.close()


DAMAGES: dict[str, Callable[[MemoryVfs], None]] = {
    "torn": torn,
    "header-only": header_only,
    "zeros-behind": zeros_behind,
    "flipped": flipped,
    "empty-last": empty_last,
    "garbled-epochs": garbled_epochs,
    "stray-indexes": stray_bytes_in_indexes,
}


def damaged(damage: Callable[[MemoryVfs], None]) -> MemoryVfs:
    """The disk as the next process finds it; all that is there is durable."""
    vfs = disk()
    with_tail(vfs)
    damage(vfs)
    vfs.kill()
    for name in vfs.list(DIRECTORY):
        file = vfs.open(f"{DIRECTORY}/{name}")
        file.sync()
        file.close()
    vfs.sync_directory(DIRECTORY)
    return vfs.crash()


def opened_until(vfs: MemoryVfs, config: LogConfig, crash_at: int | None) -> bool:
    """Recover until a step; whether it ended."""
    before = vfs.operations
    vfs.crash_at = None if crash_at is None else before + crash_at
    try:
        open_metadata_log(vfs, "/d", config)
    except SimulatedCrashError:
        return False
    finally:
        vfs.crash_at = None
    return True


def holds_and_goes_on(vfs: MemoryVfs, config: LogConfig, seed: str) -> None:
    """Check that acknowledged batches are there and that new ones replace the cut tail."""
    log = open_metadata_log(vfs, "/d", config)
    end = log.end_offset
    assert FLUSHED <= end <= FLUSHED + TAIL
    for offset in range(end):
        assert log.read(offset, 1) == batch(offset, 1 if offset < FLUSHED else 2), offset
    for offset in range(end, end + 3):
        log.append(batch(offset, 3), offset)
    log.flush()
    again = open_metadata_log(vfs.crash(random.Random(seed)), "/d", config)
    assert again.end_offset == end + 3
    assert [again.read(n, 1) for n in range(end, end + 3)] == [
        batch(n, 3) for n in range(end, end + 3)
    ]
    assert again.read(FLUSHED - 1, 1) == batch(FLUSHED - 1, 1)


@CONFIGS
@pytest.mark.parametrize("seeds", thinned([range(1), range(1, 8)], every=2), ids=str)
@pytest.mark.parametrize("name", DAMAGES)
def test_a_second_crash_while_a_tail_is_cut_loses_nothing(
    name: str, config: LogConfig, seeds: range
) -> None:
    damage = DAMAGES[name]
    whole = damaged(damage)
    before = whole.operations
    assert open_metadata_log(whole, "/d", config).recovery_report or name == "empty-last"
    for step in [*range(whole.operations - before), None]:
        for seed in seeds:
            vfs = damaged(damage)
            assert opened_until(vfs, config, step) == (step is None)
            text = f"{name} {step} {seed}"
            holds_and_goes_on(vfs.crash(random.Random(text)), config, text)
        vfs = damaged(damage)
        opened_until(vfs, config, step)
        vfs.kill()
        holds_and_goes_on(vfs, config, "killed")


@CONFIGS
def test_crashes_in_a_row_while_a_torn_disk_is_opened(config: LogConfig) -> None:
    """The rest of an unflushed tail after a power failure, opened with three more crashes."""
    for seed in range(40):
        rng = random.Random(f"row {seed}")
        vfs = disk()
        with_tail(vfs)
        vfs = vfs.crash(rng)
        for _ in range(3):
            opened_until(vfs, config, rng.randrange(40))
            vfs = vfs.crash(rng)
        holds_and_goes_on(vfs, config, f"row {seed}")


# ---- small files and snapshots left half-written -------------------------------------------------


@pytest.mark.parametrize("before", [None, VOTE], ids=["first", "later"])
@pytest.mark.parametrize("left", [b"", b'{"clusterId":"","lea', b"\x00" * 40, b"{" * 300])
def test_a_second_crash_beside_a_half_written_quorum_state(left: bytes, before: object) -> None:
    def prepare(vfs: MemoryVfs) -> QuorumStateFile:
        file = QuorumStateFile(vfs, "/d")
        if before is not None:
            file.write(VOTE)
        half = vfs.open(f"/d/{QUORUM_STATE_NAME}.tmp", create=True)
        half.pwrite(left, 0)
        half.sync()
        vfs.sync_directory("/d")
        return file

    operation = Operation(prepare, lambda file: file.write(LED), one_of(read_state, before, LED))
    for step in [*range(steps_of(operation)), None]:
        for seed in range(DISKS):
            vfs, is_done = run(operation, step)
            crashed = vfs.crash(random.Random(f"{step} {seed}"))
            operation.check(crashed, is_done)
            third = crashed.operations + seed % 6  # and once more, while it is written again
            crashed.crash_at = third
            try:
                QuorumStateFile(crashed, "/d").write(LED)
            except SimulatedCrashError:
                operation.check(crashed.crash(random.Random(seed)), is_done)


def test_a_second_crash_while_half_written_snapshots_are_cleaned() -> None:
    """Any crash of a write, then any crash of the clean-up, then it is cleaned and written."""
    write = Operation(prepared_snapshots, lambda files: write_snapshot(files, NEW), snapshots_are)
    for first in range(steps_of(write)):
        for second in range(3):
            for seed in range(4):
                rng = random.Random(f"{first} {second} {seed}")
                vfs = run(write, first)[0].crash(rng)
                vfs.crash_at = vfs.operations + second
                try:
                    SnapshotFiles(vfs, "/d").clean()
                except SimulatedCrashError:
                    assert vfs.operations > 0
                cleaned_is(vfs.crash(rng), False)
