"""Where a flush of the log runs: on a thread, or right in the loop while the disk is quick.

A thread costs two switches between threads per flush, about 100 us at every node of a quorum, and
a create waits for two of them; an fdatasync of a good disk costs 150 us. A slow disk must not stop
the loop (heartbeats, reads, elections), so the loop flushes only while all of the recent flushes
were quick; the first slow one sends the next ones to the thread until the disk has proved itself
again. docs/decisions/0006-flush-in-the-loop.md has the figures.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from kernel.effects import Plan
from node.worker import Worker

QUICK_S: Final = 0.0005
"""A flush below it is quick: the loop may do the next one itself."""
RECENT: Final = 16
"""Flushes that must all have been quick, except one in `FORGIVEN`..."""
SLOW_S: Final = 0.003
"""... and none of which took this long."""
FORGIVEN: Final = 4

Done = Callable[[int, BaseException | None], None]


class Pace:
    """Remembers how long flushes took and says whether the next one is short enough."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=RECENT)

    def note(self, seconds: float) -> None:
        """A flush took this long."""
        self._recent.append(seconds)

    @property
    def is_quick(self) -> bool:
        """Whether the disk has proved itself: enough flushes, most quick and none slow."""
        recent = self._recent
        if len(recent) < RECENT or max(recent) >= SLOW_S:
            return False
        return sum(1 for took in recent if took >= QUICK_S) <= FORGIVEN


class Flusher:
    """One flush at a time; `done(token, error)` is called in the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, done: Done) -> None:
        self._done = done
        self._pace = Pace()
        self._worker = Worker(loop, "flush")

    @property
    def may_run_in_loop(self) -> bool:
        """Whether a flush is short enough to be done between two callbacks."""
        return self._pace.is_quick

    def run_here(self, token: int, plan: Plan) -> None:
        """Flush now, in the calling thread, which is the loop's."""
        error: BaseException | None = None
        try:
            self._run(plan)
        except Exception as raised:  # noqa: BLE001 - as from the thread: the node decides
            error = raised
        self._done(token, error)

    def run_on_thread(self, token: int, plan: Plan) -> None:
        """Flush on the thread."""
        self._worker.submit(partial(self._run, plan), partial(self._done, token))

    def close(self) -> None:
        """Wait for the flush that runs; no other begins."""
        self._worker.close()

    def _run(self, plan: Plan) -> None:
        begin = time.perf_counter()
        plan.run()
        self._pace.note(time.perf_counter() - begin)
