"""Flushes of the log: on a thread, or directly in the loop while the disk is fast.

A thread costs two thread switches per flush, about 100 us on every node of a quorum, and a
CreateTopics waits for two flushes; an fdatasync of a good disk costs 150 us. A slow disk must not
block the loop (heartbeats, reads, elections), so the loop flushes only while the recent flushes
were fast; after a slow one the flushes run on the thread until enough of them were fast again.
docs/decisions/0006-flush-in-the-loop.md has the figures.
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
"""Upper bound (exclusive) of a fast flush, seconds."""
RECENT: Final = 16
"""Number of last flushes that decide; all but `FORGIVEN` of them must have been fast..."""
SLOW_S: Final = 0.003
"""... and none may have taken this long."""
FORGIVEN: Final = 4

Done = Callable[[int, BaseException | None], None]


class Pace:
    """The durations of recent flushes, and the decision whether the loop may run the next."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=RECENT)

    def note(self, seconds: float) -> None:
        """Add the duration of a flush."""
        self._recent.append(seconds)

    @property
    def is_quick(self) -> bool:
        """True if there were enough flushes, most of them fast and none slow."""
        recent = self._recent
        if len(recent) < RECENT or max(recent) >= SLOW_S:
            return False
        return sum(1 for took in recent if took >= QUICK_S) <= FORGIVEN


class Flusher:
    """The runner of flushes, one at a time; it calls `done(token, error)` in the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, done: Done) -> None:
        self._done = done
        self._pace = Pace()
        self._worker = Worker(loop, "flush")

    @property
    def may_run_in_loop(self) -> bool:
        """True if flushes are short enough to run between two callbacks."""
        return self._pace.is_quick

    def run_here(self, token: int, plan: Plan) -> None:
        """Flush now, in the calling thread, which is the loop's."""
        error: BaseException | None = None
        try:
            self._run(plan)
        except Exception as raised:  # noqa: BLE001 - passed to `done`, as from the thread
            error = raised
        self._done(token, error)

    def run_on_thread(self, token: int, plan: Plan) -> None:
        """Flush on the thread."""
        self._worker.submit(partial(self._run, plan), partial(self._done, token))

    def close(self) -> None:
        """Wait for the running flush; no other begins."""
        self._worker.close()

    def _run(self, plan: Plan) -> None:
        begin = time.perf_counter()
        plan.run()
        self._pace.note(time.perf_counter() - begin)
