"""Virtual time: one heap of callbacks, microseconds, first come first served within one instant."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import repeat
from typing import Final

INSTANT_EVENTS_MAX: Final = 10_000
"""Callbacks without an advance of time; more are an endless loop (I20)."""


class StuckError(Exception):
    """Time no longer advances."""


ENDLESS: Final = "an endless step"


class EndlessStepError(BaseException):
    """A step that does not return. No `Exception`: the code under test must not catch it."""


@contextmanager
def returning_within(cpu_seconds: float) -> Iterator[None]:
    """Interrupt what takes more processor time; do nothing in a thread other than the main one.

    Raises:
        EndlessStepError: in the middle of what runs too long.
    """

    def interrupt(*_: object) -> None:
        raise EndlessStepError(f"more than {cpu_seconds:g} s of processor time: {ENDLESS}")

    try:
        before = signal.signal(signal.SIGVTALRM, interrupt)
    except (ValueError, AttributeError):  # another thread, or a system without this timer
        yield
        return
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class Scheduler:
    """Runs callbacks in the order of their times."""

    def __init__(self) -> None:
        self.now_us = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._at_this_instant = 0

    def at(self, time_us: int, action: Callable[[], None]) -> None:
        """Run at a time, now at the earliest."""
        self._sequence = sequence = self._sequence + 1
        now_us = self.now_us
        heappush(self._heap, (max(now_us, time_us), sequence, action))

    def later(self, time_us: int, action: Callable[[], None]) -> None:
        """Run at a future time."""
        self._sequence = sequence = self._sequence + 1
        heappush(self._heap, (time_us, sequence, action))

    def place(self) -> int:
        """Reserve a place among the callbacks of one time, for a later `at_place`."""
        self._sequence += 1
        return self._sequence

    def at_place(self, time_us: int, place: int, action: Callable[[], None]) -> None:
        """Run at a future time, as if scheduled when the place was reserved."""
        assert time_us > self.now_us, f"{time_us=} {self.now_us=}"
        heappush(self._heap, (time_us, place, action))

    def after(self, delay_us: int, action: Callable[[], None]) -> None:
        """Run after a delay."""
        self.at(self.now_us + delay_us, action)

    def run(self, end_us: int, count: int = sys.maxsize) -> bool:
        """Run the next callbacks, at most so many.

        Returns:
            False, with the time at the end, when fewer were due before it.

        Raises:
            StuckError: time stands still.
        """
        heap = self._heap
        for _ in repeat(None, count):
            if not heap or heap[0][0] > end_us:
                self.now_us = max(self.now_us, end_us)
                return False
            time_us, _, action = heappop(heap)
            if time_us > self.now_us:
                self.now_us = time_us
                self._at_this_instant = 1
            else:
                self._at_this_instant += 1
                if self._at_this_instant > INSTANT_EVENTS_MAX:
                    raise StuckError(f"{INSTANT_EVENTS_MAX} events at {time_us} us")
            action()
        return True
