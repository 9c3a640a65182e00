"""What a node asks its driver to do, in the order in which a step wants it done."""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Protocol

import msgspec


class LogLevel(IntEnum):
    """How loud a log line is."""

    DEBUG = 10
    INFO = 20
    WARN = 30
    ERROR = 40


class Plan(Protocol):
    """A flush that any thread may run; `storage.log.FlushPlan` is one."""

    def run(self) -> object:
        """Make durable what the plan covers, or raise."""
        ...


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


class RunFlush(msgspec.Struct, frozen=True):
    """Run the plan off the step thread, then report FlushDone. At most one is outstanding.

    `has_followers`: of a leader with other voters, who may have the records durable before it has.
    """

    token: int
    plan: Plan
    has_followers: bool


class RunLocalChanges(msgspec.Struct, frozen=True):
    """Run folder work off the step thread, then report LocalChangesDone. One at a time."""

    token: int
    work: Callable[[], None]


class RunSnapshot(msgspec.Struct, frozen=True):
    """Sync and rename a snapshot off the step thread, then report SnapshotDone. One at a time.

    An error is fatal, as that of a flush.
    """

    token: int
    work: Callable[[], None]


class Log(msgspec.Struct, frozen=True):
    """One line for people: an event name and its fields."""

    level: LogLevel
    event: str
    fields: Mapping[str, object] = msgspec.field(default_factory=dict)


class Exit(msgspec.Struct, frozen=True):
    """The node is done; nothing follows."""

    code: int
    reason: str


Effect = (
    SendBytes
    | CloseConnection
    | SetReading
    | ConnectPeer
    | SendPeerBytes
    | ClosePeer
    | RunFlush
    | RunLocalChanges
    | RunSnapshot
    | Log
    | Exit
)
