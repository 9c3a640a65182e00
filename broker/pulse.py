"""Sign of life of the thread of the records, for the kernel.

Heartbeats are the kernel's, so a stalled disk fences nobody; a thread of records that takes no
steps has to, or its partitions keep a leader that does not answer. Kafka has no such watch.
"""

from typing import Final

from broker.awaited import Work
from broker.effects import Alive, EffectSink
from network.clock import Clock

ALIVE_MS: Final = 1_000
"""Time between two signs."""


class Pulse:
    """A part with a timer that emits `Alive` from `begin` on.

    Once the broker stops, steps are no proof: each sign says that some work ended since the last,
    such as the close of a log.

    Args:
        clock: clock of the broker.
        effects: sink of the effects.
        work: of the broker.
    """

    def __init__(self, clock: Clock, effects: EffectSink, work: Work) -> None:
        self._clock = clock
        self._effects = effects
        self._work = work
        self._progress: int | None = None
        """Progress of the work at the last sign; None before the stop."""
        self._next_ms: int | None = None

    def begin(self) -> None:
        """Emit the first sign at once: the broker serves."""
        self._next_ms = self._clock.now_ms

    def next_ms(self) -> int | None:
        """Time of the next sign; None before the first."""
        return self._next_ms

    def tick(self) -> None:
        """Emit a sign, if there is one."""
        self._next_ms = self._clock.now_ms + ALIVE_MS
        if self._progress is not None:
            if self._progress == self._work.progress:
                return
            self._progress = self._work.progress
        self._effects.append(Alive())

    def stop(self) -> None:
        """Emit signs of progress from now on."""
        self._progress = self._work.progress
        self._next_ms = self._clock.now_ms + ALIVE_MS
