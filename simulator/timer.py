"""When the process of a machine asked to be stepped next."""

from collections.abc import Callable

from simulator.scheduler import Scheduler


class Timer:
    """One time, which nearly every step moves back: the scheduler hears of every tenth.

    Args:
        scheduler: of the world.
        ring: what to do when it is due.
    """

    __slots__ = ("_due_us", "_place", "_ring", "_scheduler", "_wake_place", "_wake_us")

    def __init__(self, scheduler: Scheduler, ring: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._ring = ring
        self._due_us: int | None = None
        self._place = 0
        self._wake_us: int | None = None
        """When the timer is looked at; not later than `_due_us`."""
        self._wake_place = 0

    def stop(self) -> None:
        """It is never due."""
        self._due_us = None

    def set(self, due_us: int) -> None:
        """It is due at a time, at the earliest in a microsecond."""
        scheduler = self._scheduler
        if due_us <= scheduler.now_us:
            due_us = scheduler.now_us + 1
        if due_us == self._due_us:
            return
        self._due_us = due_us
        self._place = scheduler.place()
        if self._wake_us is None or due_us <= self._wake_us:
            self._wake_when_due()

    def _wake_when_due(self) -> None:
        """Look at the timer when it is due; one that was set later meanwhile is looked at again."""
        assert self._due_us is not None
        self._wake_us = self._due_us
        self._wake_place = place = self._place

        def wake() -> None:
            is_current = place == self._wake_place
            if is_current:
                self._wake_us = None
            if self._due_us is None:
                return
            if place == self._place:
                self._due_us = None
                self._ring()
            elif is_current:
                self._wake_when_due()

        self._scheduler.at_place(self._due_us, place, wake)
