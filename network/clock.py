"""The time of the running step, shared by the parts of one kernel."""

from typing import Protocol

import msgspec


class Now(msgspec.Struct, frozen=True, gc=False):
    """Both clocks at a step: monotonic for timers, wall for timestamps."""

    monotonic_ms: int
    wall_ms: int


class Clock:
    """The time of the running step: set by the kernel at its start, then constant."""

    __slots__ = ("now_ms", "timers_moved", "wall_ms")

    def __init__(self, now: Now) -> None:
        self.timers_moved = True
        """True if a `SeldomTimed` part's deadline may have changed since the kernel read it."""
        self.now_ms = now.monotonic_ms
        self.wall_ms = now.wall_ms

    def set(self, now: Now) -> None:
        """Move to the time of a new step; the monotonic clock never runs backwards."""
        assert now.monotonic_ms >= self.now_ms, f"{now.monotonic_ms=} {self.now_ms=}"
        self.now_ms = now.monotonic_ms
        self.wall_ms = now.wall_ms


def earliest(*deadlines_ms: int | None) -> int | None:
    """Return the earliest deadline; None if all are None."""
    first = None
    for deadline_ms in deadlines_ms:
        if deadline_ms is not None and (first is None or deadline_ms < first):
            first = deadline_ms
    return first


class Timed(Protocol):
    """A part of a node with timers."""

    def next_deadline_ms(self) -> int | None:
        """Return the latest time of the next tick; None if nothing is timed."""
        ...

    def tick(self) -> None:
        """Run the timers that are due, if any."""
        ...


class SeldomTimed(Timed, Protocol):
    """A part whose deadline changes in few steps: it sets `Clock.timers_moved` when it may have.

    The deadlines of other parts are read in every step; these parts cache them.
    """
