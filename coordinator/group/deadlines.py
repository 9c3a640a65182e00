"""Deadlines by key, of which most are moved before they come: sessions of members."""

from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Deadlines(Generic[Key]):
    """The deadline of each key, in ms of the monotonic clock.

    The heap has one entry for each time that a key was set earlier than it was, or anew; one that
    is only moved later, as by every heartbeat, keeps its entry until that comes to the top.
    """

    __slots__ = ("_at", "_heap", "_number")

    def __init__(self) -> None:
        self._at: dict[Key, tuple[int, int]] = {}
        """By key: the deadline, and the instant of its entry in the heap."""
        self._heap: list[tuple[int, int, Key]] = []
        self._number = 0

    def __len__(self) -> int:
        """Keys that have one."""
        return len(self._at)

    def at_ms(self, key: Key) -> int | None:
        """The deadline of a key, None without."""
        found = self._at.get(key)
        return None if found is None else found[0]

    def set(self, key: Key, at_ms: int) -> None:
        """Set or move the deadline of a key."""
        found = self._at.get(key)
        if found is not None and found[1] <= at_ms:
            self._at[key] = (at_ms, found[1])
            return
        self._at[key] = (at_ms, at_ms)
        self._push(key, at_ms)

    def cancel(self, key: Key) -> None:
        """Remove the deadline of a key, if it has one."""
        self._at.pop(key, None)

    def first_ms(self) -> int | None:
        """The first deadline, None without any."""
        if not self._heap:
            return None
        self._settle()
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: int) -> Key | None:
        """Remove and return the key whose deadline came first; None if none has come."""
        self._settle()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        key = heappop(self._heap)[2]
        del self._at[key]
        return key

    def _settle(self) -> None:
        """Bring a deadline that still holds to the top of the heap."""
        heap = self._heap
        while heap:
            entry_ms, _, key = heap[0]
            found = self._at.get(key)
            if found is not None and found[0] == entry_ms == found[1]:
                return
            heappop(heap)
            if found is not None and found[1] == entry_ms:
                self._at[key] = (found[0], found[0])
                self._push(key, found[0])

    def _push(self, key: Key, at_ms: int) -> None:
        self._number += 1
        heappush(self._heap, (at_ms, self._number, key))
