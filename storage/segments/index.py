"""The sparse indexes of a segment: offset to position, timestamp to offset.

Kept in memory as machine numbers, 8 and 12 bytes an entry as in the file. Nothing depends on an
index file: an invalid one is rebuilt from the segment, and it never has a zero tail.
apache/kafka: storage/.../log/{OffsetIndex,TimeIndex}.java
"""

import operator
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import islice
from typing import Final

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12
_IS_LITTLE: Final = sys.byteorder == "little"
assert array("i").itemsize == 4, "relative offsets and positions are int32"
assert array("q").itemsize == 8, "timestamps are int64"


class IndexDamageError(Exception):
    """An index file with invalid content; it can be rebuilt from the segment."""


class OffsetIndex:
    """Entries (last offset of a batch, position of its start)."""

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._relative = array("i")
        self._positions = array("i")

    def __len__(self) -> int:
        """The number of entries."""
        return len(self._relative)

    def append(self, last_offset: int, position: int) -> None:
        """Add an entry; offsets and positions must ascend."""
        relative = last_offset - self.base_offset
        assert relative >= 0, f"{last_offset=} {self.base_offset=}"
        if self._relative:
            assert relative > self._relative[-1], f"{last_offset=} {self._relative[-1]=}"
            assert position > self._positions[-1], f"{position=} {self._positions[-1]=}"
        self._relative.append(relative)
        self._positions.append(position)

    @property
    def last_entry(self) -> tuple[int, int]:
        """The last offset and its position; (base offset, 0) without an entry."""
        if not self._relative:
            return self.base_offset, 0
        return self.base_offset + self._relative[-1], self._positions[-1]

    def lookup(self, offset: int) -> int:
        """A batch position at or before the batch that holds the offset."""
        found = bisect_right(self._relative, offset - self.base_offset) - 1
        return self._positions[found] if found >= 0 else 0

    def position_at_or_before(self, position: int) -> int:
        """The last indexed start of a batch that is not behind the position; 0 if there is none."""
        found = bisect_right(self._positions, position) - 1
        return self._positions[found] if found >= 0 else 0

    def truncate_to(self, end_offset: int) -> None:
        """Drop the entries at or above an offset."""
        kept = bisect_left(self._relative, end_offset - self.base_offset)
        del self._relative[kept:], self._positions[kept:]

    def entries(self) -> list[tuple[int, int]]:
        """All entries in order."""
        base = self.base_offset
        return [(base + r, p) for r, p in zip(self._relative, self._positions, strict=True)]

    def encode(self, first: int = 0) -> bytes:
        """The content of the `.index` file, from an entry on."""
        assert 0 <= first <= len(self), f"{first=} {len(self)=}"
        words = array("i", bytes(OFFSET_ENTRY_BYTES * (len(self) - first)))
        words[0::2] = self._relative[first:]
        words[1::2] = self._positions[first:]
        return _swapped(words).tobytes()

    @classmethod
    def decode(cls, content: bytes, base_offset: int, segment_bytes: int) -> "OffsetIndex":
        """Read an `.index` file, also a preallocated one.

        Raises:
            IndexDamageError: a length that is no multiple of 8, entries that do not ascend or lie
                outside the segment.
        """
        words = _swapped(array("i", _without_zero_tail(content, OFFSET_ENTRY_BYTES)))
        index = cls(base_offset)
        index._relative, index._positions = relative, positions = words[0::2], words[1::2]
        if not (_ascends(relative, operator.lt) and _ascends(positions, operator.lt)):
            raise IndexDamageError("entries are out of order")
        if relative and (relative[0] < 0 or positions[0] < 0 or positions[-1] >= segment_bytes):
            raise IndexDamageError(f"entries lie outside the segment of {segment_bytes} bytes")
        return index


class TimeIndex:
    """Entries (largest timestamp so far, last offset of the batch that reached it)."""

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._timestamps_ms = array("q")
        self._relative = array("i")

    def __len__(self) -> int:
        """The number of entries."""
        return len(self._timestamps_ms)

    @property
    def last_entry(self) -> tuple[int, int]:
        """The largest timestamp and its offset; (-1, base offset) without an entry."""
        if not self._timestamps_ms:
            return -1, self.base_offset
        return self._timestamps_ms[-1], self.base_offset + self._relative[-1]

    def maybe_append(self, timestamp_ms: int, offset: int) -> None:
        """Add an entry if its timestamp is a new maximum; -1 is never indexed."""
        last_ms = self._timestamps_ms[-1] if self._timestamps_ms else -1
        if timestamp_ms > last_ms:
            relative = offset - self.base_offset
            assert relative >= 0, f"{offset=} {self.base_offset=}"
            assert not self._relative or relative >= self._relative[-1], f"{offset=}"
            self._timestamps_ms.append(timestamp_ms)
            self._relative.append(relative)

    def lookup(self, timestamp_ms: int) -> tuple[int, int]:
        """The last entry at or before the timestamp, else (-1, base offset)."""
        found = bisect_right(self._timestamps_ms, timestamp_ms) - 1
        if found < 0:
            return -1, self.base_offset
        return self._timestamps_ms[found], self.base_offset + self._relative[found]

    def truncate_to(self, end_offset: int) -> None:
        """Drop the entries at or above an offset."""
        kept = bisect_left(self._relative, end_offset - self.base_offset)
        del self._relative[kept:], self._timestamps_ms[kept:]

    def entries(self) -> list[tuple[int, int]]:
        """All entries in order."""
        base = self.base_offset
        return [(t, base + r) for t, r in zip(self._timestamps_ms, self._relative, strict=True)]

    def encode(self, first: int = 0) -> bytes:
        """The content of the `.timeindex` file, from an entry on."""
        halves = array("i", _swapped(self._timestamps_ms[first:]).tobytes())
        words = array("i", bytes(TIME_ENTRY_BYTES * (len(self) - first)))
        words[0::3], words[1::3] = halves[0::2], halves[1::2]
        words[2::3] = _swapped(self._relative[first:])
        return words.tobytes()

    @classmethod
    def decode(cls, content: bytes, base_offset: int) -> "TimeIndex":
        """Read a `.timeindex` file, also a preallocated one.

        Raises:
            IndexDamageError: a length that is no multiple of 12, or entries that do not ascend.
        """
        words = array("i", _without_zero_tail(content, TIME_ENTRY_BYTES))
        halves = array("i", bytes(len(words) // 3 * 8))
        halves[0::2], halves[1::2] = words[0::3], words[1::3]
        index = cls(base_offset)
        index._timestamps_ms = timestamps_ms = _swapped(array("q", halves.tobytes()))
        index._relative = relative = _swapped(words[2::3])
        if not (_ascends(timestamps_ms, operator.lt) and _ascends(relative, operator.le)):
            raise IndexDamageError("entries are out of order")
        if timestamps_ms and (timestamps_ms[0] < 0 or relative[0] < 0):
            raise IndexDamageError(f"entry 0 ({timestamps_ms[0]}, {relative[0]}) is negative")
        return index


def _without_zero_tail(content: bytes, entry_bytes: int) -> bytes:
    """The content up to the last entry that is not zero: Kafka preallocates."""
    if len(content) % entry_bytes:
        raise IndexDamageError(f"{len(content)} bytes are not a multiple of {entry_bytes}")
    used = len(content.rstrip(b"\0"))
    return content[: -(-used // entry_bytes) * entry_bytes]


def _swapped(words: "array[int]") -> "array[int]":
    """A copy in the order of the file, big-endian, or back in that of the machine."""
    copy = words[:]
    if _IS_LITTLE:
        copy.byteswap()
    return copy


def _ascends(words: "array[int]", is_before: Callable[[int, int], bool]) -> bool:
    return all(map(is_before, words, islice(words, 1, None)))
