"""Every public operation of the storage on a disk that fails it, at each step of its trace.

The step gets EIO or ENOSPC, a write after half of its bytes, and the operation raises one of the
declared errors: it never goes on with what failed. Then the process is killed or the power fails:
what was acknowledged before is there, what the operation does is absent or complete. A full disk
that has space again takes the same operation a second time.
"""

import errno
import random
from collections.abc import Iterator

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.errors import FsyncError, OutOfSpaceError
from storage.log_dir.partition_directories import open_metadata_log
from tests.selection import thinned
from tests.storage import test_crash_operations, test_crash_recovery
from tests.storage.crashes import CONFIG, FLUSHED, LogIs, Operation, State, disk, steps_of
from tests.storage.possible_disks import Many, disks
from tests.storage.test_crash import batch

OPERATIONS = test_crash_operations.OPERATIONS | test_crash_recovery.OPERATIONS
DECLARED = (OSError, OutOfSpaceError, FsyncError)
QUICK, LONG = Many(counted_max=20, drawn=1), Many(counted_max=100, drawn=4)
CODES = pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
STEPS = pytest.mark.parametrize("every", thinned([5, 1], every=2))
"""Each fifth step in a quick run."""


def failed(operation: Operation, step: int, code: int) -> tuple[MemoryVfs, State, Exception | None]:
    """The disk, what acted on it, and the error with which the operation ended."""
    vfs = disk()
    state = operation.prepare(vfs)
    vfs.faults[vfs.operations + step] = code
    try:
        operation.act(state)
    except DECLARED as error:
        return vfs, state, error
    return vfs, state, None


def failures(
    name: str, code: int, every: int
) -> Iterator[tuple[int, MemoryVfs, State, Exception | None]]:
    """The operation once for each step that fails; begun at another one for each operation."""
    count = steps_of(OPERATIONS[name])
    for step in range(len(name) % min(every, count), count, every):
        yield step, *failed(OPERATIONS[name], step, code)


def look(operation: Operation, vfs: MemoryVfs, *, is_done: bool) -> None:
    """Check what a process finds that was started after a SIGKILL, and what it leaves."""
    if not isinstance(operation.check, LogIs):
        operation.check(vfs, is_done)
        return
    operation.check.look(vfs, CONFIG, None, False)  # it appends one batch and closes
    log = open_metadata_log(vfs.crash(), "/d", CONFIG)
    added = log.end_offset - 1
    for offset in range(log.log_start_offset, log.end_offset):
        epoch = 9 if offset == added else 1 if offset < FLUSHED else 2
        assert log.read(offset, 1) == batch(offset, epoch), offset
    assert set(operation.check.kept) <= set(range(log.log_start_offset, added))


@STEPS
@CODES
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_error_at_every_step_loses_nothing(name: str, code: int, every: int) -> None:
    operation = OPERATIONS[name]
    for step, vfs, _, error in failures(name, code, every):
        assert error is not None or code == errno.ENOSPC, step  # EIO is never passed over
        is_done = error is None
        is_certain = is_done and operation.is_durable
        for left in disks(vfs, f"{name} {step}", LONG if every == 1 else QUICK):
            operation.check(left, is_certain)
        vfs.kill()
        look(operation, vfs, is_done=is_done)


class Reads:
    """For `MemoryVfs.failing`: counts reads, and the one with this number gets EIO."""

    def __init__(self, failing: int | None) -> None:
        self._failing = failing
        self.count = 0

    def __call__(self, kind: str, _path: str) -> int | None:
        if kind != "read":
            return None
        self.count += 1
        return errno.EIO if self.count - 1 == self._failing else None


def with_read(operation: Operation, failing: int | None) -> tuple[MemoryVfs, int, Exception | None]:
    """The disk, how many reads there were, and the error with which the operation ended."""
    vfs = disk()
    state = operation.prepare(vfs)
    vfs.failing = reads = Reads(failing)
    found: Exception | None = None
    try:
        operation.act(state)
    except OSError as error:
        found = error
    vfs.failing = None
    return vfs, reads.count, found


@STEPS
def test_an_error_of_every_read_ends_the_operation_and_loses_nothing(every: int) -> None:
    reads = {name: with_read(operation, None)[1] for name, operation in OPERATIONS.items()}
    assert reads["log-open"] > 5
    for name, operation in OPERATIONS.items():
        for number in range(len(name) % every, reads[name], every):
            vfs, _, error = with_read(operation, number)
            assert error is not None, (name, number)
            operation.check(vfs.crash(), False)
            operation.check(vfs.crash(random.Random(f"{name} {number}")), False)
            vfs.kill()
            look(operation, vfs, is_done=False)


@STEPS
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_disk_that_has_space_again_takes_it_a_second_time(name: str, every: int) -> None:
    operation = OPERATIONS[name]
    for step, vfs, state, error in failures(name, errno.ENOSPC, every):
        if not isinstance(error, OutOfSpaceError):
            continue
        operation.act(state)
        operation.check(vfs.crash(), operation.is_durable)
        operation.check(vfs.crash(random.Random(f"{name} {step}")), operation.is_durable)
        vfs.kill()
        look(operation, vfs, is_done=True)
