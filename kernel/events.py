"""What can happen to a node, as the driver tells it: bytes, connections, finished work, time."""

from typing import final

import msgspec


class Now(msgspec.Struct, frozen=True, gc=False):
    """Both clocks at the moment of a step: monotonic for timers, wall for timestamps."""

    monotonic_ms: int
    wall_ms: int


class Started(msgspec.Struct, frozen=True):
    """The listeners are bound: the node may begin."""


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


@final
class FlushDone(msgspec.Struct, frozen=True):
    """The plan of a `RunFlush` is durable. A failed one stops the driver instead."""

    token: int


class LocalChangesDone(msgspec.Struct, frozen=True):
    """The work of a `RunLocalChanges` has run; `error` says what failed, None if nothing."""

    token: int
    error: str | None = None


class SnapshotDone(msgspec.Struct, frozen=True):
    """The work of a `RunSnapshot` has run. A failed one stops the driver instead."""

    token: int


@final
class TimeAdvanced(msgspec.Struct, frozen=True):
    """The clock moved; timers that are due run."""


class ShutdownRequested(msgspec.Struct, frozen=True):
    """SIGTERM: controlled shutdown of the broker, hand-over of leadership, then `Exit`."""


Event = (
    Started
    | ConnectionOpened
    | BytesReceived
    | ConnectionClosed
    | PeerConnected
    | PeerBytes
    | PeerDisconnected
    | FlushDone
    | LocalChangesDone
    | SnapshotDone
    | TimeAdvanced
    | ShutdownRequested
)
