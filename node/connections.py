"""Inbound and outbound sockets of a node as asyncio protocols: they only move bytes and events.

Back-pressure: while a peer does not read the node's output, its input is not read; the unsent bytes
are limited, and above OUTPUT_BYTES_MAX its connection is aborted.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, cast

from typing_extensions import override

from kernel.effects import ClosePeer, ConnectPeer, Log, LogLevel, SendPeerBytes
from kernel.events import (
    BytesReceived,
    ConnectionClosed,
    ConnectionOpened,
    Event,
    PeerBytes,
    PeerConnected,
    PeerDisconnected,
)
from node.logs import write_log

OUTPUT_BYTES_MAX: Final = 128 * 1024 * 1024
"""Unsent bytes of one connection above which the peer counts as dead and it is aborted."""
CLOSE_SECONDS_MAX: Final = 5.0
"""Time that a closed connection has to send its unsent bytes; then it is aborted."""
OUTPUT_BYTES_HIGH: Final = 1024 * 1024
"""Unsent bytes above which a connection is no longer read."""
INPUT_PIECE_BYTES: Final = 8 * 1024
"""Bytes read at once from one client, at most."""

Post = Callable[[Event], None]
PostPeer = Callable[[PeerConnected | PeerBytes | PeerDisconnected], None]


class _Socket(asyncio.BaseProtocol):
    """The common base: the transport, and reading paused while writing is."""

    def __init__(self) -> None:
        self._is_read = True
        self._is_written = True
        self.transport: asyncio.Transport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        self.transport.set_write_buffer_limits(high=OUTPUT_BYTES_HIGH)

    @override
    def pause_writing(self) -> None:
        self._is_written = False
        self._apply_reading()

    @override
    def resume_writing(self) -> None:
        self._is_written = True
        self._apply_reading()

    def set_reading(self, *, is_wanted: bool) -> None:
        """Resume reading, unless the peer does not read the output; or pause it."""
        self._is_read = is_wanted
        self._apply_reading()

    def _apply_reading(self) -> None:
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        if self._is_read and self._is_written:
            transport.resume_reading()
        else:
            transport.pause_reading()

    def write(self, content: bytes, spent_ns: int = 0) -> None:  # noqa: ARG002 - for other ends
        """Send; abort the connection if too many bytes are unsent."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        transport.write(content)
        unsent_bytes = transport.get_write_buffer_size()
        if unsent_bytes > OUTPUT_BYTES_MAX:
            fields = {"reason": "the peer does not read", "unsent_bytes": unsent_bytes}
            write_log(Log(LogLevel.WARN, "connection_cut", fields))
            transport.abort()

    def close(self) -> None:
        """Close after sending the unsent bytes, or after CLOSE_SECONDS_MAX without them."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        transport.close()
        if transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(CLOSE_SECONDS_MAX, transport.abort)


class InboundEnd(Protocol):
    """The other end of a connection to this node: a socket, or a client in this process."""

    def write(self, content: bytes, spent_ns: int = 0) -> None:
        """Receive bytes from the node, and the time of the handlers of the requests."""
        ...

    def close(self) -> None:
        """Close the connection, on the node's initiative."""
        ...

    def set_reading(self, *, is_wanted: bool) -> None:
        """Resume or pause sending bytes to the node."""
        ...


class InboundSocket(_Socket, asyncio.BufferedProtocol):
    """An inbound connection to one of the node's listeners.

    It reads in small pieces: the requests of one piece are served before those of other
    connections, and 256 KiB (uvloop's buffer) of small ones would block the node for seconds.
    """

    def __init__(
        self, post: Post, connections: "dict[int, InboundEnd]", listener: str, connection_id: int
    ) -> None:
        super().__init__()
        self._post = post
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
    """An outbound connection to another node."""

    def __init__(
        self, post: PostPeer, connections: "dict[int, OutboundSocket]", peer_id: int
    ) -> None:
        super().__init__()
        self._post = post
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
    post: PostPeer, connections: dict[int, OutboundSocket], peer_id: int, host: str, port: int
) -> None:
    """Connect to the first resolved address that accepts; post PeerDisconnected if none does."""
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
"""socket.SOCK_STREAM, by value: only the event loop uses sockets here."""


class Peers:
    """The connections of one loop to other nodes, opened and closed by effects."""

    def __init__(self, loop: asyncio.AbstractEventLoop, post: PostPeer) -> None:
        self._loop = loop
        self._post = post
        self._sockets: dict[int, OutboundSocket] = {}
        self._connecting: dict[int, asyncio.Task[None]] = {}

    def connect(self, effect: ConnectPeer) -> None:
        """Open a connection."""
        peer_id = effect.peer_id
        task = self._loop.create_task(
            connect(self._post, self._sockets, peer_id, effect.host, effect.port)
        )
        self._connecting[peer_id] = task
        task.add_done_callback(lambda _: self._connecting.pop(peer_id, None))

    def send(self, effect: SendPeerBytes) -> None:
        """Write to a connection, unless it has closed."""
        socket = self._sockets.get(effect.peer_id)
        if socket is not None:
            socket.write(effect.data)

    def close_peer(self, effect: ClosePeer) -> None:
        """Close a connection, or do not open it."""
        task = self._connecting.pop(effect.peer_id, None)
        if task is not None:
            task.cancel()
        socket = self._sockets.pop(effect.peer_id, None)
        if socket is not None:
            socket.close()

    def close(self) -> None:
        """Close all connections."""
        for task in list(self._connecting.values()):
            task.cancel()
        for socket in list(self._sockets.values()):
            socket.close()
