"""`.reserve`: disk blocks in reserve, so that elections and truncations work on a full disk.

A node on a full disk stops appending but must still replace quorum-state and the recorded flushed
end by new files. They get their blocks from this file, which is released for them and filled again
before anything is appended. Kafka ignores the file.
"""

import contextlib
from typing import Final

from storage.errors import OutOfSpaceError
from storage.vfs import Vfs, join

RESERVE_NAME: Final = ".reserve"
RESERVE_BYTES: Final = 64 * 1024  # a dozen small files with their directory blocks
PROBE_BYTES: Final = 4 * 1024  # a block: the record that starts an epoch fits into it
assert RESERVE_BYTES % PROBE_BYTES == 0, "the probe begins a block of its own"


class SpaceReserve:
    """The reserve of one log directory."""

    def __init__(self, vfs: Vfs, log_directory: str) -> None:
        self._vfs = vfs
        self.path = join(log_directory, RESERVE_NAME)

    def fill(self) -> bool:
        """Allocate the blocks; False if the disk is full.

        A complete file stays as it is, also one with the probe that a crash left at its end.
        """
        if self._vfs.exists(self.path) and self._vfs.size(self.path) >= RESERVE_BYTES:
            return True
        try:
            file = self._vfs.open(self.path, create=True)
            try:
                file.pwrite(bytes(RESERVE_BYTES), 0)
            finally:
                file.close()
        except OutOfSpaceError:
            self.release()
            return False
        return True

    def has_space(self) -> bool:
        """Try to write beyond the filled reserve; True if the disk has space."""
        assert self._vfs.size(self.path) >= RESERVE_BYTES, "fill it first"
        file = self._vfs.open(self.path)
        try:
            file.pwrite(bytes(PROBE_BYTES), RESERVE_BYTES)
        except OutOfSpaceError:
            return False
        finally:
            file.truncate(RESERVE_BYTES)
            file.close()
        return True

    def release(self) -> bool:
        """Free the blocks; True if there were any."""
        with contextlib.suppress(FileNotFoundError):
            self._vfs.unlink(self.path)
            return True
        return False
