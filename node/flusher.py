"""Where a flush of the log runs: on a thread, or right in the loop while the disk is quick.

A thread costs two switches between threads per flush, about 100 us at every node of a quorum, and
a create waits for two of them; an fdatasync of a good disk costs 150 us. A slow disk must not stop
the loop (heartbeats, reads, elections), so the loop flushes only while all of the recent flushes
were quick; the first slow one sends the next ones to the thread until the disk has proved itself
again. docs/decisions/0006-flush-in-the-loop.md has the figures.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from kernel.effects import Plan

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
        self._loop = loop
        self._done = done
        self._pace = Pace()
        self._queue: SimpleQueue[tuple[int, Plan] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="flush", daemon=True)
        self._thread.start()

    @property
    def may_run_in_loop(self) -> bool:
        """Whether a flush is short enough to be done between two callbacks."""
        return self._pace.is_quick

    def run_here(self, token: int, plan: Plan) -> None:
        """Flush now, in the calling thread, which is the loop's."""
        self._done(token, self._timed(plan))

    def run_on_thread(self, token: int, plan: Plan) -> None:
        """Flush on the thread."""
        self._queue.put((token, plan))

    def close(self) -> None:
        """Wait for the flush that runs; no other begins."""
        self._queue.put(None)
        self._thread.join()

    def _timed(self, plan: Plan) -> BaseException | None:
        begin = time.perf_counter()
        try:
            plan.run()
        except BaseException as error:  # noqa: BLE001 - handed to the loop, which decides
            return error
        self._pace.note(time.perf_counter() - begin)
        return None

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            token, plan = job
            error = self._timed(plan)
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._done, token, error)
