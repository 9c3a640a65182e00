"""The records of a node with the broker role: loop, listeners, bridge to the kernel.

Made on the main thread; `end` goes to the kernel's driver, which `start` joins from the other side.
"""

import asyncio
import socket
from collections.abc import Sequence

from kernel.events import Event
from network.memory_pool import MemoryPool
from node.driver import Driver
from node.records.bridge import ToKernel, ToRecords
from node.records.data_loop import DataLoop, Records
from node.records.record_listener import bind
from wire.types import Endpoint


class BrokerSide:
    """The second thread of a node.

    Args:
        records: run on that thread.
        main_loop: of the kernel's driver.
        data_loop: a new loop, closed with this object.
        frame_bytes_max: size above which a request breaks its connection.
        pool: of the memory of requests; `records` gives back what it holds.
    """

    def __init__(
        self,
        records: Records,
        main_loop: asyncio.AbstractEventLoop,
        data_loop: asyncio.AbstractEventLoop,
        *,
        frame_bytes_max: int,
        pool: MemoryPool,
    ) -> None:
        self._main_loop = main_loop
        self._driver: Driver | None = None
        self._bound: list[tuple[str, list[socket.socket]]] = []
        self._data = DataLoop(
            records,
            ToKernel(self._to_kernel),
            frame_bytes_max=frame_bytes_max,
            pool=pool,
            failed=self._failed,
            loop=data_loop,
        )
        self.run = self._data.run_threadsafe
        """Runs a function on the thread of the records, between two turns."""
        self.longest_turn = self._data.longest_turn
        """Of that thread, read there."""
        self.use = self._data.use
        """Of that thread, read there."""
        self.end = ToRecords(self._data.post_threadsafe)
        """For the driver: takes the effects that are meant for the records."""

    def listen(self, endpoint: Endpoint) -> list[socket.socket]:
        """Bind a listener; clients wait until the start.

        Raises:
            OSError: it cannot be bound.
        """
        bound = bind(endpoint)
        self._bound.append((endpoint.listener, bound))
        return bound

    def start(self, driver: Driver) -> None:
        """Begin, when the driver has begun."""
        self._driver = driver
        self._data.start(self._bound)

    def close(self) -> None:
        """Close all sockets and wait for the thread; no step of the records follows."""
        self._data.close()
        for _, bound in self._bound:
            for one in bound:
                one.close()

    def _to_kernel(self, events: Sequence[Event]) -> None:
        assert self._driver is not None, "events come after the start"
        self._main_loop.call_soon_threadsafe(self._driver.take_from_records, events)

    def _failed(self, error: BaseException) -> None:
        assert self._driver is not None, "errors come after the start"
        self._main_loop.call_soon_threadsafe(self._driver.fail, error)
