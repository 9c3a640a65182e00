"""Numbers of the entries of an image by kind, counted in slices of a turn."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")


class Census(Generic[T, K]):
    """Entries by kind as they were when the last count began that is done.

    Args:
        kind_of: kind of an entry, and the units that it takes to look at it.
    """

    __slots__ = ("_counting", "_kind_of", "_rest", "counts")

    def __init__(self, kind_of: Callable[[T], tuple[K, int]]) -> None:
        self._kind_of = kind_of
        self.counts: Counter[K] = Counter()
        self._counting: Counter[K] = Counter()
        self._rest: Iterator[T] | None = None

    @property
    def is_counting(self) -> bool:
        """True if a count has begun that is not done."""
        return self._rest is not None

    def look(self, entries: Iterable[T], units: int) -> int:
        """Go on with the count, or begin one of these entries, which nobody changes.

        Returns:
            Units that are left; none if there is more to count.
        """
        if self._rest is None:
            self._rest, self._counting = iter(entries), Counter()
        while units > 0:
            entry = next(self._rest, None)
            if entry is None:
                self.counts, self._rest = self._counting, None
                return units
            kind, cost = self._kind_of(entry)
            self._counting[kind] += 1
            units -= cost
        return 0
