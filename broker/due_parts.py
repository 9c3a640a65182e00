"""Parts of a broker with timers of their own, and the first of their times."""

from collections.abc import Sequence

from network.timers import NEVER_MS, SelfTimed


class DueParts:
    """Parts that are asked when they are due, in this order."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[SelfTimed]) -> None:
        self._parts = parts

    def tick(self, now_ms: int) -> int | None:
        """Tick the parts that are due; the first time of the others, None if any was due."""
        first_ms, has_ticked = NEVER_MS, False
        for part in self._parts:
            next_ms = part.next_ms()
            if next_ms is None:
                continue
            if next_ms <= now_ms:
                part.tick()
                has_ticked = True
            elif next_ms < first_ms:
                first_ms = next_ms
        return None if has_ticked else first_ms

    def first_ms(self) -> int:
        """Time at which the first part is due, after one of them has changed."""
        times = [part.next_ms() for part in self._parts]
        return min((each for each in times if each is not None), default=NEVER_MS)
