"""The threads on which the records of a broker run work: one for each lane and name."""

import asyncio
import time
from typing import Final

from broker.effects import Lane, RunWork
from node.worker import Done, Worker

LANES_WAIT_S: Final = 0.2
"""Time for unfinished work when the node ends; the next start makes up for it."""


class Lanes:
    """Threads that begin with their first work; the work of one runs in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._workers: dict[tuple[Lane, str], Worker] = {}

    def run(self, effect: RunWork, done: Done) -> None:
        """Run the work of an effect, then call `done(error)` in the loop."""
        key = effect.lane, effect.name
        worker = self._workers.get(key)
        if worker is None:
            worker = self._workers[key] = Worker(self._loop, f"{effect.lane.value} {effect.name}")
        worker.submit(effect.work, done)

    def close(self) -> None:
        """Accept no more work, and wait a little for what is left."""
        end_s = time.monotonic() + LANES_WAIT_S
        for worker in self._workers.values():
            worker.close(max(0.0, end_s - time.monotonic()))
