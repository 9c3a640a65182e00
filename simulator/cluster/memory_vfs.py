"""A file system in memory on the disk of `disk_model`, for tests and the simulator.

Two failures: `crash(rng)` is a power failure and gives a new file system with what the disk
kept; `kill()` is a SIGKILL, after which everything written is still there and only locks are gone.
Deterministic: the same calls and the same rng give the same bytes.
"""

import errno
from collections.abc import Callable
from functools import lru_cache
from typing import Final, Protocol

from simulator.cluster.disk_model import DirectoryNode, FileNode, Node
from storage.errors import FsyncError, OutOfSpaceError
from storage.vfs import Lock, VfsFile, Volume
from wire.types import Rng

SEGMENT_SUFFIX: Final = ".log"
FILE_BYTES_MAX: Final = (1 << 44) - 4096
"""Length of the largest file, as on ext4 with blocks of 4 KiB; beyond it EFBIG."""
NAME_BYTES_MAX: Final = 255
PATH_BYTES_MAX: Final = 4095
_POSITION_MAX: Final = (1 << 63) - 1
_LARGE: Final = 1 << 40
"""Bytes of a disk that has no `bytes_max`."""


class SimulatedCrashError(Exception):
    """The machine lost power at this operation; `MemoryVfs.crash()` gives the disk after it."""


class Faults(Protocol):
    """A function called before each operation: an errno makes it fail.

    `kind` is write, truncate, sync, create, rename, unlink, mkdir, rmdir or read.
    """

    def __call__(self, kind: str, path: str, /) -> int | None:
        """Return the errno, None to let the operation happen."""
        ...


class MemoryFile:
    """An open file of a `MemoryVfs`; takes the lengths and positions that Linux takes."""

    __slots__ = ("_is_open", "_node", "_path", "_vfs")

    def __init__(self, vfs: "MemoryVfs", path: str, node: FileNode) -> None:
        self._vfs = vfs
        self._path = path
        self._node = node
        self._is_open = True

    def pread(self, size: int, position: int) -> bytes:
        """Read at most `size` bytes from `position`; fewer only at the end of the file."""
        assert self._is_open, f"{self._path} is closed"
        if size < 0 or not 0 <= position <= _POSITION_MAX - size:
            raise OSError(errno.EINVAL, f"pread of {size=} at {position=}", self._path)
        self._vfs.begin_read(self._path)
        return bytes(self._node.content[position : position + size])

    def pwrite(self, data: bytes | memoryview, position: int) -> None:
        """Write all of it, or raise (possibly after writing a part)."""
        assert self._is_open, f"{self._path} is closed"
        vfs, node, path, size = self._vfs, self._node, self._path, len(self._node.content)
        if not 0 <= position <= _POSITION_MAX - len(data):
            raise OSError(errno.EINVAL, f"pwrite of {len(data)} bytes at {position=}", path)
        if data and position + len(data) > FILE_BYTES_MAX:
            raise OSError(errno.EFBIG, "file too large", path)
        room, error = vfs.begin_write(path, position + len(data) - size, len(data))
        if position < size:
            vfs.note_rewrite(path)
        node.write(position, bytes(data[:room]))
        node.modified_ms = vfs.wall_ms()
        if error is not None:
            raise error

    def truncate(self, size: int) -> None:
        """Set the length."""
        assert self._is_open, f"{self._path} is closed"
        if size < 0:
            raise OSError(errno.EINVAL, f"truncate to {size=}", self._path)
        if size > FILE_BYTES_MAX:
            raise OSError(errno.EFBIG, "file too large", self._path)
        self._vfs.begin("truncate", self._path)
        if size < len(self._node.content):
            self._vfs.note_rewrite(self._path)
        self._node.resize(size)
        self._node.modified_ms = self._vfs.wall_ms()

    def size(self) -> int:
        """The length in bytes."""
        assert self._is_open, f"{self._path} is closed"
        return len(self._node.content)

    def sync(self) -> None:
        """Make the content and the length durable. The directory entry is not covered."""
        assert self._is_open, f"{self._path} is closed"
        try:
            self._vfs.begin("sync", self._path)
        except OSError as error:
            self._node.sync_failed()
            raise FsyncError(self._path, str(error)) from error
        lying = self._vfs.sync_lies
        if lying is None or not self._path.endswith(lying):
            self._node.sync()

    def share(self) -> "MemoryFile":
        """Open the same file once more; each handle is closed on its own."""
        assert self._is_open, f"{self._path} is closed"
        return MemoryFile(self._vfs, self._path, self._node)

    def close(self) -> None:
        """Close this handle."""
        self._is_open = False


class MemoryLock:
    """A held lock."""

    def __init__(self, node: FileNode) -> None:
        self._node = node

    def release(self) -> None:
        """Release the lock."""
        self._node.is_locked = False


class MemoryVfs:
    """Files in memory. Every change and sync counts as one operation, from 0; reads do not count.

    What Linux refuses is refused here with the same errno, and counts as no operation.

    Faults, all off at first:
    - `crash_at = n`: `SimulatedCrashError` instead of operation n; of a write half is done;
    - `faults[n] = errno`: operation n fails with it, a write after half of its bytes;
    - `failing`: a function that decides for each operation and read;
    - `bytes_max`: the size of the disk, above which a write is short and ends with ENOSPC;
    - `sync_lies`: a sync of a file whose path ends with it returns, but nothing is durable;
    - `damage()`: bytes that change on the disk without an operation.
    """

    def __init__(
        self, root: DirectoryNode | None = None, wall_ms: Callable[[], int] = lambda: 0
    ) -> None:
        self.wall_ms = wall_ms
        self._root = DirectoryNode() if root is None else root
        self.operations = 0
        self.name_changes = 0
        """Count of names made, renamed or removed: a watcher lists again only when it changed."""
        self._found: dict[str, Node] = {}  # by path, until a name is renamed or removed
        self.log_changes = 0
        """Count of cuts and overwrites of segments (`.log`): else they have only grown."""
        self.operation_log: list[tuple[str, str]] | None = None
        self.crash_at: int | None = None
        self.faults: dict[int, int] = {}
        self.failing: Faults | Callable[[str, str], int | None] | None = None
        self.bytes_max: int | None = None
        self.sync_lies: str | None = None

    # -- faults ---------------------------------------------------------------------------------

    def begin(self, kind: str, path: str) -> None:
        """Count an operation and fail it where that was asked for."""
        number = self.operations
        self.operations = number + 1
        if self.operation_log is not None:
            self.operation_log.append((kind, path))
        if self.crash_at is not None and number >= self.crash_at:
            raise SimulatedCrashError(f"operation {number}: {kind} {path}")
        code = self.faults.pop(number, None) if self.faults else None
        if code is None and self.failing is not None:
            code = self.failing(kind, path)
        if code is not None:
            raise OSError(code, f"injected into {kind}", path)

    def begin_read(self, path: str) -> None:
        """Fail a read where `failing` says so."""
        if self.failing is None:
            return
        code = self.failing("read", path)
        if code is not None:
            raise OSError(code, "injected into read", path)

    def begin_write(self, path: str, growth: int, size: int) -> tuple[int, Exception | None]:
        """Count a write; return how many of its bytes happen, and the error to raise after them."""
        try:
            self.begin("write", path)
        except SimulatedCrashError as crash:
            return size // 2, crash
        except OSError as error:
            full = error.errno == errno.ENOSPC
            return size // 2, OutOfSpaceError(path) if full else error
        if self.bytes_max is not None and growth > 0:
            free = max(0, self.bytes_max - self.used_bytes())
            if growth > free:
                return min(size - 1, max(0, size - growth + free)), OutOfSpaceError(path)
        return size, None

    def note_rewrite(self, path: str) -> None:
        """Count a cut or an overwrite of a segment."""
        if path.endswith(SEGMENT_SUFFIX):
            self.log_changes += 1

    def used_bytes(self) -> int:
        """The sum of all file lengths."""
        return sum(len(node.content) for node in self._root.files())

    def durable_content(self, path: str) -> bytearray | None:
        """Content of a file that every crash keeps; None if its name may be lost. Read only."""
        node: Node | None = self._root
        for name in _names(path):
            if not isinstance(node, DirectoryNode):
                return None
            node = node.durable.get(name)
        return node.durable if isinstance(node, FileNode) else None

    def written_content(self, path: str) -> bytearray | None:
        """Content of a file as every process reads it. Read only."""
        node = self._find(path)
        return node.content if isinstance(node, FileNode) else None

    def damage(self, path: str, position: int, content: bytes) -> None:
        """Replace bytes inside a file, on the disk and in every view of it (bit rot)."""
        node = self._file(path)
        assert position + len(content) <= len(node.content), f"{position=} {len(node.content)=}"
        node.content[position : position + len(content)] = content
        end = min(position + len(content), len(node.durable))
        if position < end:
            node.durable[position:end] = content[: end - position]

    def rewrite(self, path: str, content: bytes) -> None:
        """Replace a whole file on the disk and in every view of it; nothing of it is unsynced."""
        node = self._file(path)
        node.resize(0)
        node.write(0, content)
        node.sync()

    def write_back(self) -> None:
        """Make all contents durable, as a disk does in time; names are as they were."""
        for node in self._root.files():
            node.sync()

    def crash(self, rng: Rng | None = None) -> "MemoryVfs":
        """Return the disk after a power failure; without an rng nothing unsynced is kept."""
        return MemoryVfs(self._root.after_crash(rng), self.wall_ms)

    def kill(self) -> None:
        """End the process, not the machine: locks are released, the rest stays.

        Names of failed directory syncs can be made durable by the next process.
        """
        for node in self._root.files():
            node.is_locked = False
        self._root.remember()

    # -- Vfs ------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> VfsFile:
        """Open to read and write; `FileNotFoundError` unless `create`."""
        if create and path.endswith("/"):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        node = self._find(path)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            directory, name = self._parent(path)
            try:
                self.begin("create", path)
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    raise OutOfSpaceError(path) from error
                raise
            node = FileNode()
            node.modified_ms = self.wall_ms()
            directory.link(name, node)
            self.name_changes += 1
        if isinstance(node, DirectoryNode):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return MemoryFile(self, path, node)

    def read(self, path: str) -> bytes:
        """Read the whole content."""
        node = self._file(path)
        self.begin_read(path)
        return bytes(node.content)

    def size(self, path: str) -> int:
        """Length of a file in bytes."""
        return len(self._file(path).content)

    def modified_ms(self, path: str) -> int:
        """Wall clock of the last change of a file."""
        return self._file(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set the time of the last change."""
        self._file(path).modified_ms = modified_ms

    def exists(self, path: str) -> bool:
        """True if a file or directory has this path."""
        try:
            return self._find(path) is not None
        except (OSError, ValueError):
            return False

    def is_directory(self, path: str) -> bool:
        """True if it is a directory."""
        try:
            return isinstance(self._find(path), DirectoryNode)
        except (OSError, ValueError):
            return False

    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted."""
        return sorted(self._directory(directory).entries)

    def rename(self, source: str, target: str) -> None:
        """Atomically give a file or directory another name in its directory."""
        directory, old_name = self._parent(source)
        target_directory, new_name = self._parent(target)
        assert directory is target_directory, f"not in one directory: {source=} {target=}"
        node = self._find(source)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        _refuse_replacement(node, self._find(target), target)
        self.begin("rename", target)
        directory.rename(old_name, new_name)
        self._name_went()

    def unlink(self, path: str) -> None:
        """Remove a file."""
        self._file(path)
        self.begin("unlink", path)
        directory, name = self._parent(path)
        directory.unlink(name)
        self._name_went()

    def make_directory(self, path: str) -> None:
        """Make a directory, with its parents; existing ones are fine."""
        directory = self._root
        done = ""
        for name in _names(path):
            done += f"/{name}"
            node = directory.entries.get(name)
            if node is None:
                _check_lengths(done, name)
                self.begin("mkdir", done)
                node = DirectoryNode()
                directory.link(name, node)
                self.name_changes += 1
            if isinstance(node, FileNode):
                if len(done) < len(path.rstrip("/")):
                    raise NotADirectoryError(errno.ENOTDIR, "not a directory", done)
                raise FileExistsError(errno.EEXIST, "is a file", done)
            directory = node

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        if self.list(path):
            raise OSError(errno.ENOTEMPTY, "not empty", path)
        self.begin("rmdir", path)
        directory, name = self._parent(path)
        directory.unlink(name)
        self._name_went()

    def sync_directory(self, path: str) -> None:
        """Make the entries of a directory durable."""
        try:
            directory = self._directory(path)
        except OSError as error:
            raise FsyncError(path, str(error)) from error
        try:
            self.begin("sync", path)
        except OSError as error:
            directory.sync_failed()
            raise FsyncError(path, str(error)) from error
        directory.sync()

    def make_read_only(self, path: str) -> None:
        """Set mode 0400: here only the path is checked."""
        if self._find(path) is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)

    def volume(self, path: str) -> Volume:
        """Volume of `bytes_max`, else of a size that nothing reaches."""
        if self._find(path) is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        self.begin_read(path)
        total_bytes = _LARGE if self.bytes_max is None else self.bytes_max
        return Volume(total_bytes, max(0, total_bytes - self.used_bytes()))

    def lock(self, path: str) -> Lock | None:
        """Take the lock of a file, made if missing; None if it is held."""
        self.open(path, create=True)
        node = self._file(path)
        if node.is_locked:
            return None
        node.is_locked = True
        return MemoryLock(node)

    # -- paths ----------------------------------------------------------------------------------

    def _name_went(self) -> None:
        self.name_changes += 1
        self._found.clear()

    def _find(self, path: str) -> Node | None:
        known = self._found.get(path)
        if known is not None:
            return known
        node: Node = self._root
        for name in _names(path):
            if isinstance(node, FileNode):
                raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
            found = node.entries.get(name)
            if found is None:
                _check_lengths(path, name)
                return None
            node = found
        if isinstance(node, FileNode) and path.endswith("/"):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        self._found[path] = node
        return node

    def _parent(self, path: str) -> tuple[DirectoryNode, str]:
        head, _, name = path.rstrip("/").rpartition("/")
        return self._directory(head), name

    def _directory(self, path: str) -> DirectoryNode:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        if isinstance(node, FileNode):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        return node

    def _file(self, path: str) -> FileNode:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        if isinstance(node, DirectoryNode):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return node


def _refuse_replacement(node: Node, replaced: Node | None, path: str) -> None:
    """Raise as rename(2) where the target cannot be replaced."""
    if isinstance(node, FileNode):
        if isinstance(replaced, DirectoryNode):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
    elif isinstance(replaced, FileNode):
        raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
    elif replaced is not None and replaced is not node and replaced.entries:
        raise OSError(errno.ENOTEMPTY, "not empty", path)


def _check_lengths(path: str, name: str) -> None:
    """Raise as Linux where a name that is looked up, or its path, is too long."""
    if len(name.encode(errors="surrogateescape")) > NAME_BYTES_MAX:
        raise OSError(errno.ENAMETOOLONG, "file name too long", path)
    if len(path.encode(errors="surrogateescape")) > PATH_BYTES_MAX:
        raise OSError(errno.ENAMETOOLONG, "path too long", path)


@lru_cache(4096)
def _names(path: str) -> tuple[str, ...]:
    """Names of a path; ValueError for one that Python gives to no system call."""
    if b"\0" in path.encode(errors="surrogateescape"):
        raise ValueError("embedded null byte")
    return tuple(name for name in path.split("/") if name not in ("", "."))
