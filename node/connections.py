"""The two kinds of sockets of a node as asyncio protocols: they only move bytes and events.

Backpressure: while a peer does not read what we wrote, we do not read what it sends; what waits for
it is bounded, and above OUTPUT_BYTES_MAX its connection is closed.
"""

import asyncio
from collections.abc import Callable
from typing import Final, cast

from typing_extensions import override

from kernel.events import (
    BytesReceived,
    ConnectionClosed,
    ConnectionOpened,
    Event,
    PeerBytes,
    PeerConnected,
    PeerDisconnected,
)

OUTPUT_BYTES_MAX: Final = 128 * 1024 * 1024
"""Unsent bytes of one connection; above it the peer is taken for dead and cut off."""
OUTPUT_BYTES_HIGH: Final = 1024 * 1024
"""Unsent bytes above which we stop reading from that connection."""
INPUT_PIECE_BYTES: Final = 8 * 1024
"""Bytes read at once from one client."""

Post = Callable[[Event], None]


class _Socket(asyncio.BaseProtocol):
    """What both kinds share: the transport, and reading paused while writing is."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self.transport: asyncio.Transport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        self.transport.set_write_buffer_limits(high=OUTPUT_BYTES_HIGH)

    @override
    def pause_writing(self) -> None:
        if self.transport is not None:
            self.transport.pause_reading()

    @override
    def resume_writing(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def write(self, content: bytes) -> None:
        """Send, or cut off a peer that has not read for too long."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        transport.write(content)
        if transport.get_write_buffer_size() > OUTPUT_BYTES_MAX:
            transport.abort()

    def close(self) -> None:
        """Close after what was written before."""
        if self.transport is not None:
            self.transport.close()


class InboundSocket(_Socket, asyncio.BufferedProtocol):
    """A connection that somebody opened to one of our listeners.

    Reads in small pieces: the requests of one piece are served before anybody else's, and a flood
    of small ones in uvloop's 256 KiB would stop the node for seconds.
    """

    def __init__(
        self, post: Post, connections: "dict[int, InboundSocket]", listener: str, connection_id: int
    ) -> None:
        super().__init__(post)
        self._connections = connections
        self._listener = listener
        self._id = connection_id
        self._buffer = bytearray(INPUT_PIECE_BYTES)

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connections[self._id] = self
        peer = transport.get_extra_info("peername")
        self._post(ConnectionOpened(self._id, self._listener, str(peer[0]) if peer else ""))

    @override
    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    @override
    def buffer_updated(self, nbytes: int) -> None:
        self._post(BytesReceived(self._id, bytes(memoryview(self._buffer)[:nbytes])))

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._connections.pop(self._id, None) is not None:
            self._post(ConnectionClosed(self._id))


class OutboundSocket(_Socket, asyncio.Protocol):
    """A connection of ours to another node."""

    def __init__(self, post: Post, connections: "dict[int, OutboundSocket]", peer_id: int) -> None:
        super().__init__(post)
        self._connections = connections
        self._id = peer_id

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connections[self._id] = self
        self._post(PeerConnected(self._id))

    @override
    def data_received(self, data: bytes) -> None:
        self._post(PeerBytes(self._id, data))

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._connections.pop(self._id, None) is not None:
            self._post(PeerDisconnected(self._id, refused=False))


async def connect(
    post: Post, connections: dict[int, OutboundSocket], peer_id: int, host: str, port: int
) -> None:
    """Try every resolved address in turn; report PeerDisconnected when none takes us."""
    loop = asyncio.get_running_loop()
    refused: list[bool] = []
    try:
        addresses = await loop.getaddrinfo(host, port, type=_STREAM)
    except OSError:
        addresses = []
    for family, _, _, _, address in addresses:
        try:
            await loop.create_connection(
                lambda: OutboundSocket(post, connections, peer_id),
                host=str(address[0]),
                port=int(address[1]),
                family=family,
            )
        except OSError as error:
            refused.append(isinstance(error, ConnectionRefusedError))
        else:
            return
    post(PeerDisconnected(peer_id, refused=bool(refused) and all(refused)))


_STREAM: Final = 1
"""socket.SOCK_STREAM, by value: only the event loop touches sockets here."""
