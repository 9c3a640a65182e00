"""Input and output of the controller: requests, drafts, proposals, answers.

A manager works on a `Draft`: each emitted record is applied at once, so later checks include it.
The records (`Proposal`) and the image after them (`Pending`) are kept: nothing is applied twice.
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
from wire.messages.codec import Entity
from wire.types import LeaderEpoch, Offset

RECORDS_PER_BATCH_MAX: Final = 10_000
"""Limit of one atomic request (apache/kafka: QuorumController.MAX_RECORDS_PER_BATCH)."""

RECORDS_PER_SLICE_MAX: Final = 1_000
"""Limit of one turn of divisible work: keeps a turn within some milliseconds."""

NEWEST_VERSION: Final = 2**15 - 1
"""Placeholder for the newest version of an API."""

ANONYMOUS: Final = "User:ANONYMOUS"

_TRANSACTION_MARKERS: Final = (
    BeginTransactionRecord,
    EndTransactionRecord,
    AbortTransactionRecord,
)


class RequestContext(msgspec.Struct, frozen=True, kw_only=True):
    """The context of a request: caller, permissions, deadline; the kernel sets it."""

    may_describe_configs: bool = True
    deadline_ms: int | None = None
    """Monotonic ms of the answer REQUEST_TIMED_OUT; None for the time-out in the body."""
    api_version: int = NEWEST_VERSION
    """Version of the request as the client sent it; bodies have the newest shape."""
    is_forwarded: bool = False
    """True if a broker forwarded it, after the checks that only a broker can make."""
    principal: str = ANONYMOUS
    """The caller as `type:name`."""
    client_id: str = ""
    """Client id in the header of the request; empty when it has none."""
    client_host: str = "127.0.0.1"
    """IP address of the client as text, in the form of ACLs."""


class ControllerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One RPC for the active controller; its `Answer` has the same `reply_token`."""

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
    """Records of an unfinished request, and the image after them.

    Invariant: `image` is the base image with `records` applied from `base_offset` on. Earlier
    batches (`parts`) are included in the base image.
    """

    __slots__ = ("base_offset", "delta", "image", "parts", "records")

    def __init__(self, image: Image, base_offset: Offset) -> None:
        assert base_offset >= 0, f"{base_offset=}"
        self.image = image
        self.base_offset = base_offset
        self.delta = MetadataDelta()
        self.records: list[Record] = []
        self.parts: list[DraftPart] = []
        """Full batches before `records`; only requests that are not atomic have any."""

    def cut_if_full(self) -> None:
        """Start another batch if this one is full."""
        if len(self.records) >= RECORDS_PER_BATCH_MAX:
            self.parts.append(DraftPart(self.base_offset, self.records, self.image, self.delta))
            self.base_offset = self.end_offset
            self.records = []
            self.delta = MetadataDelta()

    def emit(self, record: Record) -> None:
        """Append and apply a record; one that cannot be applied is a bug and raises."""
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
    """Records to append as one batch; raft must assign the same base offset."""

    epoch: LeaderEpoch
    base_offset: Offset
    records: tuple[Record, ...]


class Pending(msgspec.Struct, frozen=True, gc=False):
    """A proposed batch: `image` is the image of all records below `end_offset`."""

    end_offset: Offset
    image: Image
    delta: MetadataDelta


class Output(msgspec.Struct):
    """Proposals and answers for the kernel: propose in order, then answer."""

    proposals: list[Proposal] = msgspec.field(default_factory=list)
    answers: list[Answer] = msgspec.field(default_factory=list)
    kraft_version: int | None = None
    """Level that raft raises before the proposals; their offsets are those behind its records."""
