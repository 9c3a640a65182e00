"""Events of a node, reported by its driver: bytes, connections, finished work, time."""

from typing import final

import msgspec

from network.clock import Now
from network.events import (
    BytesReceived,
    ConnectionClosed,
    ConnectionOpened,
    PeerBytes,
    PeerConnected,
    PeerDisconnected,
)

__all__ = [
    "BytesReceived",
    "ConnectionClosed",
    "ConnectionOpened",
    "Event",
    "FlushDone",
    "LocalChangesDone",
    "Now",
    "PeerBytes",
    "PeerConnected",
    "PeerDisconnected",
    "ShutdownRequested",
    "SnapshotDone",
    "Started",
    "TimeAdvanced",
]


class Started(msgspec.Struct, frozen=True):
    """The listeners are bound; the node starts."""


@final
class FlushDone(msgspec.Struct, frozen=True):
    """The plan of a `RunFlush` is durable. A failed flush stops the driver instead."""

    token: int


class LocalChangesDone(msgspec.Struct, frozen=True):
    """The work of a `RunLocalChanges` has run; `error` is the failure, None on success."""

    token: int
    error: str | None = None


class SnapshotDone(msgspec.Struct, frozen=True):
    """The work of a `RunSnapshot` has run. A failure stops the driver instead."""

    token: int


@final
class TimeAdvanced(msgspec.Struct, frozen=True):
    """Time passed; run the timers that are due."""


class ShutdownRequested(msgspec.Struct, frozen=True):
    """SIGTERM: controlled shutdown of the broker, resignation of the leader, then `Exit`."""


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
