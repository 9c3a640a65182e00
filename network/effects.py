"""What the network of a node asks its driver to do: bytes, connections, lines of the log."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Protocol

import msgspec


class LogLevel(IntEnum):
    """How loud a log line is."""

    DEBUG = 10
    INFO = 20
    WARN = 30
    ERROR = 40


class SendBytes(msgspec.Struct, frozen=True):
    """Write to a connection that somebody opened to us; dropped when it is gone."""

    connection_id: int
    data: bytes


class CloseConnection(msgspec.Struct, frozen=True):
    """Close it after what was sent before; no ConnectionClosed event is needed."""

    connection_id: int
    reason: str


class SetReading(msgspec.Struct, frozen=True):
    """Read from a connection that somebody opened to us, or leave its bytes in the kernel."""

    connection_id: int
    is_wanted: bool


class ConnectPeer(msgspec.Struct, frozen=True):
    """Open a connection; answered by PeerConnected or PeerDisconnected. Ids are never reused."""

    peer_id: int
    host: str
    port: int


class SendPeerBytes(msgspec.Struct, frozen=True):
    """Write to a node that we connected to."""

    peer_id: int
    data: bytes


class ClosePeer(msgspec.Struct, frozen=True):
    """Close a connection of ours; no event follows."""

    peer_id: int


class Log(msgspec.Struct, frozen=True):
    """One line for people: an event name and its fields."""

    level: LogLevel
    event: str
    fields: Mapping[str, object] = msgspec.field(default_factory=dict)


NetworkEffect = (
    SendBytes | CloseConnection | SetReading | ConnectPeer | SendPeerBytes | ClosePeer | Log
)


class EffectSink(Protocol):
    """Takes effects in order; a list of the effects of a whole node is one."""

    def append(self, effect: NetworkEffect, /) -> None:
        """The next thing to do."""
        ...
