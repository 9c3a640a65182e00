"""What goes into the controller and what comes out: requests, drafts, proposals, answers.

A manager works on a `Draft`: each record it emits is applied at once, so the next check sees it.
The records and the image they lead to leave together (`Proposal`): nothing is applied twice.
"""

from collections.abc import Hashable
from typing import Any, Final

import msgspec

from metadata.apply import apply
from metadata.delta import MetadataDelta
from metadata.image import Image
from metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    Record,
)
from wire.codec import Entity
from wire.types import LeaderEpoch, Offset

RECORDS_PER_BATCH_MAX: Final = 10_000
"""Records of one atomic request (apache/kafka: QuorumController.MAX_RECORDS_PER_BATCH)."""

RECORDS_PER_SLICE_MAX: Final = 1_000
"""Records of one turn of work that may be cut: keeps one turn within some milliseconds."""

NEWEST_VERSION: Final = 2**15 - 1
"""Stands for the newest version of an API, whichever that is."""

ANONYMOUS: Final = "User:ANONYMOUS"

_TRANSACTION_MARKERS: Final = (
    BeginTransactionRecord,
    EndTransactionRecord,
    AbortTransactionRecord,
)


class RequestContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller may see and for how long it waits; the kernel fills it from the header."""

    may_describe_configs: bool = True
    deadline_ms: int | None = None
    """Monotonic ms when the answer is REQUEST_TIMED_OUT; None takes the time-out of the body."""
    api_version: int = NEWEST_VERSION
    """Of the request as the client sent it; bodies have the newest shape."""
    is_forwarded: bool = False
    """It came through a broker, which has checked what only it can know."""
    principal: str = ANONYMOUS
    """Who asks, as `type:name`."""
    client_id: str = ""
    """From the header of the request; empty when it has none."""
    client_host: str = "127.0.0.1"
    """IP address of the client as text, as ACLs have it."""


class ControllerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One RPC for the active controller; `reply_token` comes back in its `Answer`."""

    api_key: int
    body: Any
    reply_token: Hashable
    context: RequestContext = RequestContext()


class Answer(msgspec.Struct, frozen=True):
    """The response body (kio's newest class) of the request with this token."""

    reply_token: Hashable
    body: Entity


class DraftPart(msgspec.Struct, frozen=True):
    """A batch of a draft: its records and the image after them."""

    base_offset: Offset
    records: list[Record]
    image: Image
    delta: MetadataDelta


class Draft:
    """Records being made, and the image after them.

    Invariant: `image` is the base image with `records` applied at `base_offset` onwards. What was
    cut off before (`parts`) is part of the base image.
    """

    __slots__ = ("base_offset", "delta", "image", "parts", "records")

    def __init__(self, image: Image, base_offset: Offset) -> None:
        assert base_offset >= 0, f"{base_offset=}"
        self.image = image
        self.base_offset = base_offset
        self.delta = MetadataDelta()
        self.records: list[Record] = []
        self.parts: list[DraftPart] = []
        """Full batches that come before `records`; only work that is no atomic unit has any."""

    def cut_if_full(self) -> None:
        """Let the next record begin another batch if this one can take no more."""
        if len(self.records) >= RECORDS_PER_BATCH_MAX:
            self.parts.append(DraftPart(self.base_offset, self.records, self.image, self.delta))
            self.base_offset = self.end_offset
            self.records = []
            self.delta = MetadataDelta()

    def emit(self, record: Record) -> None:
        """Append the record and apply it; a record that cannot be applied is a bug and raises."""
        assert not isinstance(record, _TRANSACTION_MARKERS), "markers never reach the image"
        offset = Offset(self.base_offset + len(self.records))
        self.image = apply(self.image, record, offset, self.delta)
        self.records.append(record)

    def emit_marker(self, record: Record) -> None:
        """Append a transaction marker, which changes no image."""
        assert isinstance(record, _TRANSACTION_MARKERS), f"{type(record)=}"
        self.records.append(record)

    @property
    def end_offset(self) -> Offset:
        """Offset of the next record."""
        return Offset(self.base_offset + len(self.records))


class Proposal(msgspec.Struct, frozen=True):
    """Records to append as one batch; the base offset must be what raft assigns."""

    epoch: LeaderEpoch
    base_offset: Offset
    records: tuple[Record, ...]


class Pending(msgspec.Struct, frozen=True, gc=False):
    """A proposed batch: everything below `end_offset` leads to `image`."""

    end_offset: Offset
    image: Image
    delta: MetadataDelta


class Output(msgspec.Struct):
    """What the kernel must do now: propose in order, then answer."""

    proposals: list[Proposal] = msgspec.field(default_factory=list)
    answers: list[Answer] = msgspec.field(default_factory=list)
