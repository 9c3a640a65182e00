"""Requests that stop half-way while others wait for the memory that they hold.

A client that has announced a large request and vanished would keep all others from producing until
`connections.max.idle.ms`. While the pool has no room, a request in memory that is not whole has to
go on and to end: one of which nothing came between two looks, or that is there at a third, ends
with its connection. A client gives it up itself then (`request.timeout.ms`, 30 s).
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from network.memory_pool import MemoryPool

INTERVAL_S: Final = 15.0
"""Time between two looks: half of a client's default `request.timeout.ms`."""

Progress = tuple[int, int]
"""Number of the request in its connection, and bytes of it that have come."""
NOTHING: Final[Progress] = (-1, 0)


class StalledRequests:
    """Looks at the unfinished requests of all connections for as long as any waits for memory.

    Args:
        loop: has the timer.
        pool: of the memory.
        unfinished: gives how far the request of each connection is that holds memory and is read.
        cut: ends a connection.
        interval_s: between two looks.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pool: MemoryPool,
        unfinished: Callable[[], Mapping[int, Progress]],
        cut: Callable[[int], None],
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._loop = loop
        self._pool = pool
        self._unfinished = unfinished
        self._cut = cut
        self._interval_s = interval_s
        self._seen: Mapping[int, Progress] = {}
        """Findings of the last look."""
        self._seen_before: Mapping[int, Progress] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Begin to look, unless it has begun: a request waits for memory."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._interval_s, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if not self._pool.is_depleted:
            self._seen = self._seen_before = {}
            return
        found, last, before = self._unfinished(), self._seen, self._seen_before
        self._seen, self._seen_before = found, last
        for connection_id, progress in found.items():
            is_third = before.get(connection_id, NOTHING)[0] == progress[0]
            if is_third or last.get(connection_id) == progress:
                self._cut(connection_id)
        self.watch()
