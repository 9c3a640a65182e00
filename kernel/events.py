"""Events of a node, reported by its driver: bytes, connections, finished work, time."""

from typing import final

import msgspec

from network.clock import Now
from network.events import (
    BytesReceived,
    ConnectionClosed,
    ConnectionOpened,
    ConnectionUsed,
    PeerBytes,
    PeerConnected,
    PeerDisconnected,
)
from wire.messages.codec import Entity

__all__ = [
    "BytesReceived",
    "ConnectionClosed",
    "ConnectionOpened",
    "ConnectionUsed",
    "Event",
    "FlushDone",
    "LocalChangesDone",
    "Now",
    "PeerBytes",
    "PeerConnected",
    "PeerDisconnected",
    "RareEvent",
    "ReadAsked",
    "RecordsAlive",
    "RecordsAsked",
    "RecordsDirectoryFailed",
    "RecordsEvent",
    "RecordsReady",
    "RecordsStopped",
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


@final
class ReadAsked(msgspec.Struct, frozen=True):
    """A linearizable read of the image begins; `AnswerRead` has its token."""

    token: int


class RecordsAsked(msgspec.Struct, frozen=True):
    """The records send a request to the active controller; its `AnswerRecords` has the token."""

    token: int
    api_key: int
    body: Entity
    """Of the newest shape."""


class RecordsReady(msgspec.Struct, frozen=True):
    """The logs are loaded and the first image is applied: the broker may be unfenced."""


class RecordsAlive(msgspec.Struct, frozen=True):
    """The thread of the records takes steps; told every second or so."""


class RecordsDirectoryFailed(msgspec.Struct, frozen=True):
    """A log directory is offline; with the last one the node ends."""

    path: str
    is_last: bool


class RecordsStopped(msgspec.Struct, frozen=True):
    """A `StopRecords` is done; the logs of the `clean` log directories need no recovery."""

    clean: tuple[str, ...]


RecordsEvent = RecordsAsked | RecordsReady | RecordsAlive | RecordsDirectoryFailed | RecordsStopped
"""Events of a node with a `RecordsPort`."""
RareEvent = (
    Started
    | ConnectionOpened
    | ConnectionUsed
    | ConnectionClosed
    | PeerConnected
    | PeerDisconnected
    | LocalChangesDone
    | SnapshotDone
    | ShutdownRequested
    | RecordsEvent
)
"""Events of a node that do not come with every request."""
Event = (
    Started
    | ConnectionOpened
    | BytesReceived
    | ConnectionUsed
    | ConnectionClosed
    | PeerConnected
    | PeerBytes
    | PeerDisconnected
    | FlushDone
    | LocalChangesDone
    | SnapshotDone
    | TimeAdvanced
    | ShutdownRequested
    | RecordsEvent
    | ReadAsked
)
