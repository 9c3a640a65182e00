"""Events of a node's connections, reported by the driver."""

from typing import final

import msgspec


class ConnectionOpened(msgspec.Struct, frozen=True):
    """A client connected to one of the node's listeners. Connection ids are never reused."""

    connection_id: int
    listener: str
    client_host: str = "127.0.0.1"


@final
class BytesReceived(msgspec.Struct, frozen=True):
    """Bytes received from an incoming connection."""

    connection_id: int
    data: bytes


class ConnectionUsed(msgspec.Struct, frozen=True):
    """An incoming connection is not idle, though no bytes of it were reported."""

    connection_id: int


class ConnectionClosed(msgspec.Struct, frozen=True):
    """An incoming connection closed."""

    connection_id: int


class PeerConnected(msgspec.Struct, frozen=True):
    """A `ConnectPeer` succeeded."""

    peer_id: int


@final
class PeerBytes(msgspec.Struct, frozen=True):
    """Bytes received from an outgoing connection."""

    peer_id: int
    data: bytes


class PeerDisconnected(msgspec.Struct, frozen=True):
    """An outgoing connection failed or closed; `refused`: every resolved address refused it."""

    peer_id: int
    refused: bool
