"""Snapshot files of the metadata log: names, listing, writing in chunks, reading, removing.

A snapshot is written as `.part`, synced, renamed: a file with the final name is complete.
"""

import contextlib
import re
from typing import Final

from storage.errors import CorruptFileError
from storage.vfs import Vfs, join
from wire.types import LeaderEpoch, Offset, OffsetAndEpoch

CHECKPOINT_SUFFIX: Final = ".checkpoint"
PART_SUFFIX: Final = ".part"
DELETED_SUFFIX: Final = ".deleted"
_UNFINISHED: Final = (CHECKPOINT_SUFFIX + PART_SUFFIX, CHECKPOINT_SUFFIX + DELETED_SUFFIX)
_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_OFFSET_MAX: Final = (1 << 63) - 1
_EPOCH_MAX: Final = (1 << 31) - 1


def snapshot_name(snapshot_id: OffsetAndEpoch) -> str:
    """The name: 20 digits of end offset, 10 of epoch."""
    return f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}{CHECKPOINT_SUFFIX}"


def parse_snapshot_name(name: str) -> OffsetAndEpoch | None:
    """The snapshot id in a file name; None if it is not that of a finished snapshot."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    offset, epoch = Offset(int(found[1])), LeaderEpoch(int(found[2]))
    return OffsetAndEpoch(offset, epoch) if offset <= _OFFSET_MAX and epoch <= _EPOCH_MAX else None


class SnapshotFiles:
    """The snapshots of one metadata log directory."""

    def __init__(self, vfs: Vfs, partition_directory: str) -> None:
        self._vfs = vfs
        self._directory = partition_directory

    def clean(self) -> tuple[str, ...]:
        """Remove the unfinished files of a previous process; return their names."""
        removed = [name for name in self._vfs.list(self._directory) if name.endswith(_UNFINISHED)]
        for name in removed:
            assert parse_snapshot_name(name) is None, f"{name} is finished"
            self._vfs.unlink(join(self._directory, name))
        return tuple(removed)

    def list(self) -> list[OffsetAndEpoch]:
        """Return the ids of the finished snapshots, oldest first.

        Raises:
            CorruptFileError: a `.checkpoint` file whose name is no snapshot id.
        """
        found: list[OffsetAndEpoch] = []
        for name in self._vfs.list(self._directory):
            if not name.endswith(CHECKPOINT_SUFFIX):
                continue
            snapshot_id = parse_snapshot_name(name)
            if snapshot_id is None:
                raise CorruptFileError(join(self._directory, name), "not a name of a snapshot")
            assert snapshot_name(snapshot_id) == name, f"{snapshot_id=} {name=}"
            found.append(snapshot_id)
        return sorted(found, key=lambda snapshot_id: (snapshot_id.offset, snapshot_id.epoch))

    def latest(self) -> OffsetAndEpoch | None:
        """Return the id of the newest snapshot, None without."""
        found = self.list()
        return found[-1] if found else None

    def size(self, snapshot_id: OffsetAndEpoch) -> int:
        """Return the length of a snapshot in bytes."""
        return self._vfs.size(self.path(snapshot_id))

    def read(self, snapshot_id: OffsetAndEpoch) -> bytes:
        """Return the whole content of a snapshot."""
        return self._vfs.read(self.path(snapshot_id))

    def read_chunk(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        """Return at most `max_bytes` from a position; batches may be cut."""
        assert position >= 0, f"{position=}"
        assert max_bytes >= 0, f"{max_bytes=}"
        file = self._vfs.open(self.path(snapshot_id))
        try:
            return file.pread(max_bytes, position)
        finally:
            file.close()

    def writer(self, snapshot_id: OffsetAndEpoch) -> "SnapshotWriter":
        """Start to write a snapshot; an unfinished file of it is overwritten."""
        return SnapshotWriter(self._vfs, self.path(snapshot_id))

    def delete(self, snapshot_id: OffsetAndEpoch) -> str:
        """Rename a snapshot to `.deleted`; return the path for a later `unlink`.

        A missing one is no error: a fetched snapshot removes older ones, and among them may be
        the node's own, whose writer on the other thread has not finished yet.
        """
        path = self.path(snapshot_id)
        with contextlib.suppress(FileNotFoundError):
            self._vfs.rename(path, path + DELETED_SUFFIX)
        return path + DELETED_SUFFIX

    def unlink(self, deleted_path: str) -> None:
        """Remove a file that `delete` renamed."""
        assert deleted_path.endswith(DELETED_SUFFIX)
        with contextlib.suppress(FileNotFoundError):
            self._vfs.unlink(deleted_path)

    def path(self, snapshot_id: OffsetAndEpoch) -> str:
        """Return the path of a snapshot, existing or not."""
        return join(self._directory, snapshot_name(snapshot_id))


class SnapshotWriter:
    """A snapshot in the course of writing."""

    def __init__(self, vfs: Vfs, path: str) -> None:
        self._vfs = vfs
        self._path = path
        self._file = vfs.open(path + PART_SUFFIX, create=True)
        self._file.truncate(0)
        self.size_bytes = 0

    def append(self, chunk: bytes) -> None:
        """Write the next bytes; on an error none of them remains.

        Raises:
            OutOfSpaceError: the disk is full.
        """
        try:
            self._file.pwrite(chunk, self.size_bytes)
        except Exception:
            self._file.truncate(self.size_bytes)
            raise
        self.size_bytes += len(chunk)

    def read(self) -> bytes:
        """Return the bytes written so far, read back from the file."""
        return self._file.pread(self.size_bytes, 0)

    def freeze(self) -> None:
        """Sync the file, make it read-only and rename it to its final name; durable on return."""
        written_bytes = self._file.size()
        assert written_bytes == self.size_bytes, f"{written_bytes=} {self.size_bytes=}"
        self._file.sync()
        self._file.close()
        self._vfs.make_read_only(self._path + PART_SUFFIX)
        self._vfs.rename(self._path + PART_SUFFIX, self._path)
        self._vfs.sync_directory(self._path.rpartition("/")[0])

    def abort(self) -> None:
        """Remove the unfinished file."""
        self._file.close()
        with contextlib.suppress(FileNotFoundError):
            self._vfs.unlink(self._path + PART_SUFFIX)
