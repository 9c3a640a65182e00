"""The door to a file system: everything in this package reads and writes through a `Vfs`.

Calls are synchronous. `VfsFile.sync` and `Vfs.sync_directory` may be called from any thread; the
others belong to the thread that owns the log. Errors: `OutOfSpaceError` when a write finds the disk
full (part of it may have been written), `FsyncError` when a sync fails, otherwise `OSError`.
"""

from typing import NamedTuple, Protocol


class Volume(NamedTuple):
    """The file system that a path is on."""

    total_bytes: int
    usable_bytes: int
    """What this process may still write."""


class VfsFile(Protocol):
    """An open file."""

    def pread(self, size: int, position: int) -> bytes:
        """At most `size` bytes from `position`; fewer only at the end of the file."""
        ...

    def pwrite(self, data: bytes | memoryview, position: int) -> None:
        """Write all of it, or raise (possibly after writing a part)."""
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
        """Another use of the same open file, with a life of its own."""
        ...

    def close(self) -> None:
        """Drop this use of the file; a `sync` that is under way elsewhere finishes first."""
        ...


class Lock(Protocol):
    """A held lock on a file."""

    def release(self) -> None:
        """Let another process have it."""
        ...


class Vfs(Protocol):
    """A file system: paths are strings with `/`."""

    def open(self, path: str, *, create: bool = False) -> VfsFile:
        """Open to read and write; `FileNotFoundError` unless `create`."""
        ...

    def read(self, path: str) -> bytes:
        """The whole content."""
        ...

    def size(self, path: str) -> int:
        """The length of a file."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this path."""
        ...

    def is_directory(self, path: str) -> bool:
        """Whether it is a directory."""
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
        """Make a directory, with its parents; existing ones are fine."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make the entries of a directory durable."""
        ...

    def make_read_only(self, path: str) -> None:
        """Mode 0400."""
        ...

    def volume(self, path: str) -> Volume:
        """How large the file system is that holds an existing path; OSError when it cannot say."""
        ...

    def lock(self, path: str) -> Lock | None:
        """Take the POSIX record lock of a file, made if missing; None if a process has it."""
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
    """Replace a small file as Kafka does: `.tmp`, fsync, rename, fsync of the directory."""
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
