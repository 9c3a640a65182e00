"""What can happen to the connections of a node, as the driver tells it."""

from typing import final

import msgspec


class ConnectionOpened(msgspec.Struct, frozen=True):
    """Somebody connected to one of our listeners. Connection ids are never used twice."""

    connection_id: int
    listener: str
    client_host: str = "127.0.0.1"


@final
class BytesReceived(msgspec.Struct, frozen=True):
    """Bytes of a connection that somebody opened to us."""

    connection_id: int
    data: bytes


class ConnectionClosed(msgspec.Struct, frozen=True):
    """A connection that somebody opened to us is gone."""

    connection_id: int


class PeerConnected(msgspec.Struct, frozen=True):
    """A `ConnectPeer` succeeded."""

    peer_id: int


@final
class PeerBytes(msgspec.Struct, frozen=True):
    """Bytes from a node that we connected to."""

    peer_id: int
    data: bytes


class PeerDisconnected(msgspec.Struct, frozen=True):
    """A connection of ours failed or closed; `refused`: every resolved address refused it."""

    peer_id: int
    refused: bool
