"""Effects of a node, which its driver performs in the order of the step."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from network.effects import (
    CloseConnection,
    ClosePeer,
    ConnectPeer,
    Log,
    LogLevel,
    SendBytes,
    SendPeerBytes,
    SetReading,
)

__all__ = [
    "CloseConnection",
    "ClosePeer",
    "ConnectPeer",
    "Effect",
    "Exit",
    "Log",
    "LogLevel",
    "Plan",
    "RunFlush",
    "RunLocalChanges",
    "RunSnapshot",
    "SendBytes",
    "SendPeerBytes",
    "SetReading",
]


class Plan(Protocol):
    """A flush that any thread may run; `storage.logs.log.FlushPlan` is one."""

    def run(self) -> object:
        """Make the plan's part of the log durable, or raise."""
        ...


class RunFlush(msgspec.Struct, frozen=True):
    """Run the plan off the step thread, then report FlushDone. At most one is outstanding.

    `has_followers`: the node leads other voters, which may have the records durable before it has.
    """

    token: int
    plan: Plan
    has_followers: bool


class RunLocalChanges(msgspec.Struct, frozen=True):
    """Run directory changes off the step thread, then report LocalChangesDone. One at a time."""

    token: int
    work: Callable[[], None]


class RunSnapshot(msgspec.Struct, frozen=True):
    """Sync and rename a snapshot off the step thread, then report SnapshotDone. One at a time.

    An error is fatal, as in a flush.
    """

    token: int
    work: Callable[[], None]


class Exit(msgspec.Struct, frozen=True):
    """End the process with `code`; no effect follows."""

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
