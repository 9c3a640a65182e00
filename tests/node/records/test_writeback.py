"""Pages of a file that grows are written early, by a call of the operating system on a thread."""

import ctypes
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

from node.records.writeback import (
    STEP_BYTES,
    WAITING_MAX,
    Writeback,
    system_start,
    vfs_with_writeback,
)
from storage.os_vfs import OsVfs

STEP = 8


def test_what_a_file_has_grown_by_is_handed_over_in_steps(tmp_path):
    calls = []

    def start(number, position, size):
        calls.append((str(Path(f"/proc/self/fd/{number}").readlink()), position, size))

    made = Writeback(start, STEP)
    vfs = OsVfs(made.opened)
    one, other = (vfs.open(str(tmp_path / name), create=True) for name in "ab")
    one.pwrite(bytes(STEP - 1), 0)
    other.pwrite(bytes(STEP), 100)
    one.pwrite(bytes(1), STEP - 1)
    one.pwrite(bytes(STEP - 1), STEP)
    one.pwrite(bytes(STEP - 1), 1000)  # not behind the last one: the kernel writes what was left
    one.pwrite(bytes(3), 1000 + STEP - 1)
    one.pwrite(bytes(STEP - 1), 1000 + STEP + 2)
    one.close()  # what was handed over is written nevertheless
    made.close()
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    assert calls == [(b, 100, STEP), (a, 0, STEP), (a, 1000, STEP + 2)]


def test_a_file_is_closed_behind_its_step_though_no_other_comes(tmp_path):
    made, path = Writeback(lambda *_given: None, STEP), tmp_path / "f"
    file = OsVfs(made.opened).open(str(path), create=True)
    file.pwrite(bytes(STEP), 0)
    file.close()
    end_s = time.monotonic() + 10
    while is_open(path):
        assert time.monotonic() < end_s
        os.sched_yield()
    made.close()


def is_open(path):
    """True if this process has a descriptor of the file."""
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            if str(each.readlink()) == str(path):
                return True
    return False


def test_a_thread_that_is_behind_gets_larger_steps(tmp_path):
    calls, begun, go_on, taken = [], threading.Event(), threading.Event(), threading.Event()

    def start(_number, position, size):
        calls.append((position, size))
        begun.set()
        go_on.wait()
        if len(calls) == WAITING_MAX + 1:
            taken.set()

    made = Writeback(start, STEP)
    file = OsVfs(made.opened).open(str(tmp_path / "f"), create=True)
    file.pwrite(bytes(STEP), 0)
    assert begun.wait(10)
    for step in range(1, WAITING_MAX + 3):
        file.pwrite(bytes(STEP), step * STEP)
    go_on.set()
    assert taken.wait(10)
    file.pwrite(bytes(1), (WAITING_MAX + 3) * STEP)
    made.close()
    steps = [(step * STEP, STEP) for step in range(WAITING_MAX + 1)]
    assert calls == [*steps, ((WAITING_MAX + 1) * STEP, 2 * STEP + 1)]


def test_the_call_of_linux_begins_to_write_and_waits_for_nothing(tmp_path, monkeypatch):
    calls = []

    def sync_file_range(*given):
        calls.append(given)
        return 0

    found = []

    def library(name):
        found.append(name)
        return SimpleNamespace(sync_file_range=sync_file_range)

    with monkeypatch.context() as patched:
        patched.setattr(ctypes, "CDLL", library)
        start = system_start()
        assert start(3, 1 << 33, 5) == 0
    assert found == [None], "the process itself, which has libc"
    assert calls == [(3, 1 << 33, 5, 2)]
    assert sync_file_range.argtypes == (
        ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint,
    )  # fmt: skip
    with (tmp_path / "f").open("wb") as file:
        file.write(b"a")
        file.flush()
        real = system_start()
        assert real is None or real(file.fileno(), 0, 1) == 0


def test_other_systems_have_no_such_call(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace())
    assert system_start() is None
    monkeypatch.setattr(ctypes, "CDLL", None)
    monkeypatch.setattr(sys, "platform", "win32")
    assert system_start() is None


def test_files_are_told_of_writes_where_the_system_has_the_call(tmp_path):
    calls, done = [], threading.Event()

    def start(_number, position, size):
        calls.append((position, size))
        done.set()

    vfs_with_writeback(None).open(str(tmp_path / "a"), create=True).pwrite(bytes(9), 0)
    file = vfs_with_writeback(start).open(str(tmp_path / "b"), create=True)
    file.pwrite(bytes(1), STEP_BYTES - 2)
    file.pwrite(bytes(STEP_BYTES), STEP_BYTES - 1)
    assert done.wait(10)
    assert calls == [(STEP_BYTES - 2, STEP_BYTES + 1)]
