"""A thread that does one piece of work after the other and reports to the loop."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue

Work = Callable[[], object]
Done = Callable[[BaseException | None], None]


class Worker:
    """Work leaves the loop's thread here; `done(error)` is called in the loop's thread.

    The thread does not keep the process alive: what is left undone is as after a SIGKILL, and the
    next start does it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._queue: SimpleQueue[tuple[Work, Done] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Work, done: Done) -> None:
        """Do it after what was submitted before."""
        self._queue.put((work, done))

    def close(self, wait_s: float | None = None) -> bool:
        """Take nothing more and wait for what runs and waits; None waits as long as it takes.

        Returns:
            Whether everything is done.
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
