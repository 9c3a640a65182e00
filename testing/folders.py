"""Folders of clusters in memory or below the system's temporary folder, each owned by a process.

Owner is who holds the lock on `NAME.lock` beside the folder NAME; a folder without an owner is what
a power failure or SIGKILL of everything left, and the next who makes one removes it.
"""

import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

LOCK_SUFFIX: Final = ".lock"
_LOCK_NAME: Final = re.compile(r"\d+-[0-9a-f]{8}\.lock")
MEMORY: Final = Path("/dev/shm")  # noqa: S108 - the folder in it is this user's alone
"""Linux' file system in memory: what a cluster syncs at its start costs 50 ms on a disk."""
FREE_BYTES_MIN: Final = 1 << 30
"""Less in memory is for others; a container has 64 MiB."""


def base() -> Path:
    """The folder of this user's clusters; it is made if there is none.

    Raises:
        OSError: it belongs to somebody else, or is no folder.
    """
    folder = _base_in(place(os.environ))
    folder.mkdir(mode=0o700, exist_ok=True)
    if not _is_own(folder):
        raise PermissionError(f"{folder} belongs to another user or is no folder")
    folder.chmod(0o700)
    return folder


def _base_in(folder: Path) -> Path:
    return folder / f"kraftline-testing-{os.getuid()}"


def _is_own(folder: Path) -> bool:
    """True for a folder of this user; a link is none, whatever it leads to."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def place(environment: Mapping[str, str], memory: Path = MEMORY) -> Path:
    """Memory if there is enough, unless TMPDIR says where temporary files go."""
    if not environment.get("TMPDIR") and os.access(memory, os.W_OK):
        free: int = shutil.disk_usage(memory).free
        if free >= FREE_BYTES_MIN:
            return memory
    return Path(tempfile.gettempdir())


def disk_line(environment: Mapping[str, str], memory: Path = MEMORY) -> str | None:
    """The line that tells why clusters lie on a disk; None if they do not, or TMPDIR says so."""
    chosen = place(environment, memory)
    if environment.get("TMPDIR") or chosen == memory or not memory.is_dir():
        return None
    size = f"less than {FREE_BYTES_MIN >> 20} MiB in {memory}"
    return f"kraftline.testing: {size}: clusters lie in {chosen}, and start later\n"


class OwnedFolder:
    """A new folder below `within`, locked by this process and those it forks."""

    def __init__(self, within: Path) -> None:
        self._lock_path, self._lock = _locked_name(within)
        self.path = self._lock_path.with_suffix("")
        try:
            self.path.mkdir(mode=0o700)
        except OSError:  # a full disk
            self.remove()
            raise

    def remove(self) -> None:
        """Remove the folder with all it holds, and let its name go."""
        _remove(self.path, self._lock_path)
        os.close(self._lock)


def _locked_name(within: Path) -> tuple[Path, int]:
    while True:
        path = within / f"{os.getpid()}-{secrets.token_hex(4)}{LOCK_SUFFIX}"
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():  # else a sweep came between the two lines above
            return path, lock
        os.close(lock)


def sweep_all(memory: Path = MEMORY) -> list[Path]:
    """Remove folders without an owner in memory and on disk: which one was chosen may change."""
    bases = {_base_in(memory), _base_in(Path(tempfile.gettempdir()))}
    own = [folder for folder in sorted(bases) if os.path.lexists(folder) and _is_own(folder)]
    return [removed for folder in own for removed in sweep(folder)]


def sweep(within: Path) -> list[Path]:
    """Remove folders without an owner and return them; what has another name is not ours."""
    removed = []
    for lock_path in sorted(within.glob(f"*{LOCK_SUFFIX}")):
        if _LOCK_NAME.fullmatch(lock_path.name) is None:
            continue
        try:
            lock = os.open(lock_path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # its owner has just removed it
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            folder = lock_path.with_suffix("")
            if _remove(folder, lock_path):
                removed.append(folder)
        finally:
            os.close(lock)
    return removed


def _remove(folder: Path, lock_path: Path) -> bool:
    """True if it is gone; else its lock stays, so that a later sweep finds it."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        return False
    lock_path.unlink(missing_ok=True)
    return True
