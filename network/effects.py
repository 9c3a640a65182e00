"""Effects of a node's connections for its driver: bytes, connections, log lines."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Protocol

import msgspec


class LogLevel(IntEnum):
    """Severity of a log line."""

    DEBUG = 10
    INFO = 20
    WARN = 30
    ERROR = 40


class SendBytes(msgspec.Struct, frozen=True):
    """Write to an incoming connection; dropped if it has closed."""

    connection_id: int
    data: bytes
    spent_ns: int = 0
    """Time that the handlers of the requests answered by it took, of those that did not wait."""


class CloseConnection(msgspec.Struct, frozen=True):
    """Close an incoming connection after its earlier sends; no ConnectionClosed is needed."""

    connection_id: int
    reason: str


class SetReading(msgspec.Struct, frozen=True):
    """Read from an incoming connection, or leave its bytes in the operating system's buffer."""

    connection_id: int
    is_wanted: bool


class ConnectPeer(msgspec.Struct, frozen=True):
    """Open a connection; answered by PeerConnected or PeerDisconnected. Ids are never reused."""

    peer_id: int
    host: str
    port: int


class SendPeerBytes(msgspec.Struct, frozen=True):
    """Write to an outgoing connection."""

    peer_id: int
    data: bytes


class ClosePeer(msgspec.Struct, frozen=True):
    """Close an outgoing connection; no event follows."""

    peer_id: int


class Log(msgspec.Struct, frozen=True):
    """Write a log line: an event name and its fields."""

    level: LogLevel
    event: str
    fields: Mapping[str, object] = msgspec.field(default_factory=dict)


NetworkEffect = (
    SendBytes | CloseConnection | SetReading | ConnectPeer | SendPeerBytes | ClosePeer | Log
)


class EffectSink(Protocol):
    """A receiver of effects in order, such as the list of a whole node's effects."""

    def append(self, effect: NetworkEffect, /) -> None:
        """Add the next effect."""
        ...


class LinkEffectSink(Protocol):
    """A receiver of the effects of links to other nodes."""

    def append(self, effect: ConnectPeer | SendPeerBytes | ClosePeer | Log, /) -> None:
        """Add the next effect."""
        ...


class LogSink(Protocol):
    """A receiver of log lines."""

    def append(self, effect: Log, /) -> None:
        """Add the next line."""
        ...
