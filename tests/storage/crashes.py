"""Parts of crash tests of storage: operations, crashes, checks of the log that is left."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simulator.cluster.memory_vfs import MemoryVfs, SimulatedCrashError
from storage.errors import OutOfSpaceError
from storage.log_dir.partition_directories import (
    open_metadata_log,
)
from storage.logs.log import Log, LogConfig
from storage.logs.recovery import SegmentsDropped, TailCut
from tests.storage.test_crash import batch

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=100, recovery_point_bytes=400)
LAZY = LogConfig(
    segment_bytes=700, index_interval_bytes=100, recovery_point_bytes=400, verify_from_start=False
)
DIRECTORY = "/d/__cluster_metadata-0"
DISKS = 12
FLUSHED = 20
State = Any


@dataclass
class Operation:
    """`prepare` ends with everything acknowledged; `check` looks at a disk after the end."""

    prepare: Callable[[MemoryVfs], State]
    act: Callable[[State], object]
    check: Callable[[MemoryVfs, bool], None]
    is_durable: bool = True
    """False: a power failure may undo it, for it is not synced and need not be."""


def disk() -> MemoryVfs:
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    vfs.sync_directory("/")
    return vfs


def same(vfs: MemoryVfs) -> MemoryVfs:
    return vfs


# ---- logs --------------------------------------------------------------------------------------


def prepared_log(vfs: MemoryVfs) -> Log:
    log = open_metadata_log(vfs, "/d", CONFIG)
    for offset in range(FLUSHED):
        log.append(batch(offset, 1), offset)
    log.flush()
    return log


def append_and_roll(log: Log) -> None:
    for offset in range(log.end_offset, FLUSHED + 8):
        log.append(batch(offset, 2), offset)


def append_fetched(log: Log) -> None:
    rest = range(log.end_offset, FLUSHED + 8)
    done = log.append_fetched(b"".join(batch(n, 2) for n in rest), 2)
    if done.stopped is not None:
        assert done.stopped == "no space left on device"
        raise OutOfSpaceError(log.directory)


def append_and_flush(log: Log) -> None:
    append_and_roll(log)
    log.flush()


@dataclass
class LogIs:
    """`kept` is there whatever happens; afterwards the log ends and starts where it should.

    `between` holds all (start, end) that the log may have before, meanwhile and afterwards.
    """

    kept: range
    between: set[tuple[int, int]]
    done_end: int | None = None
    done_start: int | None = None
    killed_end: int | None = None
    """End offset after the operation if no power fails: nothing waits for a sync then."""

    def __call__(self, vfs: MemoryVfs, is_done: bool) -> None:
        """Look at what a power failure leaves of this disk, with both ways to open a log."""
        for config in (CONFIG, LAZY):
            self.look(vfs.crash(), config, self.done_end if is_done else None, is_done)

    def look(self, vfs: MemoryVfs, config: LogConfig, end: int | None, is_done: bool) -> None:
        """Open the log and read all of it; then it can be appended to."""
        log = open_metadata_log(vfs, "/d", config)
        assert {type(event) for event in log.recovery_report} <= {TailCut, SegmentsDropped}
        for offset in self.kept:
            assert log.read(offset, 1) == batch(offset, 1), offset
        for offset in range(log.log_start_offset, log.end_offset):  # whole or not at all
            assert log.read(offset, 1) == batch(offset, 1 if offset < FLUSHED else 2), offset
        found = log.log_start_offset, log.end_offset
        assert found in self.between, found
        if end is not None:
            assert log.end_offset == end
        if is_done and self.done_start is not None:
            assert log.log_start_offset == self.done_start
        log.append(batch(log.end_offset, 9), log.end_offset)
        log.close()


def ends(*found: int) -> set[tuple[int, int]]:
    """A log from 0 that ends at one of these."""
    return {(0, end) for end in found}


ACKNOWLEDGED = range(FLUSHED)
BASES = (6, 12, 18)
"""Base offsets of the segments of `prepared_log`, but the first."""
APPENDED = ends(*range(FLUSHED, FLUSHED + 9))


def one_of(
    read: Callable[[MemoryVfs], object], before: object, after: object
) -> Callable[[MemoryVfs, bool], None]:
    def check(vfs: MemoryVfs, is_done: bool) -> None:
        found = read(vfs)
        assert found == after if is_done else found in (before, after), found

    return check


def run(operation: Operation, crash_at: int | None) -> tuple[MemoryVfs, bool]:
    """The disk when the operation ended or was cut off at its step `crash_at`; whether it ended."""
    vfs = disk()
    state = operation.prepare(vfs)
    if crash_at is not None:
        vfs.crash_at = vfs.operations + crash_at
    try:
        operation.act(state)
    except SimulatedCrashError:
        return vfs, False
    return vfs, True


def steps_of(operation: Operation) -> int:
    vfs = disk()
    state = operation.prepare(vfs)
    before = vfs.operations
    operation.act(state)
    return vfs.operations - before
