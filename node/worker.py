"""A thread that runs tasks in sequence and reports to the event loop."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue

Work = Callable[[], object]
Done = Callable[[BaseException | None], None]


class Worker:
    """A thread for work outside the loop's thread, where `done(error)` is called afterwards.

    The thread does not keep the process alive: unfinished work is as after a SIGKILL, and the next
    start makes up for it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._queue: SimpleQueue[tuple[Work, Done] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Work, done: Done) -> None:
        """Queue work after all that was submitted before."""
        self._queue.put((work, done))

    def close(self, wait_s: float | None = None) -> bool:
        """Accept no more work and wait for the queue; None waits without limit.

        Returns:
            True if all work is done.
        """
        self._queue.put(None)
        self._thread.join(wait_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            work, done = job
            error: BaseException | None = None
            try:
                work()
            except BaseException as raised:  # noqa: BLE001 - handed to the loop, which decides
                error = raised
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(done, error)
