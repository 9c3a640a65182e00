"""`leader-epoch-checkpoint`: the leader epochs of a log with their start offsets.

apache/kafka: storage/.../epoch/LeaderEpochFileCache.java
"""

from bisect import bisect_right
from itertools import pairwise
from typing import Final

import msgspec

from storage.checkpoints.checkpoint_files import (
    INT32_MAX,
    INT64_MAX,
    decode_lines,
    encode_lines,
    whole_number,
)
from storage.errors import CorruptFileError
from storage.vfs import Vfs, join, write_file_atomically

EPOCH_CHECKPOINT_NAME: Final = "leader-epoch-checkpoint"


class EpochEntry(msgspec.Struct, frozen=True, gc=False):
    """An epoch and the offset of its first record."""

    epoch: int
    start_offset: int


class EpochCache:
    """The epochs of a log, ascending in epoch and start offset."""

    def __init__(self, entries: tuple[EpochEntry, ...] = ()) -> None:
        self._entries = list(entries)
        self.version = 1
        """Raised by each change."""
        self._recorded_version = 0
        """The version in the file."""

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, oldest first."""
        return tuple(self._entries)

    @property
    def last_epoch(self) -> int | None:
        """The epoch of the newest entry, None without entries."""
        return self._entries[-1].epoch if self._entries else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Set the epoch of the records from an offset on; True if the entries changed."""
        assert epoch >= 0, f"{epoch=}"
        assert start_offset >= 0, f"{start_offset=}"
        entries = self._entries
        if entries and entries[-1].epoch == epoch and start_offset >= entries[-1].start_offset:
            return False
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        self.version += 1
        return True

    def end_offset_for(self, epoch: int, end_offset: int) -> tuple[int, int]:
        """The largest epoch at or below `epoch`, and its end offset; (-1, -1) if unknown.

        An epoch below all entries gives itself and the first start offset, as in Kafka.
        """
        entries = self._entries
        if epoch < 0 or not entries or epoch > entries[-1].epoch:
            return -1, -1
        assert end_offset >= entries[-1].start_offset, f"{end_offset=} {entries[-1]=}"
        if epoch == entries[-1].epoch:
            return epoch, end_offset
        found = bisect_right(entries, epoch, key=lambda entry: entry.epoch)
        if found == 0:
            return epoch, entries[0].start_offset
        return entries[found - 1].epoch, entries[found].start_offset

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drop the epochs that start at or above the offset; True if the entries changed."""
        assert end_offset >= 0, f"{end_offset=}"
        before = len(self._entries)
        while self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()
        is_changed = len(self._entries) != before
        self.version += is_changed
        return is_changed

    def truncate_from_start(self, start_offset: int) -> bool:
        """Drop epochs that end at or below the offset, start the one that spans it there.

        True if the entries changed.
        """
        assert start_offset >= 0, f"{start_offset=}"
        below = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset)
        if below == 0 or (below == 1 and self._entries[0].start_offset == start_offset):
            return False
        self._entries[:below] = [EpochEntry(self._entries[below - 1].epoch, start_offset)]
        self.version += 1
        return True

    def clear(self) -> None:
        """Drop all epochs."""
        self._entries.clear()
        self.version += 1

    @property
    def is_changed(self) -> bool:
        """True if the file has other entries."""
        return self._recorded_version < self.version

    def note_recorded(self, version: int) -> None:
        """Take note that the file has the entries of a version, durably."""
        assert self._recorded_version <= version <= self.version, f"{version=} {self.version=}"
        self._recorded_version = version

    def write(self, vfs: Vfs, directory: str) -> "EpochsWrite":
        """The write of these entries to the file."""
        return EpochsWrite(self, vfs, directory)

    def record(self, vfs: Vfs, directory: str) -> bool:
        """Write the file if the entries changed since, and then return True; durable.

        Raises:
            OutOfSpaceError: the file is as before.
        """
        if not self.is_changed:
            return False
        write = self.write(vfs, directory)
        write.run()
        write.done()
        return True

    def encode(self) -> bytes:
        """The content of the file."""
        for older, newer in pairwise(self._entries):
            assert older.epoch < newer.epoch, f"{older=} {newer=}"
            assert older.start_offset < newer.start_offset, f"{older=} {newer=}"
        return encode_lines([f"{entry.epoch} {entry.start_offset}" for entry in self._entries])


class EpochsWrite:
    """A write of the entries of one instant; of one directory they run in the order of making."""

    def __init__(self, cache: EpochCache, vfs: Vfs, directory: str) -> None:
        self._cache = cache
        self._vfs = vfs
        self._path = join(directory, EPOCH_CHECKPOINT_NAME)
        self._content = cache.encode()
        self._version = cache.version

    def run(self) -> None:
        """Make them durable; any thread.

        Raises:
            OutOfSpaceError: the file is as before.
        """
        write_file_atomically(self._vfs, self._path, self._content)

    def done(self) -> None:
        """Take in that it has run; the entries may be others by now."""
        self._cache.note_recorded(self._version)


def decode_epochs(content: bytes, path: str) -> EpochCache:
    """The epochs in the content of the file.

    An entry that does not ascend replaces the earlier ones that it contradicts, as in Kafka.

    Raises:
        CorruptFileError: wrong version or count, or a number out of range for an int32 epoch or an
            int64 offset.
    """
    cache = EpochCache()
    for fields in decode_lines(content, path):
        try:
            epoch, start_offset = fields
            cache.assign(whole_number(epoch, INT32_MAX), whole_number(start_offset, INT64_MAX))
        except ValueError as error:
            raise CorruptFileError(
                path, f"malformed line {' '.join(fields)!r}, allowed: epoch offset"
            ) from error
    return cache
