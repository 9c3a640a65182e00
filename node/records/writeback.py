"""Log files on their way to the disk as they grow: `sync_file_range` of Linux, on a thread.

Linux leaves written pages in memory until a tenth of it is full of them or they are 30 s old, then
writes gigabytes at once. A flush of the metadata log on the same disk waits behind them, 50 to
240 ms, and with it what the controller answers meanwhile. Begun early, a few MB are on their way.

Nothing here makes a record durable or waits for the disk, and what is not begun is left to the
kernel: an error says nothing, a flush meets it too. docs/decisions/0019-early-writeback.md.
"""

import ctypes
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from storage.os_vfs import OsFile, OsVfs, Written

STEP_BYTES: Final = 4 * 1024 * 1024
"""Growth of a file after which its pages are written: as many MB a second as clients produce wake
the thread a quarter as often."""
WAITING_MAX: Final = 4
"""Steps that wait for the thread; a file grows on meanwhile, and its next step is larger."""
_WRITE: Final = 2
"""SYNC_FILE_RANGE_WRITE: begin to write the pages that are not being written."""

Start = Callable[[int, int, int], object]
"""Begins to write pages of a file: descriptor, position and size in bytes; it releases the GIL."""


def system_start() -> Start | None:
    """The call of this operating system; None where there is none."""
    call = None if sys.platform == "win32" else getattr(ctypes.CDLL(None), "sync_file_range", None)
    if call is None:
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)

    def start(number: int, position: int, size: int) -> object:
        return call(number, position, size, _WRITE)

    return start


def vfs_with_writeback(start: Start | None) -> OsVfs:
    """The file system of the machine, whose files are on their way to the disk as they grow."""
    return OsVfs(None if start is None else Writeback(start).opened)


class Writeback:
    """A thread that begins to write what files have grown by; it begins with the first step.

    It does not keep the process alive.

    Args:
        start: begins to write pages.
        step_bytes: growth of a file after which it is called.
    """

    def __init__(self, start: Start, step_bytes: int = STEP_BYTES) -> None:
        self._start = start
        self.step_bytes = step_bytes
        self._queue: SimpleQueue[tuple[OsFile, int, int] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def opened(self) -> Written:
        """Return what is told of the writes to a file that is opened now."""
        return _Growth(self).written

    def begin(self, file: OsFile, position: int, size: int) -> bool:
        """Hand a step over to the thread; False if too many wait."""
        if self._queue.qsize() >= WAITING_MAX:
            return False
        self._queue.put((file.share(), position, size))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="writeback", daemon=True)
            self._thread.start()
        return True

    def close(self) -> None:
        """End the thread behind the steps that wait."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (step := self._queue.get()) is not None:
            file, position, size = step
            self._start(file.fileno(), position, size)
            file.close()  # the next step may be far, and the file deleted meanwhile


class _Growth:
    """The bytes of a file that were written one behind the other and not handed over."""

    __slots__ = ("_end", "_start", "_writeback")

    def __init__(self, writeback: Writeback) -> None:
        self._writeback = writeback
        self._start = self._end = 0

    def written(self, file: OsFile, position: int, size: int) -> None:
        """Take note of a write."""
        if position != self._end:
            self._start = position
        self._end = position + size
        grown = self._end - self._start
        if grown >= self._writeback.step_bytes and self._writeback.begin(file, self._start, grown):
            self._start = self._end
