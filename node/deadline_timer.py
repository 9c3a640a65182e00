"""The timer of a driver: one call at the next deadline of the value that it steps."""

import asyncio
from collections.abc import Callable

from node.clocks import now


class DeadlineTimer:
    """One timer, set behind each step.

    Args:
        loop: in whose thread everything here runs.
        next_deadline_ms: returns the deadline of the stepped value, monotonic.
        due: called when it has come.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        next_deadline_ms: Callable[[], int],
        due: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._next_deadline_ms = next_deadline_ms
        self._due = due
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    def set(self) -> None:
        """Set the timer to the deadline; a later deadline is read when the timer fires."""
        deadline_ms = self._next_deadline_ms()
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay_ms = max(0, deadline_ms - now().monotonic_ms)
        self._timer = self._loop.call_later(delay_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._next_deadline_ms() <= now().monotonic_ms:
            self._due()
        else:
            self.set()

    def cancel(self) -> None:
        """Call nobody any more."""
        if self._timer is not None:
            self._timer.cancel()
