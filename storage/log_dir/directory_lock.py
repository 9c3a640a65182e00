"""`.lock`: a POSIX record lock that admits one process, ours or Kafka's, to a log directory."""

from typing import Final

from storage.errors import LockedDirectoryError
from storage.vfs import Lock, Vfs, join

LOCK_NAME: Final = ".lock"


def lock_directory(vfs: Vfs, log_directory: str) -> Lock:
    """Take the lock; it is held until released or the process ends.

    Raises:
        LockedDirectoryError: another process holds it.
    """
    lock = vfs.lock(join(log_directory, LOCK_NAME))
    if lock is None:
        raise LockedDirectoryError(log_directory)
    return lock
