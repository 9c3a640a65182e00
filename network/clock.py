"""Time of the running step and deadlines, shared by the parts of one kernel."""

import msgspec

from network.timers import Timers


class Now(msgspec.Struct, frozen=True, gc=False):
    """Both clocks at a step: monotonic for timers, wall for timestamps."""

    monotonic_ms: int
    wall_ms: int


class Clock:
    """The time of the running step: set by the kernel at its start, then constant."""

    __slots__ = ("now_ms", "timers", "wall_ms")

    def __init__(self, now: Now) -> None:
        self.timers = Timers()
        """Deadlines of the parts."""
        self.now_ms = now.monotonic_ms
        self.wall_ms = now.wall_ms

    def set(self, now: Now) -> None:
        """Move to the time of a new step; the monotonic clock never runs backwards."""
        assert now.monotonic_ms >= self.now_ms, f"{now.monotonic_ms=} {self.now_ms=}"
        self.now_ms = now.monotonic_ms
        self.wall_ms = now.wall_ms
