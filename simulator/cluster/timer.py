"""Timer for the next step of a machine's process."""

from collections.abc import Callable
from typing import Final

from simulator.cluster.scheduler import Scheduler

_NEVER: Final = -1


class Timer:
    """One deadline, which a step mostly keeps or moves later: few moves reach the scheduler.

    Args:
        scheduler: of the world.
        due_us: world time at which the clock of the machine shows a time in ms.
        ring: called when it is due.
    """

    __slots__ = (
        "_deadline_ms",
        "_due_us",
        "_due_us_of",
        "_place",
        "_ring",
        "_scheduler",
        "_wake_place",
        "_wake_us",
    )

    def __init__(
        self, scheduler: Scheduler, due_us: Callable[[int], int], ring: Callable[[], None]
    ) -> None:
        self._scheduler = scheduler
        self._due_us_of = due_us
        self._ring = ring
        self._deadline_ms: int | None = None
        self._due_us = _NEVER
        """World time of the deadline, or a microsecond after it was set if that was later."""
        self._place = 0
        self._wake_us: int | None = None
        """World time of the next look at the timer; not later than `_due_us`."""
        self._wake_place = 0

    def stop(self) -> None:
        """Forget the deadline."""
        self._deadline_ms = None
        self._due_us = _NEVER

    def set(self, deadline_ms: int) -> None:
        """Ring when the machine's clock shows this time."""
        now_us = self._scheduler.now_us
        if deadline_ms == self._deadline_ms and self._due_us > now_us:
            return
        self._deadline_ms = deadline_ms
        due_us = max(self._due_us_of(deadline_ms), now_us + 1)
        if due_us == self._due_us:
            return
        self._due_us = due_us
        self._place = self._scheduler.place()
        if self._wake_us is None or due_us <= self._wake_us:
            self._wake_when_due()

    def _wake_when_due(self) -> None:
        """Look at the timer when it is due; if it was set later meanwhile, look again then."""
        self._wake_us = self._due_us
        self._wake_place = place = self._place

        def wake() -> None:
            is_current = place == self._wake_place
            if is_current:
                self._wake_us = None
            if self._due_us == _NEVER:
                return
            if place == self._place:
                self.stop()
                self._ring()
            elif is_current:
                self._wake_when_due()

        self._scheduler.at_place(self._due_us, place, wake)
