"""Reads and writes of files that a disk refuses."""

import errno

from simulator.checks.raft.log_mirror import FOLDER
from simulator.cluster.memory_vfs import SEGMENT_SUFFIX


class FailingWrites:
    """Function for `MemoryVfs.failing`: the n-th write to the metadata log gets EIO.

    Args:
        countdown: n, from 1 on.
        is_lasting: every later write and cut of it fails too.
    """

    def __init__(self, countdown: int, *, is_lasting: bool) -> None:
        self._countdown = countdown
        self.is_lasting = is_lasting

    def __call__(self, kind: str, path: str, /) -> int | None:
        """Return the errno, None to let the operation happen."""
        if not path.startswith(FOLDER) or not path.endswith(SEGMENT_SUFFIX):
            return None
        if self._countdown > 0:
            self._countdown -= kind == "write"
            fails = self._countdown == 0
        else:
            fails = self.is_lasting and kind in ("write", "truncate")
        return errno.EIO if fails else None


def is_lasting(failing: object) -> bool:
    """True if the `failing` of a `MemoryVfs` is a fault of the disk that stays."""
    return isinstance(failing, FailingWrites) and failing.is_lasting


class FailingRead:
    """Function for `MemoryVfs.failing`: the n-th read gets EIO, once.

    Args:
        countdown: n, from 1 on.
    """

    def __init__(self, countdown: int) -> None:
        self._countdown = countdown
        self.path: str | None = None
        """Path that could not be read; None: there were fewer reads so far."""

    def __call__(self, kind: str, path: str, /) -> int | None:
        """Return the errno, None to let the operation happen."""
        if kind != "read":
            return None
        self._countdown -= 1
        if self._countdown != 0:
            return None
        self.path = path
        return errno.EIO
