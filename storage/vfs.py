"""The file system interface: all modules of this package read and write through a `Vfs`.

Calls are synchronous. `VfsFile.sync` and `Vfs.sync_directory` may be called from any thread; the
others belong to the thread that owns the log. Errors: `OutOfSpaceError` if a write finds the disk
full (a part may have been written), `FsyncError` if a sync fails, otherwise `OSError`.
"""

from typing import NamedTuple, Protocol


class Volume(NamedTuple):
    """The size of the file system that holds a path."""

    total_bytes: int
    usable_bytes: int
    """Bytes that this process may still write."""


class VfsFile(Protocol):
    """An open file."""

    def pread(self, size: int, position: int) -> bytes:
        """At most `size` bytes from `position`; fewer only at the end of the file."""
        ...

    def pwrite(self, data: bytes | memoryview, position: int) -> None:
        """Write all bytes, or raise (possibly after writing a part)."""
        ...

    def truncate(self, size: int) -> None:
        """Set the length."""
        ...

    def size(self) -> int:
        """The length in bytes."""
        ...

    def sync(self) -> None:
        """Make the content and the length durable. The directory entry is not covered."""
        ...

    def share(self) -> "VfsFile":
        """Return another handle of the same open file, to be closed on its own."""
        ...

    def close(self) -> None:
        """Close this handle; the file stays open for a `sync` in progress on another thread."""
        ...


class Lock(Protocol):
    """A held lock on a file."""

    def release(self) -> None:
        """Release the lock for another process."""
        ...


class Vfs(Protocol):
    """A file system: paths are strings with `/`."""

    def open(self, path: str, *, create: bool = False) -> VfsFile:
        """Open for reading and writing; `FileNotFoundError` unless `create`."""
        ...

    def read(self, path: str) -> bytes:
        """The whole content."""
        ...

    def size(self, path: str) -> int:
        """The length of a file."""
        ...

    def modified_ms(self, path: str) -> int:
        """Wall clock of the last change of a file's content or length; a start finds it again."""
        ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set that time."""
        ...

    def exists(self, path: str) -> bool:
        """True if a file or directory has this path."""
        ...

    def is_directory(self, path: str) -> bool:
        """True if the path is a directory."""
        ...

    def list(self, directory: str) -> list[str]:
        """The names in a directory, sorted."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomically give a file or directory another name, replacing a file there."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a file."""
        ...

    def make_directory(self, path: str) -> None:
        """Create a directory with its parents, if missing."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make the entries of a directory durable."""
        ...

    def make_read_only(self, path: str) -> None:
        """Set the mode of a file to 0400."""
        ...

    def volume(self, path: str) -> Volume:
        """Return the sizes of the file system of an existing path; OSError if they are unknown."""
        ...

    def lock(self, path: str) -> Lock | None:
        """Take the POSIX record lock of a file, created if missing; None if it is taken."""
        ...


def join(directory: str, name: str) -> str:
    """The path of a name in a directory."""
    return f"{directory}/{name}"


def parent(path: str) -> str:
    """The directory of a path."""
    head, _, _ = path.rpartition("/")
    return head or ("/" if path.startswith("/") else ".")


def base_name(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


def write_file_atomically(vfs: Vfs, path: str, content: bytes) -> None:
    """Replace a small file durably, as Kafka does: `.tmp`, fsync, rename, fsync of directory."""
    assert not path.endswith(".tmp"), f"{path} is taken for what a crash left"
    temporary = path + ".tmp"
    file = vfs.open(temporary, create=True)
    try:
        file.truncate(0)
        file.pwrite(content, 0)
        file.sync()
    finally:
        file.close()
    vfs.rename(temporary, path)
    vfs.sync_directory(parent(path))
