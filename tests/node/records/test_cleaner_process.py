"""Rounds in a cleaner process: answers, errors, aborts, deaths, the throttle."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from node.records.cleaner_process import (
    LENGTH,
    Abort,
    Begin,
    CleanerProcess,
    Close,
    Closed,
    Failed,
    Failure,
    Frames,
    Step,
    failed,
)
from node.records.cleaner_sessions import CleanerProcesses, _error
from simulator.cluster.memory_vfs import MemoryVfs
from storage.cleaner.clean_job import CleanJob, GroupCleaned, RoundEnded
from storage.cleaner.session import (
    CleanerDiedError,
    RoundAbortedError,
    UnexpectedCleanerError,
)
from storage.errors import CorruptLogError, FsyncError, OutOfSpaceError
from storage.segments.segment import segment_name
from tests.storage.cleaner.rounds import batch, disk, job_of, record


def keyed(offset: int, key: bytes = b"a") -> bytes:
    return batch(record(offset, key))


class Pipe:
    """Orders of a test, and the answers; `late` ones are there once the throttle waits."""

    def __init__(self, *orders: object, late: tuple[object, ...] = ()) -> None:
        self.content = b"".join(map(self.frame, orders))
        self.late = list(late)
        self.answers = b""

    @staticmethod
    def frame(order: object) -> bytes:
        content = msgspec.msgpack.encode(order)
        return LENGTH.pack(len(content)) + content

    def read(self, size: int) -> bytes:
        if not self.content and self.late:
            self.content = self.frame(self.late.pop(0))
        taken, self.content = self.content[:size], self.content[size:]
        return taken

    def fileno(self) -> int:
        return -1

    def write(self, content: bytes) -> int:
        self.answers += content
        return len(content)

    def flush(self) -> None:
        pass


class Scripted(Frames):
    """Frames whose late orders are there at the first wait, and no time passes."""

    def __init__(self, pipe: Pipe) -> None:
        super().__init__(pipe, pipe)
        self.pipe = pipe
        self.waits: list[float] = []

    def is_readable(self, wait_s: float) -> bool:  # type: ignore[override]
        self.waits.append(wait_s)
        return bool(self.pipe.late)


def answers(
    vfs: MemoryVfs, *orders: object, late: tuple[object, ...] = ()
) -> tuple[list[object], list[float]]:
    pipe = Pipe(*orders, late=late)
    frames = Scripted(pipe)
    CleanerProcess(vfs, frames).run()
    found: list[object] = []
    reader = Frames(Pipe(), Pipe())
    reader._reader = pipe  # type: ignore[assignment]
    pipe.content = pipe.answers
    while (frame := reader.read()) is not None:
        found.append(
            msgspec.msgpack.decode(frame, type=GroupCleaned | RoundEnded | Failed | Closed)
        )
    return found, frames.waits


def two_groups() -> tuple[MemoryVfs, CleanJob]:
    vfs = disk({0: [keyed(0)], 1: [keyed(1)]})
    return vfs, job_of([0, 1], 2, segment_bytes=1)


def test_each_step_ends_with_a_group_and_the_last_with_the_round() -> None:
    vfs, job = two_groups()
    found, _ = answers(vfs, Begin(job), *[Step(1e9)] * 3, Close())
    first, second, ended, closed = found
    assert first == GroupCleaned(0, (0,))
    assert second == GroupCleaned(1, (1,))
    assert isinstance(ended, RoundEnded)
    assert ended.end_offset == 2
    assert closed == Closed()


def test_a_step_without_a_round_is_aborted() -> None:
    assert answers(MemoryVfs(), Step(1.0))[0] == [Failed(Failure.ABORTED)]


def test_an_abort_ends_the_step_and_leaves_nothing() -> None:
    vfs, job = two_groups()
    found, _ = answers(vfs, Begin(job), Step(1.0), late=(Abort(),))
    assert found == [Failed(Failure.ABORTED)]
    assert not any(name.endswith(".cleaned") for name in vfs.list(job.directory))
    again, _ = answers(vfs, Begin(job), Abort(), Step(1e9), Begin(job), Step(1e9))
    assert again == [Failed(Failure.ABORTED), GroupCleaned(0, (0,))]


def test_the_end_of_the_input_ends_a_round() -> None:
    vfs, job = two_groups()
    found, _ = answers(vfs, Begin(job), Step(1e9))
    assert found == [GroupCleaned(0, (0,))]


def test_a_step_waits_for_its_bytes() -> None:
    vfs, job = two_groups()
    _, slow = answers(vfs, Begin(job), Step(100.0))
    size = len(keyed(0))
    assert max(slow) == pytest.approx((3 * size) / 100, abs=0.1)
    _, fast = answers(vfs, Begin(job), Step(1e12))
    assert max(fast) == 0.0


def test_damage_is_told_with_its_place() -> None:
    vfs, job = two_groups()
    path = f"{job.directory}/{segment_name(1)}"
    vfs.damage(path, 69, b"\xff")
    found, _ = answers(vfs, Begin(job), Step(1e9))
    assert found == [Failed(Failure.DAMAGE, path, 0, "the CRC of the batch is wrong")]


@pytest.mark.parametrize(
    "error",
    [
        CorruptLogError("/p", 7, "r"),
        OutOfSpaceError("/p"),
        FsyncError("/p", "r"),
        OSError(5, "r", "/p"),
    ],
)
def test_errors_of_the_disk_come_back_as_they_were(error: Exception) -> None:
    again = _error(failed(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.__dict__ == error.__dict__


def test_other_errors_come_back_with_their_place() -> None:
    try:
        raise AssertionError("the map is built first")  # noqa: TRY301
    except AssertionError as error:
        again = _error(failed(error))
    assert isinstance(again, UnexpectedCleanerError)
    assert "the map is built first" in str(again)
    assert isinstance(_error(Failed(Failure.ABORTED)), RoundAbortedError)


# -- a real process -------------------------------------------------------------------------------


@pytest.fixture
def processes() -> Iterator[CleanerProcesses]:
    one = CleanerProcesses()
    yield one
    one.close()


def on_disk(folder: Path, count: int = 2) -> CleanJob:
    directory = folder / "comp-0"
    directory.mkdir()
    for offset in range(count):
        (directory / segment_name(offset)).write_bytes(keyed(offset))
    job = job_of(range(count), count, segment_bytes=1)
    return msgspec.structs.replace(job, directory=str(directory))


def test_a_process_runs_rounds_dies_and_is_started_again(
    tmp_path: Path, processes: CleanerProcesses
) -> None:
    job = on_disk(tmp_path)
    session = processes.open("0", job)
    assert session.step(1e9) == GroupCleaned(0, (0,))
    assert (tmp_path / "comp-0" / f"{segment_name(0)}.cleaned").read_bytes() == b""
    first = processes.running["0"].pid
    os.kill(first, signal.SIGKILL)
    with pytest.raises(CleanerDiedError, match="code -9"):
        session.step(1e9)
    session.close()
    assert processes.running == {}
    again = processes.open("0", job)
    assert [again.step(1e9), again.step(1e9)] == [GroupCleaned(0, (0,)), GroupCleaned(1, (1,))]
    assert isinstance(again.step(1e9), RoundEnded)
    again.close()
    assert processes.running["0"].pid != first
    slow = processes.open("0", job)
    started_s = time.monotonic()
    slow.abort()
    with pytest.raises(RoundAbortedError):
        slow.step(0.001)
    slow.close()
    assert time.monotonic() - started_s < 30


def test_a_process_that_cannot_be_started_has_died(
    tmp_path: Path, processes: CleanerProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "none"))
    session = processes.open("0", on_disk(tmp_path))
    with pytest.raises(CleanerDiedError, match="can be started"):
        session.step(1.0)
    session.close()
