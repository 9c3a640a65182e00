"""What can happen to the raft core. Time comes beside each event as `now_ms` (monotonic)."""

from typing import final

import msgspec

from raft.messages import RaftRequest, RaftResponse
from wire.types import LeaderEpoch, NodeId, Offset, OffsetAndEpoch


@final
class TimeAdvanced(msgspec.Struct, frozen=True):
    """The clock moved; timers that are due run."""


@final
class RequestReceived(msgspec.Struct, frozen=True, kw_only=True):
    """A raft request of a peer or client; answered exactly once through `reply_token`."""

    reply_token: int
    request: RaftRequest
    wall_ms: int = 0


@final
class ResponseReceived(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a SendRequest effect; stale correlation ids are ignored by the core."""

    destination_id: NodeId
    correlation_id: int
    response: RaftResponse


@final
class RequestFailed(msgspec.Struct, frozen=True, kw_only=True):
    """No answer came: BROKER_NOT_AVAILABLE, UNSUPPORTED_VERSION or NETWORK_EXCEPTION."""

    destination_id: NodeId
    correlation_id: int
    error_code: int


class LeaderUnreachable(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence of failure: connection closed and a reconnect refused on every resolved address.

    `leader_id` and `epoch` are those followed when the connection closed; a stale one is dropped.
    """

    leader_id: NodeId
    epoch: LeaderEpoch


@final
class Propose(msgspec.Struct, frozen=True, kw_only=True):
    """Append one atomic batch; `values` are framed metadata records, opaque to raft."""

    epoch: LeaderEpoch
    values: tuple[bytes, ...]


class EpochStart(msgspec.Struct, frozen=True, gc=False):
    """An epoch and the offset of its first record, as seen by the log when it appended."""

    epoch: LeaderEpoch
    start_offset: Offset


@final
class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """The log wrote (not yet flushed) up to `end_offset`; `epochs` are the epochs that began."""

    end_offset: Offset
    last_epoch: LeaderEpoch
    generation: int
    epochs: tuple[EpochStart, ...] = ()
    is_disk_full: bool = False
    """Nothing of what was fetched could be written: DiskFull, and fetch again after a pause."""


@final
class Flushed(msgspec.Struct, frozen=True, kw_only=True):
    """All below `end_offset` is durable. Ignored when epoch or truncation generation is stale."""

    end_offset: Offset
    epoch: LeaderEpoch
    generation: int


class SnapshotAdded(msgspec.Struct, frozen=True, kw_only=True):
    """A local snapshot was frozen; `log_start_offset` is the log start now."""

    snapshot_id: OffsetAndEpoch
    log_start_offset: Offset


class SnapshotInstalled(msgspec.Struct, frozen=True, kw_only=True):
    """A fetched snapshot was renamed into place and the log fully truncated to it."""

    snapshot_id: OffsetAndEpoch
    generation: int


class SnapshotRefused(msgspec.Struct, frozen=True, kw_only=True):
    """A fetched chunk or snapshot could not be kept: damaged, or the disk is full.

    Nothing of it stays, the log is as before; the node fetches again after a pause.
    """

    snapshot_id: OffsetAndEpoch


class ResignRequested(msgspec.Struct, frozen=True, kw_only=True):
    """The controller wants to give up leadership of `epoch` (a fault in its own state)."""

    epoch: LeaderEpoch


class DiskFull(msgspec.Struct, frozen=True):
    """The disk refuses appends, or does so from the start; quorum-state can still be written.

    A leader that is not alone resigns; a voter that is not alone votes, and does not stand. What it
    had to append as leader is dropped; a sole voter's is written later.
    """


class DiskHasSpace(msgspec.Struct, frozen=True):
    """The disk takes appends again, and has taken what it refused before."""


class ShutdownRequested(msgspec.Struct, frozen=True):
    """SIGTERM: a leader resigns and hands over; followers finish at once."""


Event = (
    TimeAdvanced
    | RequestReceived
    | ResponseReceived
    | RequestFailed
    | LeaderUnreachable
    | Propose
    | Appended
    | Flushed
    | SnapshotAdded
    | SnapshotInstalled
    | SnapshotRefused
    | ResignRequested
    | DiskFull
    | DiskHasSpace
    | ShutdownRequested
)
