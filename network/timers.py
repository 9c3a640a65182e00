"""Deadlines of one node, by name: each part sets its own, the kernel asks for the first.

The first is the minimum of all, computed at each request, so that no flag has to say that one has
changed. Tests compute each from the state of its part and compare (tests/kernel/deadlines.py).
"""

from typing import Final, Protocol

NEVER_MS: Final = 1 << 62
"""Deadline of a part that only events can change; later than any clock."""

RAFT: Final = 0
"""Elections, time-outs, retries and parked fetches of the replica."""
LINKS: Final = 1
"""Time-out of a request to another node."""
CONTROLLER: Final = 2
"""Next tick of the active controller."""
FORWARDING: Final = 3
"""Next attempt of a forwarded request that found no controller."""
BACKLOG: Final = 4
"""Requests of a connection beyond those of one step."""
IDLE: Final = 5
"""End of the least recently used connection."""
ADMISSION: Final = 6
"""Admission, or end, of a connection above the rate."""
HEARTBEAT: Final = 7
"""Next registration or heartbeat of the broker."""
REGISTRATION_TIMEOUT: Final = 8
"""Exit of a broker that has not registered."""
SHUTDOWN_CHECK: Final = 9
"""Next check whether a controlled shutdown is to be given up."""
REGISTRATION: Final = 10
"""Next registration of the controller."""
ISR_EXPANSION: Final = 11
"""Next AlterPartition."""
FOLDERS: Final = 12
"""Next task on partition folders."""
FULL_DISK: Final = 13
"""Retry of the appends that a full disk refused."""
SNAPSHOT_READING: Final = 14
"""Next slice of a fetched snapshot."""
SNAPSHOT_WRITING: Final = 15
"""Next slice of the snapshot being written."""
SNAPSHOT_INTERVAL: Final = 16
"""Next snapshot by age, or after one that a full disk refused."""
RETENTION: Final = 17
"""Next check of snapshots by retention."""
RECORDS_STOP: Final = 18
"""End of the wait for the records of the broker to stop."""
DIRECTORY_REPORT: Final = 19
"""End of the time in which the controller must learn of a failed log directory."""
DEPARTURE: Final = 20
"""Next check whether a leader that resigned to shut down can have a successor."""
COUNT: Final = 21


class Timers:
    """Deadlines of one node; `NEVER_MS` if not set."""

    __slots__ = ("at_ms",)

    def __init__(self) -> None:
        self.at_ms = [NEVER_MS] * COUNT
        """Monotonic time by name; what nearly every step changes is stored without a call."""

    def set(self, name: int, at_ms: int) -> None:
        """Set a deadline."""
        self.at_ms[name] = at_ms

    def lower(self, name: int, at_ms: int) -> None:
        """Set a deadline unless an earlier one is set."""
        self.at_ms[name] = min(self.at_ms[name], at_ms)

    def clear(self, name: int) -> None:
        """Remove a deadline."""
        self.at_ms[name] = NEVER_MS

    def is_set(self, name: int) -> bool:
        """Return True if a deadline is set."""
        return self.at_ms[name] != NEVER_MS

    def first_ms(self) -> int:
        """Return the first deadline; `NEVER_MS` if none is set."""
        return min(self.at_ms)


class Timed(Protocol):
    """A part of a node with timers."""

    def tick(self) -> None:
        """Run the timers that are due, if any."""
        ...


class SelfTimed(Protocol):
    """A part that knows when it is due next."""

    def next_ms(self) -> int | None:
        """Time of the next `tick`, None for none."""
        ...

    def tick(self) -> None:
        """Do what is due."""
        ...
