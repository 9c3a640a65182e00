"""`Vfs` on the operating system: the only module of the core packages that imports `os`."""

import errno
import fcntl
import os
from collections.abc import Callable
from typing import Final

from storage.errors import FsyncError, OutOfSpaceError
from storage.vfs import Lock, VfsFile, Volume

_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_NS_PER_MS: Final = 1_000_000
_FILE_MODE: Final = 0o644


class _Descriptor:
    """A file descriptor that is closed when nothing refers to it any more.

    A flush on another thread holds a reference, so that closing the log meanwhile cannot reuse the
    number for another file.
    """

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class OsFile:
    """An open file of the operating system.

    Args:
        path: of the file.
        descriptor: of the open file.
        written: told of each write.
    """

    __slots__ = ("_descriptor", "_path", "_written")

    def __init__(
        self, path: str, descriptor: _Descriptor, written: "Written | None" = None
    ) -> None:
        self._path = path
        self._descriptor: _Descriptor | None = descriptor
        self._written = written

    def pread(self, size: int, position: int) -> bytes:
        """At most `size` bytes from `position`; fewer only at the end of the file."""
        assert self._descriptor is not None, f"{self._path} is closed"
        number = self._descriptor.number
        data = os.pread(number, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size:
            data = os.pread(number, size - got, position + got)
            if not data:
                break
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def pwrite(self, data: bytes | memoryview, position: int) -> None:
        """Write all bytes, or raise (possibly after writing a part)."""
        assert self._descriptor is not None, f"{self._path} is closed"
        number = self._descriptor.number
        try:
            written = os.pwrite(number, data, position)
            while written < len(data):
                written += os.pwrite(number, memoryview(data)[written:], position + written)
        except OSError as error:
            if error.errno in _NO_SPACE:
                raise OutOfSpaceError(self._path) from error
            raise
        if self._written is not None:
            self._written(self, position, len(data))

    def truncate(self, size: int) -> None:
        """Set the length."""
        assert self._descriptor is not None, f"{self._path} is closed"
        os.ftruncate(self._descriptor.number, size)

    def size(self) -> int:
        """The length in bytes."""
        assert self._descriptor is not None, f"{self._path} is closed"
        return os.fstat(self._descriptor.number).st_size

    def sync(self) -> None:
        """Make the content and the length durable. The directory entry is not covered."""
        descriptor = self._descriptor
        assert descriptor is not None, f"{self._path} is closed"
        try:
            os.fdatasync(descriptor.number)
        except OSError as error:
            raise FsyncError(self._path, str(error)) from error

    @property
    def path(self) -> str:
        """The name that it was opened by; no part of `VfsFile`."""
        return self._path

    def fileno(self) -> int:
        """The descriptor, for `os.sendfile` while this handle is open; no part of `VfsFile`."""
        assert self._descriptor is not None, f"{self._path} is closed"
        return self._descriptor.number

    def share(self) -> "OsFile":
        """Return another handle of the same open file, to be closed on its own."""
        assert self._descriptor is not None, f"{self._path} is closed"
        return OsFile(self._path, self._descriptor)

    def close(self) -> None:
        """Close this handle; the file stays open for a `sync` in progress on another thread."""
        self._descriptor = None


Written = Callable[[OsFile, int, int], None]
"""Told of a write to a file: the file, position and size in bytes. It raises nothing."""


class OsLock:
    """A held POSIX record lock, of the kind that a JVM takes."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Release the lock for another process."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class OsVfs:
    """The file system of the machine.

    Args:
        opened: makes what is told of the writes to a file, for each that is opened.
    """

    def __init__(self, opened: Callable[[], Written] | None = None) -> None:
        self._opened = opened

    def open(self, path: str, *, create: bool = False) -> VfsFile:
        """Open for reading and writing; `FileNotFoundError` unless `create`."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            descriptor = _Descriptor(os.open(path, flags, _FILE_MODE))
        except PermissionError:
            if create:
                raise
            return OsFile(path, _Descriptor(os.open(path, os.O_RDONLY | os.O_CLOEXEC)))
        except OSError as error:
            if error.errno in _NO_SPACE:
                raise OutOfSpaceError(path) from error
            raise
        return OsFile(path, descriptor, None if self._opened is None else self._opened())

    def read(self, path: str) -> bytes:
        """The whole content."""
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read()

    def size(self, path: str) -> int:
        """The length of a file."""
        return os.stat(path).st_size  # noqa: PTH116

    def modified_ms(self, path: str) -> int:
        """Wall clock of the last change of a file's content or length; a start finds it again."""
        return os.stat(path).st_mtime_ns // _NS_PER_MS  # noqa: PTH116

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set that time."""
        os.utime(path, ns=(modified_ms * _NS_PER_MS, modified_ms * _NS_PER_MS))

    def exists(self, path: str) -> bool:
        """True if a file or directory has this path."""
        return os.path.lexists(path)

    def is_directory(self, path: str) -> bool:
        """True if the path is a directory."""
        return os.path.isdir(path)  # noqa: PTH112

    def list(self, directory: str) -> list[str]:
        """The names in a directory, sorted."""
        return sorted(os.listdir(directory))  # noqa: PTH208

    def rename(self, source: str, target: str) -> None:
        """Atomically give a file or directory another name, replacing a file there."""
        os.replace(source, target)  # noqa: PTH105

    def unlink(self, path: str) -> None:
        """Remove a file."""
        os.unlink(path)  # noqa: PTH108

    def make_directory(self, path: str) -> None:
        """Create a directory with its parents, if missing."""
        try:
            os.makedirs(path, exist_ok=True)  # noqa: PTH103
        except OSError as error:
            if error.errno in _NO_SPACE:
                raise OutOfSpaceError(path) from error
            raise

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        os.rmdir(path)  # noqa: PTH106

    def sync_directory(self, path: str) -> None:
        """Make the entries of a directory durable."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise FsyncError(path, str(error)) from error

    def make_read_only(self, path: str) -> None:
        """Set the mode of a file to 0400."""
        os.chmod(path, 0o400)  # noqa: PTH101

    def volume(self, path: str) -> Volume:
        """Return the sizes of the file system of a path, as java.nio.file.FileStore does."""
        found = os.statvfs(path)
        return Volume(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def lock(self, path: str) -> Lock | None:
        """Take the POSIX record lock of a file, created if missing; None if it is taken."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            os.close(descriptor)
            return None
        return OsLock(descriptor)
