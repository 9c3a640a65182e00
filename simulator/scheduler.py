"""Virtual time: one heap of callbacks, microseconds, first come first served within one instant."""

import heapq
from collections.abc import Callable
from typing import Final

INSTANT_EVENTS_MAX: Final = 10_000
"""More callbacks without an advance of time are an endless loop (I20)."""


class StuckError(Exception):
    """Time does not advance any more."""


class Scheduler:
    """Runs callbacks in the order of their times."""

    def __init__(self) -> None:
        self.now_us = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._at_this_instant = 0

    def at(self, time_us: int, action: Callable[[], None]) -> None:
        """Run at a time, at the earliest now."""
        self._sequence += 1
        heapq.heappush(self._heap, (max(time_us, self.now_us), self._sequence, action))

    def after(self, delay_us: int, action: Callable[[], None]) -> None:
        """Run after a delay."""
        self.at(self.now_us + delay_us, action)

    def run_once(self, end_us: int) -> bool:
        """Run the next callback; False, with the time at the end, when none is due before it."""
        if not self._heap or self._heap[0][0] > end_us:
            self.now_us = max(self.now_us, end_us)
            return False
        time_us, _, action = heapq.heappop(self._heap)
        if time_us > self.now_us:
            self.now_us = time_us
            self._at_this_instant = 0
        self._at_this_instant += 1
        if self._at_this_instant > INSTANT_EVENTS_MAX:
            raise StuckError(f"{INSTANT_EVENTS_MAX} events at {time_us} us")
        action()
        return True
