"""Sockets of broker listeners over loopback, with their events and some clients."""

import asyncio
import socket
from contextlib import asynccontextmanager

from broker.events import ConnectionOpened, FramesReceived
from network.memory_pool import MemoryPool
from node.records.record_listener import bind
from node.records.record_sockets import FIRST_CONNECTION_ID, RecordSockets
from wire.types import Endpoint

FRAME_BYTES_MAX = 6 * 1024 * 1024
LIMIT_S = 20
FIRST = FIRST_CONNECTION_ID


class Node:
    """The sockets under test, and a client of them."""

    def __init__(self, pool_bytes=64 << 20, **options):
        self.pool = MemoryPool(pool_bytes)
        self.loop = asyncio.get_running_loop()
        self.events = []
        self.clients = []
        self.is_admitting = True
        self.sockets = RecordSockets(self.loop, self._post, FRAME_BYTES_MAX, self.pool, **options)
        self._posted = asyncio.Event()
        bound = bind(Endpoint("PLAINTEXT", "127.0.0.1", 0))
        self.address = bound[0].getsockname()
        self.sockets.listen("PLAINTEXT", bound)

    def _post(self, event):
        self.events.append(event)
        self._posted.set()
        if type(event) is ConnectionOpened and self.is_admitting:
            self.sockets.set_reading_by_kernel(event.connection_id, is_wanted=True)

    async def posted(self, wanted):
        """Wait until `wanted()` holds after some event."""
        while not wanted():
            self._posted.clear()
            await self._posted.wait()

    def frames(self):
        return [bytes(one) for e in self.events if type(e) is FramesReceived for one in e.frames]

    def turns(self):
        """Number of frames in each event."""
        return [len(event.frames) for event in self.events if type(event) is FramesReceived]

    async def connect(self):
        client = socket.socket()
        self.clients.append(client)
        client.settimeout(0)
        await self.loop.sock_connect(client, self.address)
        return client

    async def opened(self):
        """A client whose connection is accepted."""
        count = len(self.sockets)
        client = await self.connect()
        await self.posted(lambda: len(self.sockets) > count)
        return client

    async def until(self, wanted):
        """Turn the loop until `wanted()` holds."""
        while not wanted():
            turned = self.loop.create_future()
            self.loop.call_soon(turned.set_result, None)
            await turned

    async def ended(self):
        await self.until(lambda: not len(self.sockets))

    async def rest(self, client):
        """All that a client receives until the end."""
        parts = []
        while data := await self.loop.sock_recv(client, 1 << 20):
            parts.append(data)
        return b"".join(parts)


@asynccontextmanager
async def running(**options):
    node = Node(**options)
    try:
        yield node
    finally:
        node.sockets.close()
        for client in node.clients:
            client.close()
