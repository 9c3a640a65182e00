"""A file system in memory that knows what was synced: for tests and for the simulator.

Two views are kept: the volatile one that every call sees, and the durable one. `crash()` drops
what was not made durable. Names are durable after `sync_directory`, content after `VfsFile.sync`:
stricter than most file systems. A failed sync loses what it should have written for good.
"""

import errno
from collections.abc import Callable

from storage.errors import FsyncError, OutOfSpaceError
from storage.vfs import Lock, VfsFile, parent


class SimulatedCrashError(Exception):
    """The machine lost power at this operation; `MemoryVfs.crash()` gives what is left."""


class _Inode:
    """A file: its bytes, what of them is durable, and where unsynced changes begin."""

    __slots__ = ("clean_bytes", "durable", "locked", "volatile")

    def __init__(self) -> None:
        self.volatile = bytearray()
        self.durable = bytearray()
        self.clean_bytes = 0
        self.locked = False

    def touch(self, position: int) -> None:
        self.clean_bytes = min(self.clean_bytes, position)

    def sync(self) -> None:
        self.durable[self.clean_bytes :] = self.volatile[self.clean_bytes :]
        self.clean_bytes = len(self.volatile)


class MemoryFile:
    """An open file of a `MemoryVfs`."""

    __slots__ = ("_inode", "_path", "_vfs")

    def __init__(self, vfs: "MemoryVfs", path: str, inode: _Inode) -> None:
        self._vfs = vfs
        self._path = path
        self._inode = inode

    def pread(self, size: int, position: int) -> bytes:
        """At most `size` bytes from `position`; fewer only at the end of the file."""
        return bytes(self._inode.volatile[position : position + size])

    def pwrite(self, data: bytes | memoryview, position: int) -> None:
        """Write all of it, or raise (possibly after writing a part)."""
        content = self._inode.volatile
        room = self._vfs.begin_write(self._path, position + len(data) - len(content), len(data))
        if len(content) < position:
            content.extend(bytes(position - len(content)))
        content[position : position + room] = data[:room]
        self._inode.touch(position)
        if room < len(data):
            self._vfs.fail_write(self._path)

    def truncate(self, size: int) -> None:
        """Set the length."""
        self._vfs.begin("truncate", self._path)
        content = self._inode.volatile
        if size < len(content):
            del content[size:]
        else:
            content.extend(bytes(size - len(content)))
        self._inode.touch(size)

    def size(self) -> int:
        """The length in bytes."""
        return len(self._inode.volatile)

    def sync(self) -> None:
        """Make the content and the length durable. The directory entry is not covered."""
        try:
            self._vfs.begin("sync", self._path)
        except OSError as error:
            self._inode.clean_bytes = len(self._inode.volatile)  # the kernel forgets the pages
            self._inode.durable.extend(bytes(max(0, self.size() - len(self._inode.durable))))
            raise FsyncError(self._path, str(error)) from error
        self._inode.sync()

    def share(self) -> "MemoryFile":
        """Another use of the same open file, with a life of its own."""
        return MemoryFile(self._vfs, self._path, self._inode)

    def close(self) -> None:
        """Drop this use of the file."""


class MemoryLock:
    """A held lock."""

    def __init__(self, inode: _Inode) -> None:
        self._inode = inode

    def release(self) -> None:
        """Let another one have it."""
        self._inode.locked = False


class MemoryVfs:
    """Files in memory. Every change and sync counts as one operation, from 0.

    `crash_at = n` raises `SimulatedCrashError` instead of operation n; a write first leaves half of
    its bytes. `faults[n] = errno` makes operation n fail with it. `bytes_max` is the disk's size.
    """

    def __init__(self) -> None:
        self._volatile: dict[str, _Inode | None] = {"/": None}  # None = a directory
        self._durable: dict[str, _Inode | None] = {"/": None}
        self.operations = 0
        self.operation_log: list[tuple[str, str]] | None = None
        self.crash_at: int | None = None
        self.faults: dict[int, int] = {}
        self.failing: Callable[[str, str], int | None] | None = None
        self.bytes_max: int | None = None
        self._partial_write_errno: int | None = None

    # -- faults ---------------------------------------------------------------------------------

    def begin(self, kind: str, path: str) -> None:
        """Count an operation and fail it where that was asked for."""
        number = self.operations
        self.operations += 1
        if self.operation_log is not None:
            self.operation_log.append((kind, path))
        if self.crash_at is not None and number >= self.crash_at:
            raise SimulatedCrashError(f"operation {number}: {kind} {path}")
        code = self.faults.pop(number, None)
        if code is None and self.failing is not None:
            code = self.failing(kind, path)
        if code is not None:
            raise OSError(code, f"injected into {kind}", path)

    def begin_write(self, path: str, growth: int, size: int) -> int:
        """How many bytes of a write happen before it fails (all, when it does not)."""
        self._partial_write_errno = None
        try:
            self.begin("write", path)
        except SimulatedCrashError:
            self._partial_write_errno = -1
            return size // 2
        except OSError as error:
            self._partial_write_errno = error.errno
            return size // 2
        if self.bytes_max is not None and growth > 0:
            free = max(0, self.bytes_max - self.used_bytes())
            if growth > free:
                self._partial_write_errno = errno.ENOSPC
                return min(size - 1, max(0, size - growth + free))
        return size

    def fail_write(self, path: str) -> None:
        """Raise what `begin_write` found."""
        code = self._partial_write_errno
        assert code is not None
        if code == -1:
            raise SimulatedCrashError(f"write {path}")
        if code == errno.ENOSPC:
            raise OutOfSpaceError(path)
        raise OSError(code, "injected into write", path)

    def used_bytes(self) -> int:
        """The sum of all file lengths."""
        return sum(len(inode.volatile) for inode in self._volatile.values() if inode is not None)

    def crash(self, kept_bytes: Callable[[str, int], int] | None = None) -> "MemoryVfs":
        """The disk after the power came back: what was durable.

        `kept_bytes(path, n)` may keep some of the n bytes appended to a file since its last sync.
        """
        after = MemoryVfs()
        for path, inode in self._durable.items():
            if inode is None:
                after._volatile[path] = None
                continue
            fresh = _Inode()
            fresh.volatile += inode.durable
            appended = len(inode.volatile) - len(inode.durable)
            if kept_bytes is not None and appended > 0:
                start = len(inode.durable)
                fresh.volatile += inode.volatile[start : start + kept_bytes(path, appended)]
            fresh.sync()
            after._volatile[path] = fresh
        after._durable = dict(after._volatile)
        return after

    # -- Vfs ------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> VfsFile:
        """Open to read and write; `FileNotFoundError` unless `create`."""
        if path not in self._volatile:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            if not self.is_directory(parent(path)):
                raise FileNotFoundError(errno.ENOENT, "no such directory", parent(path))
            try:
                self.begin("create", path)
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    raise OutOfSpaceError(path) from error
                raise
            self._volatile[path] = _Inode()
        return MemoryFile(self, path, self._inode(path))

    def read(self, path: str) -> bytes:
        """The whole content."""
        return bytes(self._inode(path).volatile)

    def size(self, path: str) -> int:
        """The length of a file."""
        return len(self._inode(path).volatile)

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this path."""
        return path in self._volatile

    def is_directory(self, path: str) -> bool:
        """Whether it is a directory."""
        return path in self._volatile and self._volatile[path] is None

    def list(self, directory: str) -> list[str]:
        """The names in a directory, sorted."""
        if not self.is_directory(directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", directory)
        prefix = directory.rstrip("/") + "/"
        return sorted(
            path[len(prefix) :]
            for path in self._volatile
            if path.startswith(prefix) and "/" not in path[len(prefix) :] and path != prefix
        )

    def rename(self, source: str, target: str) -> None:
        """Atomically give a file or directory another name, replacing a file there."""
        self.begin("rename", target)
        if source not in self._volatile:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        self._volatile[target] = self._volatile.pop(source)
        for path in [path for path in self._volatile if path.startswith(source + "/")]:
            self._volatile[target + path[len(source) :]] = self._volatile.pop(path)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        self._inode(path)
        self.begin("unlink", path)
        del self._volatile[path]

    def make_directory(self, path: str) -> None:
        """Make a directory, with its parents; existing ones are fine."""
        if path in ("/", ".") or self.is_directory(path):
            return
        self.make_directory(parent(path))
        self.begin("mkdir", path)
        self._volatile[path] = None

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        if self.list(path):
            raise OSError(errno.ENOTEMPTY, "not empty", path)
        self.begin("rmdir", path)
        del self._volatile[path]

    def sync_directory(self, path: str) -> None:
        """Make the entries of a directory durable."""
        try:
            self.begin("sync", path)
        except OSError as error:
            raise FsyncError(path, str(error)) from error
        prefix = path.rstrip("/") + "/"
        durable_inodes = {id(inode) for inode in self._durable.values() if inode is not None}
        for known in [known for known in self._durable if parent(known) == path]:
            if known not in self._volatile and known != "/":
                for gone in [p for p in self._durable if p == known or p.startswith(known + "/")]:
                    del self._durable[gone]
        for name in self.list(path):
            entry = self._volatile[prefix + name]
            if entry is None and prefix + name not in self._durable:
                self._adopt_directory(prefix + name, durable_inodes)
            self._durable[prefix + name] = entry

    def make_read_only(self, path: str) -> None:
        """Mode 0400."""
        self._inode(path)

    def lock(self, path: str) -> Lock | None:
        """Take the lock of a file, made if missing; None if somebody has it."""
        self.open(path, create=True)
        inode = self._inode(path)
        if inode.locked:
            return None
        inode.locked = True
        return MemoryLock(inode)

    def _adopt_directory(self, path: str, durable_inodes: set[int]) -> None:
        """A directory that is durable under a new name brings the names that were durable in it.

        They are found by their inodes, which a rename does not change.
        """
        for inner, inode in self._volatile.items():
            if inner.startswith(path + "/") and inode is not None and id(inode) in durable_inodes:
                self._durable[inner] = inode

    def _inode(self, path: str) -> _Inode:
        inode = self._volatile.get(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return inode
