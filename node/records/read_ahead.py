"""Bytes of log files for sockets: from the page cache at once, else from the disk on a thread.

A read that waits for the disk would stop the loop: it holds every connection for milliseconds.
`preadv` with RWF_NOWAIT tells whether bytes are in the page cache: about 1 us for each place.
"""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import Final

from node.worker import Worker
from storage.os_vfs import OsFile
from storage.vfs import VfsFile, parent

PROBE_BYTES: Final = 128 * 1024
"""Distance of the places that are looked at: Linux reads ahead at least as much by default."""
CLOSE_WAIT_S: Final = 0.2
_NOWAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)

IsCached = Callable[[VfsFile, int, int], bool]
"""A function of file, position and size in bytes (> 0)."""


def is_cached(file: VfsFile, position: int, size: int) -> bool:
    """True unless some of the bytes must come from the disk; True where nobody can tell."""
    assert size > 0, f"{size=}"
    if not isinstance(file, OsFile) or _NOWAIT is None:
        return True
    number, one = file.fileno(), bytearray(1)
    end = position + size
    try:
        for place in (*range(position, end, PROBE_BYTES), end - 1):
            os.preadv(number, [one], place, _NOWAIT)
    except BlockingIOError:
        return False
    except OSError:  # not supported by the file system, or an error that the read itself meets
        return True
    return True


class ReadAhead:
    """Threads that read bytes of files into the page cache: one for each log directory.

    A disk that is stuck holds up no other. A thread begins with the first read of its directory.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._workers: dict[str, Worker] = {}

    def fill(self, file: VfsFile, position: int, size: int, done: Callable[[], None]) -> None:
        """Read the bytes, then call `done` in the loop; an error is met by who reads next."""
        log_dir = parent(parent(file.path)) if isinstance(file, OsFile) else ""
        worker = self._workers.get(log_dir)
        if worker is None:
            worker = self._workers[log_dir] = Worker(self._loop, f"read-ahead {log_dir}")
        worker.submit(partial(_read, file.share(), position, size), lambda _error: done())

    def close(self) -> None:
        """Wait a little for what is being read."""
        for worker in self._workers.values():
            worker.close(CLOSE_WAIT_S / len(self._workers))


def _read(file: VfsFile, position: int, size: int) -> None:
    try:
        file.pread(size, position)
    finally:
        file.close()
