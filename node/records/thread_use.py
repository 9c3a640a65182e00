"""Shares of its time in which a thread is idle: by the clock, and by its CPU.

As Kafka's KafkaRequestHandlerPool and SocketServer: a request handler is busy while it waits for a
disk, a network processor is not.
"""

from collections.abc import Callable
from time import monotonic_ns, thread_time_ns
from typing import NamedTuple

from inspection.recorder import SAMPLE_NS


class IdleShares(NamedTuple):
    """Shares of the last 30 s or more, 0 to 1."""

    turns: float
    """Outside of turns."""
    cpu: float
    """Without CPU of the thread, be it in turns or between them."""


class ThreadUse:
    """The use of one thread since its start.

    Args:
        nanoseconds: a clock.
        cpu_ns: CPU of the thread that asks.
    """

    def __init__(
        self,
        nanoseconds: Callable[[], int] = monotonic_ns,
        cpu_ns: Callable[[], int] = thread_time_ns,
    ) -> None:
        self._nanoseconds = nanoseconds
        self._cpu_ns = cpu_ns
        self.turns_ns = 0
        """Time in turns, which the thread adds up."""
        self._older = self._newer = (nanoseconds(), 0, 0)

    def idle(self) -> IdleShares:
        """Shares since a sample that is at least 30 s old, or since the start; on that thread."""
        now_ns, turns_ns, cpu_ns = newest = self._nanoseconds(), self.turns_ns, self._cpu_ns()
        if now_ns - self._newer[0] >= SAMPLE_NS:
            self._older, self._newer = self._newer, newest
        before_ns, turns_before_ns, cpu_before_ns = self._older
        elapsed_ns = now_ns - before_ns
        return IdleShares(
            _idle(turns_ns - turns_before_ns, elapsed_ns), _idle(cpu_ns - cpu_before_ns, elapsed_ns)
        )


def _idle(busy_ns: int, elapsed_ns: int) -> float:
    return 1.0 if elapsed_ns <= 0 else max(0.0, 1.0 - busy_ns / elapsed_ns)
