"""The metadata log on a machine's disk, batch by batch, read by the simulator's own reader.

It shares no code with storage/: a bug there must not hide itself here. Batches are read once, when
they appear; everything is read again when a process cut a segment or wrote over its bytes, which
the disk counts (`MemoryVfs.log_changes`) whatever the node says.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import Final, NamedTuple

import crc32c

from simulator.cluster.memory_vfs import MemoryVfs

FOLDER: Final = "/data/__cluster_metadata-0"
QUORUM_STATE: Final = f"{FOLDER}/quorum-state"
_HEADER: Final = struct.Struct(">qiiBIhi")
"""Base offset, length, leader epoch, magic, crc, attributes, last offset delta."""
_OVERHEAD: Final = 12
BASE_OFFSET_TO_END: Final = len("00000000000000000000.log")
_CRC_FROM: Final = 21  # the checksum covers everything from here on


class Entry(NamedTuple):
    """One batch."""

    base_offset: int
    end_offset: int
    epoch: int
    crc: int


_END_OFFSET: Final = attrgetter("end_offset")


class Parsed(NamedTuple):
    """Batches of the first bytes of a file: a restart finds most of them unchanged."""

    content: bytes
    entries: list[Entry]


class Proved(NamedTuple):
    """Durable and sound batches of the first bytes of a file, by their end offsets."""

    content: bytes
    by_end: dict[int, Entry]
    end_offset: int


_NOTHING: Final = Parsed(b"", [])


class LogMirror:
    """Batches in order: `entries` as processes read them, `durable_end` as any crash keeps them."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._segments: list[tuple[str, int]] = []  # path, bytes read of it
        self._listing: tuple[MemoryVfs, int, list[str]] | None = None  # disk, name changes, paths
        self._durable: dict[str, tuple[int, int]] = {}  # path -> bytes walked, end offset there
        self._durable_by_end: dict[int, Entry] = {}  # of what was walked
        self._parsed: dict[str, Parsed] = {}  # path -> what the last reread found
        self._proved: dict[str, Proved] = {}  # path -> what is durable and sound
        self.sound: dict[str, bytes] = {}
        """Path -> bytes of a segment that were last found to have the right checksums."""
        self.frozen_end: int | None = None
        """Value of `durable_end` while the disk is damaged and no process runs."""
        self.forgiven: set[tuple[str, int | None]] = set()
        """Path and position of batches whose checksum is known to be wrong."""

    @property
    def end_offset(self) -> int:
        """End (exclusive) of the last batch; 0 for an empty log."""
        return self.entries[-1].end_offset if self.entries else 0

    @property
    def start_offset(self) -> int:
        """Base offset of the first batch; 0 for an empty log."""
        return self.entries[0].base_offset if self.entries else 0

    def find(self, offset: int) -> Entry | None:
        """Find the batch that holds an offset."""
        entries = self.entries
        if entries and entries[-1].base_offset <= offset:  # it mostly is the last one
            last = entries[-1]
            return last if offset < last.end_offset else None
        found = bisect_right(entries, offset, key=_END_OFFSET)
        if found == len(entries):
            return None
        entry = entries[found]
        return entry if entry.base_offset <= offset else None

    def appended(self, vfs: MemoryVfs) -> list[Entry]:
        """Read on from the end of the last read; the log has only grown (same `log_changes`)."""
        if not self._segments:
            return self.reread(vfs)
        path, position = self._segments[-1]
        content = vfs.written_content(path)
        if content is None:
            return self.reread(vfs)
        before = len(self.entries)
        self._read(path, content, position)
        paths = self._paths(vfs)
        if paths[-1] != path:
            for following in paths[paths.index(path) + 1 :]:
                found = vfs.written_content(following)
                assert found is not None
                self._segments.append((following, 0))
                self._read(following, found, 0)
        return self.entries[before:]

    @property
    def segment_count(self) -> int:
        """Number of files that hold the log."""
        return len(self._segments)

    def _paths(self, vfs: MemoryVfs) -> list[str]:
        """List the segments; again only after a name changed."""
        known = self._listing
        if known is None or known[0] is not vfs or known[1] != vfs.name_changes:
            known = self._listing = (vfs, vfs.name_changes, segment_paths(vfs))
        return known[2]

    def reread(self, vfs: MemoryVfs) -> list[Entry]:
        """Read everything again: after a truncation, a start, a snapshot."""
        self.entries = []
        self._segments = []
        for path in self._paths(vfs):
            content = vfs.written_content(path)
            assert content is not None
            known = self._parsed.get(path, _NOTHING)
            if not content.startswith(known.content):
                known = _NOTHING
            more = list(_batches(content, len(known.content)))
            if more:
                entries = known.entries + [entry for entry, _ in more]
                known = self._parsed[path] = Parsed(bytes(content[: more[-1][1]]), entries)
            self.entries += known.entries
            self._segments.append((path, len(known.content)))
        return self.entries

    def _read(self, path: str, content: bytearray, position: int) -> None:
        for entry, end in _batches(content, position):
            self.entries.append(entry)
            position = end
        self._segments[-1] = (path, position)

    def durable_end(self, vfs: MemoryVfs) -> int:
        """End offset of the batches that are wholly durable, without a gap from the start."""
        if self.frozen_end is not None:
            return self.frozen_end
        end_offset = 0
        for number, path in enumerate(self._paths(vfs)):
            content = vfs.durable_content(path)
            follows = number == 0 or int(path[-BASE_OFFSET_TO_END : -len(".log")]) == end_offset
            if content is None or not follows:
                break  # what follows a gap does not count
            walked, known_end = self._durable.get(path, (0, 0))
            if walked == len(content) and known_end:
                end_offset = known_end
                continue
            if walked > len(content):
                walked, known_end = 0, 0
            walked, known_end = self._walk_durable(path, content, walked, known_end)
            self._durable[path] = (walked, known_end)
            if known_end == 0:
                break
            end_offset = known_end
        return end_offset

    def _walk_durable(
        self, path: str, content: bytearray, walked: int, known_end: int
    ) -> tuple[int, int]:
        """Continue the last walk; return bytes walked and the end offset there."""
        found: dict[int, Entry] = {}
        is_first = walked == 0
        if is_first:
            known = self._proved.get(path)
            if known is not None and known.by_end and content.startswith(known.content):
                found.update(known.by_end)
                walked, known_end = len(known.content), known.end_offset
        for entry, end in _batches(content, walked):
            is_torn = crc32c.crc32c(content[walked + _CRC_FROM : end]) != entry.crc
            if is_torn and (path, walked) not in self.forgiven:
                break
            walked, known_end = end, entry.end_offset
            found[known_end] = entry
        self._durable_by_end.update(found)
        if is_first and not self.forgiven:
            self._proved[path] = Proved(bytes(content[:walked]), found, known_end)
        return walked, known_end

    def durable_entry(self, vfs: MemoryVfs, end_offset: int) -> Entry | None:
        """Durable batch that ends at an offset (exclusive), all before it being durable too."""
        if self.durable_end(vfs) < end_offset:
            return None
        if self.frozen_end is not None:  # the damaged disk is not read
            return self.find(end_offset - 1)
        return self._durable_by_end.get(end_offset)

    def forget_durable(self) -> None:
        """Forget the walks: after a cut or a crash the bytes may be others."""
        self._durable.clear()
        self._durable_by_end.clear()


def written_end(vfs: MemoryVfs) -> int:
    """End offset of the batches as written, durable or not; checksums are not checked."""
    mirror = LogMirror()
    mirror.reread(vfs)
    return mirror.end_offset


def segment_paths(vfs: MemoryVfs) -> list[str]:
    """Segments of the metadata log, in order."""
    if not vfs.is_directory(FOLDER):
        return []
    return [f"{FOLDER}/{name}" for name in vfs.list(FOLDER) if name.endswith(".log")]


def damaged_batch(vfs: MemoryVfs, sound: dict[str, bytes]) -> str | None:
    """Describe what in the segments is no whole batch with a right checksum, None if all is.

    Args:
        vfs: the disk.
        sound: path -> bytes found to be sound there before; kept up to date. Where a segment
            begins with these bytes they are not checked again.
    """
    for path in segment_paths(vfs):
        content = vfs.written_content(path)
        assert content is not None
        known = sound.get(path, b"")
        position = len(known) if content.startswith(known) else 0
        for entry, end in _batches(content, position):
            if crc32c.crc32c(content[position + _CRC_FROM : end]) != entry.crc:
                return f"{path}: the batch at offset {entry.base_offset} fails its checksum"
            position = end
        if position < len(content):
            left = len(content) - position
            return f"{path}: {left} bytes behind position {position} are no batch"
        sound[path] = bytes(content)
    return None


def batches_of(content: bytearray | None) -> Iterator[tuple[int, int, Entry]]:
    """Whole batches of a file with the positions where they begin and end."""
    position = 0
    for entry, end in _batches(content or bytearray(), 0):
        yield position, end, entry
        position = end


def _batches(content: bytearray, position: int) -> Iterator[tuple[Entry, int]]:
    """Whole batches from a position on, each with the position after it."""
    size, unpack = len(content), _HEADER.unpack_from
    last_start = size - _HEADER.size
    while position <= last_start:
        base_offset, length, epoch, magic, crc, _, last_delta = unpack(content, position)
        end = position + _OVERHEAD + length
        if magic != 2 or length <= 0 or end > size:
            return
        yield Entry(base_offset, base_offset + last_delta + 1, epoch, crc), end
        position = end
