"""The time of the running step, shared by the parts of one kernel."""

from typing import Protocol

import msgspec


class Now(msgspec.Struct, frozen=True, gc=False):
    """Both clocks at the moment of a step: monotonic for timers, wall for timestamps."""

    monotonic_ms: int
    wall_ms: int


class Clock:
    """Set by the kernel at the start of each step; constant while the step runs."""

    __slots__ = ("now_ms", "timers_moved", "wall_ms")

    def __init__(self, now: Now) -> None:
        self.timers_moved = True
        """Whether a `SeldomTimed` part may have another deadline than the kernel knows."""
        self.now_ms = now.monotonic_ms
        self.wall_ms = now.wall_ms

    def set(self, now: Now) -> None:
        """Move to the time of a new step; the monotonic clock never runs backwards."""
        assert now.monotonic_ms >= self.now_ms, f"{now.monotonic_ms=} {self.now_ms=}"
        self.now_ms = now.monotonic_ms
        self.wall_ms = now.wall_ms


def earliest(*deadlines_ms: int | None) -> int | None:
    """The first of some deadlines; None when there is none."""
    first = None
    for deadline_ms in deadlines_ms:
        if deadline_ms is not None and (first is None or deadline_ms < first):
            first = deadline_ms
    return first


class Timed(Protocol):
    """A part of a node that has timers."""

    def next_deadline_ms(self) -> int | None:
        """When to tick at the latest; None = only events can change anything."""
        ...

    def tick(self) -> None:
        """Do what is due; nothing when nothing is."""
        ...


class SeldomTimed(Timed, Protocol):
    """A part whose deadline moves in few steps: it sets `Clock.timers_moved` when it may have.

    Of the others the deadline is asked for in every step; they know it until something moves it.
    """
