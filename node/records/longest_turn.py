"""The longest turn of a loop, by the CPU of its thread: no other connection is served meanwhile.

System calls count, waits for a disk or for the interpreter do not. The maximum of the last 30 to
60 s is a metric. That of all is told where it is long and twice what was told before, so that a
node writes a few lines at most.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from time import monotonic_ns
from typing import Final

from broker.effects import Log, LogLevel
from inspection.recorder import Window

TOLD_NS: Final = 20_000_000
"""CPU from which a turn is told: ten times what one may take by its Python."""
NS_PER_MS: Final = 1_000_000


class LongestTurn:
    """The longest turn so far, and the longest of late.

    Args:
        nanoseconds: a clock.
    """

    def __init__(self, nanoseconds: Callable[[], int] = monotonic_ns) -> None:
        self._nanoseconds = nanoseconds
        self.cpu_ns = 0
        """Of the longest since the start."""
        self._window = Window(0)
        self._tell_ns = TOLD_NS

    def newest_ns(self) -> float:
        """CPU of the longest of the last 30 to 60 s; NaN without any."""
        return self._window.highest(self._nanoseconds())

    def ended(self, cpu_ns: int, events: Iterable[object]) -> Log | None:
        """Take a turn with the events that it took; the line that tells of it, if one is due."""
        self._window.add(cpu_ns, self._nanoseconds())
        if cpu_ns <= self.cpu_ns:
            return None
        self.cpu_ns = cpu_ns
        if cpu_ns < self._tell_ns:
            return None
        self._tell_ns = 2 * cpu_ns
        kinds = dict(Counter(type(event).__name__ for event in events))
        fields = {"cpu_ms": cpu_ns // NS_PER_MS, "events": kinds}
        return Log(LogLevel.INFO, "long_turn_of_records", fields)
