"""Random numbers that a scenario gives."""

from collections import deque

from wire.types import T


class ScriptedRng:
    """Gives the draws of the scenario, then zeros."""

    def __init__(self) -> None:
        self._draws: deque[int] = deque()

    def add(self, *draws: int) -> None:
        """Give these after the draws that are left."""
        self._draws.extend(draws)

    def randrange(self, stop: int, /) -> int:
        """Return the next draw, which must be in [0, stop)."""
        draw = self._draws.popleft() if self._draws else 0
        assert 0 <= draw < stop, f"{draw=} {stop=}"
        return draw

    def shuffle(self, x: list[T], /) -> None:
        """Keep the order."""
        assert x is not None, "nothing to shuffle"
