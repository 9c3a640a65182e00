"""`.unproven`: the mark of a metadata log directory whose voter may have lost an earlier disk.

It is written before the directory is used, so that a voter never starts on an empty disk without
it, and removed when raft has proved that the voter has all it can have acknowledged
(raft/elections/proof.py). Kafka ignores the file: it looks at the directories of a log directory.
"""

import contextlib
from typing import Final

from storage.vfs import Vfs, join, write_file_atomically

UNPROVEN_NAME: Final = ".unproven"
UNPROVEN_TEXT: Final = (
    b"This disk may have replaced another one of the same voter. Until the voter has caught up\n"
    b"with a leader it votes for empty logs only; then kraftline removes this file.\n"
)


class UnprovenMark:
    """The mark of one metadata log directory."""

    def __init__(self, vfs: Vfs, log_directory: str) -> None:
        self._vfs = vfs
        self._directory = log_directory
        self.path = join(log_directory, UNPROVEN_NAME)

    @property
    def exists(self) -> bool:
        """True while the mark stands."""
        return self._vfs.exists(self.path)

    def write(self) -> None:
        """Write the mark into an existing directory; durable on return."""
        write_file_atomically(self._vfs, self.path, UNPROVEN_TEXT)
        assert self.exists, f"{self.path=}"

    def remove(self) -> None:
        """Remove the mark; durable on return. A second removal is harmless."""
        with contextlib.suppress(FileNotFoundError):
            self._vfs.unlink(self.path)
        self._vfs.sync_directory(self._directory)
        assert not self.exists, f"{self.path=}"
