"""The sparse indexes of a segment: offset to position, timestamp to offset.

Kept in memory while the segment is active and written whole when it rolls or the log closes, so
that a file never has a zero tail. Nothing depends on an index file: an invalid one is rebuilt from
the segment. apache/kafka: storage/.../log/{OffsetIndex,TimeIndex}.java
"""

import struct
from bisect import bisect_right
from typing import Final

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
assert _OFFSET_ENTRY.size == 8, f"{_OFFSET_ENTRY.size=}"
assert _TIME_ENTRY.size == 12, f"{_TIME_ENTRY.size=}"


class IndexDamageError(Exception):
    """An index file with invalid content; it can be rebuilt from the segment."""


class OffsetIndex:
    """Entries (last offset of a batch, position of its start), 8 bytes each."""

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._offsets: list[int] = []
        self._positions: list[int] = []

    def __len__(self) -> int:
        """The number of entries."""
        return len(self._offsets)

    def append(self, last_offset: int, position: int) -> None:
        """Add an entry; offsets and positions must ascend."""
        assert last_offset >= self.base_offset, f"{last_offset=} {self.base_offset=}"
        if self._offsets:
            assert last_offset > self._offsets[-1], f"{last_offset=} {self._offsets[-1]=}"
            assert position > self._positions[-1], f"{position=} {self._positions[-1]=}"
        self._offsets.append(last_offset)
        self._positions.append(position)

    def lookup(self, offset: int) -> int:
        """A batch position at or before the batch that holds the offset."""
        found = bisect_right(self._offsets, offset) - 1
        return self._positions[found] if found >= 0 else 0

    def entries(self) -> list[tuple[int, int]]:
        """All entries in order."""
        return list(zip(self._offsets, self._positions, strict=True))

    def encode(self) -> bytes:
        """The content of the `.index` file."""
        pack, base = _OFFSET_ENTRY.pack, self.base_offset
        return b"".join(pack(offset - base, position) for offset, position in self.entries())

    @classmethod
    def decode(cls, content: bytes, base_offset: int, segment_bytes: int) -> "OffsetIndex":
        """Read an `.index` file, also a preallocated one.

        Raises:
            IndexDamageError: a length that is no multiple of 8, entries that do not ascend or lie
                outside the segment.
        """
        if len(content) % _OFFSET_ENTRY.size:
            raise IndexDamageError(f"{len(content)} bytes are not a multiple of 8")
        index = cls(base_offset)
        last_relative, last_position = -1, -1
        for slot, (relative, position) in enumerate(_OFFSET_ENTRY.iter_unpack(content)):
            if relative == 0 and position == 0 and slot > 0:
                break  # preallocated and unused
            if relative <= last_relative or position <= last_position or position >= segment_bytes:
                if slot == 0 and relative == 0 and position == 0:
                    break
                raise IndexDamageError(f"entry {slot} ({relative}, {position}) is out of order")
            last_relative, last_position = relative, position
            if relative or position:
                index.append(base_offset + relative, position)
        return index


class TimeIndex:
    """Entries (largest timestamp so far, offset that reached it), 12 bytes each."""

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._timestamps: list[int] = []
        self._offsets: list[int] = []

    def __len__(self) -> int:
        """The number of entries."""
        return len(self._timestamps)

    def maybe_append(self, timestamp_ms: int, offset: int) -> None:
        """Add an entry if its timestamp is a new maximum; -1 is never indexed."""
        last = self._timestamps[-1] if self._timestamps else -1
        if timestamp_ms > last:
            assert not self._offsets or offset >= self._offsets[-1]
            self._timestamps.append(timestamp_ms)
            self._offsets.append(offset)

    def lookup(self, timestamp_ms: int) -> tuple[int, int]:
        """The last entry at or before the timestamp, else (-1, base offset)."""
        found = bisect_right(self._timestamps, timestamp_ms) - 1
        if found < 0:
            return -1, self.base_offset
        return self._timestamps[found], self._offsets[found]

    def entries(self) -> list[tuple[int, int]]:
        """All entries in order."""
        return list(zip(self._timestamps, self._offsets, strict=True))

    def encode(self) -> bytes:
        """The content of the `.timeindex` file."""
        pack, base = _TIME_ENTRY.pack, self.base_offset
        return b"".join(pack(timestamp, offset - base) for timestamp, offset in self.entries())

    @classmethod
    def decode(cls, content: bytes, base_offset: int) -> "TimeIndex":
        """Read a `.timeindex` file, also a preallocated one.

        Raises:
            IndexDamageError: a length that is no multiple of 12, or entries that do not ascend.
        """
        if len(content) % _TIME_ENTRY.size:
            raise IndexDamageError(f"{len(content)} bytes are not a multiple of 12")
        index = cls(base_offset)
        last_timestamp, last_relative = -1, 0
        for slot, (timestamp, relative) in enumerate(_TIME_ENTRY.iter_unpack(content)):
            if timestamp == 0 and relative == 0:
                break  # preallocated and unused
            if timestamp <= last_timestamp or relative < last_relative:
                raise IndexDamageError(f"entry {slot} ({timestamp}, {relative}) is out of order")
            last_timestamp, last_relative = timestamp, relative
            index.maybe_append(timestamp, base_offset + relative)
        return index
