"""Effects of the records of a broker, which its driver performs in the order of the step."""

from collections.abc import Callable
from enum import Enum
from typing import Protocol

import msgspec

from network.effects import (
    CloseConnection,
    ClosePeer,
    ConnectPeer,
    Log,
    LogLevel,
    SendPeerBytes,
    SetReading,
)
from storage.segments.file_slice import FileSlice
from wire.messages.codec import Entity

__all__ = [
    "Ask",
    "CloseAtKernel",
    "CloseConnection",
    "ClosePeer",
    "ConnectPeer",
    "DirectoryFailed",
    "Effect",
    "EffectSink",
    "Lane",
    "Log",
    "LogLevel",
    "OpenAtKernel",
    "Part",
    "Ready",
    "RunWork",
    "SendParts",
    "SendPeerBytes",
    "SendToKernel",
    "SetReading",
    "Stopped",
    "UsedAtKernel",
]

Part = bytes | FileSlice
"""A part of what is sent; the handle of a slice is closed when it is sent or dropped."""


class SendParts(msgspec.Struct, frozen=True):
    """Write to an incoming connection; dropped if it has closed.

    A slice whose bytes cannot all be read any more, by truncation, ends the connection.
    """

    connection_id: int
    parts: tuple[Part, ...]
    sent: Callable[[int, int], None] | None = None
    """Called once with the times, on the clock of the requests and in nanoseconds, at which the
    driver took the parts and at which the last byte had left or the connection had ended."""


class OpenAtKernel(msgspec.Struct, frozen=True):
    """Tell the kernel of a connection; it may refuse it."""

    connection_id: int
    listener: str
    client_host: str


class SendToKernel(msgspec.Struct, frozen=True):
    """Give the kernel bytes of a connection: whole frames with their lengths."""

    connection_id: int
    data: bytes


class UsedAtKernel(msgspec.Struct, frozen=True):
    """Tell the kernel, now and then, that a connection is not idle though it sends nothing."""

    connection_id: int


class CloseAtKernel(msgspec.Struct, frozen=True):
    """Tell the kernel that a connection has closed."""

    connection_id: int


class Ask(msgspec.Struct, frozen=True):
    """Send a request to the active controller; the `Answered` has its token."""

    token: int
    api_key: int
    body: Entity


class Lane(Enum):
    """Threads of the driver; the work of a lane with the same name runs in order, one at a time."""

    LOADING = "loading"
    """Opening of logs; named by log directory and number of thread."""
    FLUSH = "flush"
    """Syncs; named by log directory."""
    FILES = "files"
    """Creation and removal of files and directories; named by log directory."""
    CLEANER = "cleaner"
    """Rounds of the log cleaner; named by number of thread."""
    MOVES = "moves"
    """Copying of replicas to other log directories; named by number of thread."""
    CODEC = "codec"
    """Compression of batches; there is one."""


class RunWork(msgspec.Struct, frozen=True):
    """Run work off the step thread, then report WorkDone."""

    token: int
    lane: Lane
    name: str
    work: Callable[[], object]


class Ready(msgspec.Struct, frozen=True):
    """The logs are loaded and the first image is applied: the broker may be unfenced."""


class Alive(msgspec.Struct, frozen=True):
    """The thread of the records takes steps."""


class DirectoryFailed(msgspec.Struct, frozen=True):
    """A log directory is offline; with the last one the node ends."""

    path: str
    reason: str
    is_last: bool


class Stopped(msgspec.Struct, frozen=True):
    """All logs are closed; those of the `clean` log directories need no recovery."""

    clean: tuple[str, ...]


Effect = (
    SendParts
    | CloseConnection
    | SetReading
    | OpenAtKernel
    | SendToKernel
    | UsedAtKernel
    | CloseAtKernel
    | ConnectPeer
    | SendPeerBytes
    | ClosePeer
    | Ask
    | RunWork
    | Ready
    | Alive
    | DirectoryFailed
    | Stopped
    | Log
)


class EffectSink(Protocol):
    """A receiver of effects in order."""

    def append(self, effect: Effect, /) -> None:
        """Add the next effect."""
        ...
