"""The clocks of the machine, for the values that a node drives."""

import time

from network.clock import Now


def now() -> Now:
    """Return the current time of both clocks."""
    return Now(monotonic_ms=time.monotonic_ns() // 1_000_000, wall_ms=time.time_ns() // 1_000_000)
