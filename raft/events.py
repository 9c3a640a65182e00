"""Events of the raft core. Time is passed beside each event as `now_ms` (monotonic)."""

from typing import final

import msgspec

from raft.membership.voter_history import Membership, VoterRecord
from raft.messages import RaftRequest, RaftResponse
from wire.types import LeaderEpoch, NodeId, Offset, OffsetAndEpoch


@final
class TimeAdvanced(msgspec.Struct, frozen=True):
    """Time passed; run the timers that are due."""


@final
class RequestReceived(msgspec.Struct, frozen=True, kw_only=True):
    """A raft request from a peer or client; answered exactly once through `reply_token`."""

    reply_token: int
    request: RaftRequest
    wall_ms: int = 0
    connection_id: int | None = None
    """Connection on which it came, of which no two ever share an id; None if it came on none."""


@final
class ResponseReceived(msgspec.Struct, frozen=True, kw_only=True):
    """The response to a SendRequest effect; the core ignores stale correlation ids."""

    destination_id: NodeId
    correlation_id: int
    response: RaftResponse


@final
class RequestFailed(msgspec.Struct, frozen=True, kw_only=True):
    """A request without response: BROKER_NOT_AVAILABLE, UNSUPPORTED_VERSION, NETWORK_EXCEPTION."""

    destination_id: NodeId
    correlation_id: int
    error_code: int


class LeaderUnreachable(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence of failure: connection closed and a reconnect refused on every resolved address.

    `leader_id` and `epoch` are those followed when the connection closed; stale events are dropped.
    """

    leader_id: NodeId
    epoch: LeaderEpoch


@final
class Propose(msgspec.Struct, frozen=True, kw_only=True):
    """Append one atomic batch; `values` are framed metadata records, opaque to raft."""

    epoch: LeaderEpoch
    values: tuple[bytes, ...]


@final
class RaiseKRaftVersion(msgspec.Struct, frozen=True, kw_only=True):
    """Append the record of a new level, and that of the voters as they described themselves.

    `RaftCore.raise_refusal` was None when this was decided.
    """

    epoch: LeaderEpoch
    level: int


@final
class ReadIndexRequested(msgspec.Struct, frozen=True):
    """A linearizable read begins; it ends as ReadIndexConfirmed or ReadIndexRefused."""

    token: int


class EpochStart(msgspec.Struct, frozen=True, gc=False):
    """An epoch and the offset of its first record in the log."""

    epoch: LeaderEpoch
    start_offset: Offset


@final
class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """The log is written (not yet flushed) up to `end_offset`; `epochs` began in the append."""

    end_offset: Offset
    last_epoch: LeaderEpoch
    generation: int
    epochs: tuple[EpochStart, ...] = ()
    voter_records: tuple[VoterRecord, ...] = ()
    """Voters and levels of the control records in the append, ascending by offset."""
    is_disk_full: bool = False
    """True if none of the fetched records could be written: as DiskFull, and fetching pauses."""


@final
class Flushed(msgspec.Struct, frozen=True, kw_only=True):
    """Everything below `end_offset` is durable; a stale truncation generation is ignored.

    A leader also ignores a flush planned in an older epoch.
    """

    end_offset: Offset
    epoch: LeaderEpoch
    generation: int


class SnapshotAdded(msgspec.Struct, frozen=True, kw_only=True):
    """A local snapshot was frozen; `log_start_offset` is the current log start."""

    snapshot_id: OffsetAndEpoch
    log_start_offset: Offset


class SnapshotInstalled(msgspec.Struct, frozen=True, kw_only=True):
    """A fetched snapshot was renamed into place and the log fully truncated to it."""

    snapshot_id: OffsetAndEpoch
    generation: int
    membership: Membership = Membership()
    """Level and voters that the snapshot has."""
    is_disk_full: bool = False
    """True if the blocks were those of the reserve: as DiskFull."""


class SnapshotRefused(msgspec.Struct, frozen=True, kw_only=True):
    """A fetched chunk or snapshot could not be stored: damaged, or the disk is full.

    Its partial file is removed, the log is unchanged; the node fetches again after a pause.
    """

    snapshot_id: OffsetAndEpoch
    is_disk_full: bool = False
    """True if the disk is full: as DiskFull."""


class ResignRequested(msgspec.Struct, frozen=True, kw_only=True):
    """The controller asks to resign the leadership of `epoch` (a fault in its own state)."""

    epoch: LeaderEpoch


class DiskFull(msgspec.Struct, frozen=True):
    """The disk refuses appends, or does so from the start; quorum-state can still be written.

    With other voters a leader resigns and drops the refused appends, and a voter votes but does not
    campaign. A sole voter stays leader and writes them later.
    """


class DiskHasSpace(msgspec.Struct, frozen=True):
    """The disk accepts appends again, and those that it refused before are written."""


class ShutdownRequested(msgspec.Struct, frozen=True):
    """SIGTERM: a leader resigns, and waits for its successor; followers finish at once."""


class QuorumGone(msgspec.Struct, frozen=True):
    """The processes of so many voters have ended that no leader can be elected.

    A node that shuts down waits no longer. Another goes on: they may come back.
    """


Event = (
    TimeAdvanced
    | RequestReceived
    | ResponseReceived
    | RequestFailed
    | LeaderUnreachable
    | Propose
    | RaiseKRaftVersion
    | ReadIndexRequested
    | Appended
    | Flushed
    | SnapshotAdded
    | SnapshotInstalled
    | SnapshotRefused
    | ResignRequested
    | DiskFull
    | DiskHasSpace
    | ShutdownRequested
    | QuorumGone
)
