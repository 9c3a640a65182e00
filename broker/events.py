"""Events of the records of a broker, reported by its driver.

A connection to a broker listener belongs to both values of the node: here it is opened and read;
requests that are not about records go on to the kernel, which sees a connection of the same id and
answers in order. What the kernel does to that connection comes back as `Kernel...` events.
"""

from collections.abc import Sequence
from typing import final

import msgspec

from metadata.delta import MetadataDelta
from metadata.image import Image
from network.clock import Now
from network.events import (
    ConnectionClosed,
    ConnectionOpened,
    PeerBytes,
    PeerConnected,
    PeerDisconnected,
)
from wire.types import BrokerEpoch

__all__ = [
    "Answered",
    "BrokerEpochChanged",
    "ConnectionBroken",
    "ConnectionClosed",
    "ConnectionOpened",
    "Event",
    "FramesReceived",
    "ImagePublished",
    "KernelBytes",
    "KernelClosed",
    "Now",
    "PeerBytes",
    "PeerConnected",
    "PeerDisconnected",
    "StopRequested",
    "TimeAdvanced",
    "WorkDone",
]


@final
class FramesReceived(msgspec.Struct, frozen=True):
    """Whole frames of a connection, without their lengths; their memory is the broker's now."""

    connection_id: int
    frames: Sequence[bytearray]


class ConnectionBroken(msgspec.Struct, frozen=True):
    """The client sent a length that is no frame's: nothing behind it can be read."""

    connection_id: int
    reason: str


class KernelBytes(msgspec.Struct, frozen=True):
    """Bytes of the kernel for a client: responses with their lengths, in order, cut anywhere."""

    connection_id: int
    data: bytes
    spent_ns: int = 0
    """Time of the handlers of their requests."""


class KernelClosed(msgspec.Struct, frozen=True):
    """The kernel closed or refused the connection, behind the bytes that it sent before."""

    connection_id: int
    reason: str


class ImagePublished(msgspec.Struct, frozen=True):
    """The next committed image.

    The first is the one that holds the registration of this process, with a delta that names all
    that is in it.
    """

    image: Image
    delta: MetadataDelta


class BrokerEpochChanged(msgspec.Struct, frozen=True):
    """The broker has registered."""

    epoch: BrokerEpoch


class Answered(msgspec.Struct, frozen=True):
    """The answer to an `Ask`: a response body of the newest shape, None if there is none."""

    token: int
    answer: object | None


class WorkDone(msgspec.Struct, frozen=True):
    """The work of a `RunWork` has run; `error` is what it raised."""

    token: int
    error: BaseException | None = None


@final
class TimeAdvanced(msgspec.Struct, frozen=True):
    """Time passed; run the timers that are due."""


class StopRequested(msgspec.Struct, frozen=True):
    """The controlled shutdown is over: close the logs, then `Stopped`."""


Event = (
    ConnectionOpened
    | FramesReceived
    | ConnectionBroken
    | ConnectionClosed
    | KernelBytes
    | KernelClosed
    | PeerConnected
    | PeerBytes
    | PeerDisconnected
    | ImagePublished
    | BrokerEpochChanged
    | Answered
    | WorkDone
    | TimeAdvanced
    | StopRequested
)
