"""Effects of a node, which its driver performs in the order of the step."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from metadata.delta import MetadataDelta
from metadata.image import Image
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
from raft.fetching.reads import ReadRefusal
from wire.types import BrokerEpoch

__all__ = [
    "AnswerRead",
    "AnswerRecords",
    "CloseConnection",
    "ClosePeer",
    "ConnectPeer",
    "Effect",
    "Exit",
    "Log",
    "LogLevel",
    "Plan",
    "PublishImage",
    "RecordsEffect",
    "RunFlush",
    "RunLocalChanges",
    "RunSnapshot",
    "SendBytes",
    "SendPeerBytes",
    "SetReading",
    "StopRecords",
    "TellBrokerEpoch",
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


class AnswerRead(msgspec.Struct, frozen=True):
    """Answer a `ReadAsked`: the image is linearizable now, unless there is a refusal."""

    token: int
    refusal: ReadRefusal | None = None


class Exit(msgspec.Struct, frozen=True):
    """End the process with `code`; no effect follows."""

    code: int
    reason: str


class PublishImage(msgspec.Struct, frozen=True):
    """Give the records the next committed image.

    The first one holds the registration of this process, and its delta names all that is in it. A
    delta names at least what differs from the image given before; nobody changes it any more.
    """

    image: Image
    delta: MetadataDelta


class TellBrokerEpoch(msgspec.Struct, frozen=True):
    """Tell the records that the broker has registered: before or after the first image."""

    epoch: BrokerEpoch


class AnswerRecords(msgspec.Struct, frozen=True):
    """Answer a `RecordsAsked`: a response body of the newest shape, None if there is none.

    Without a known controller the answer is None in the same step.
    """

    token: int
    answer: object | None


class StopRecords(msgspec.Struct, frozen=True):
    """Close the logs, then report RecordsStopped. No image follows."""


RecordsEffect = PublishImage | TellBrokerEpoch | AnswerRecords | StopRecords
"""Effects of a node with a `RecordsPort`."""
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
    | AnswerRead
    | Log
    | Exit
    | RecordsEffect
)
