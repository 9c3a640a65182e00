"""Effects of the raft core. The order is part of the meaning: persist, then send, then notify.

INV-DURABLE-1: no SendEffect of a step leaves before every PersistEffect of that step is durable
(`PersistElection`) or written (`AppendBatch`, `AppendFetched`, whose durability is reported later
by `Flushed`).
"""

from typing import final

import msgspec

from raft.elections.leader_loss import LeaderLoss
from raft.fetching.reads import ReadRefusal
from raft.membership.voter_history import Membership
from raft.membership.voters import VoterSet
from raft.messages import FetchRequest, RaftRequest, RaftResponse
from wire.types import (
    Endpoint,
    LeaderAndEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    OffsetAndEpoch,
    ReplicaKey,
)


class PersistElection(msgspec.Struct, frozen=True, kw_only=True):
    """Write quorum-state durably (tmp, fsync, rename, fsync directory) before any send."""

    epoch: LeaderEpoch
    leader_id: NodeId | None
    voted_key: ReplicaKey | None


class RemoveUnprovenMark(msgspec.Struct, frozen=True):
    """Remove the mark of an unproven voter (elections/proof.py), durably, before any send.

    A mark that a crash brings back is harmless: the voter is proven once more.
    """


class AppendLeaderChange(msgspec.Struct, frozen=True, kw_only=True):
    """Append the one control batch that starts an epoch: LeaderChange at `base_offset`, and more.

    With a membership its KRaftVersionRecord and VotersRecord follow (KIP-853).
    """

    base_offset: Offset
    epoch: LeaderEpoch
    leader_id: NodeId
    voters: tuple[NodeId, ...]
    granting_voters: tuple[NodeId, ...]
    membership: Membership | None = None


class AppendVoters(msgspec.Struct, frozen=True, kw_only=True):
    """Append one control batch with a VotersRecord, after a KRaftVersionRecord for a new level."""

    base_offset: Offset
    epoch: LeaderEpoch
    voters: VoterSet
    kraft_version: int | None = None


class AppendBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Append one data batch of framed records at `base_offset` in `epoch`."""

    base_offset: Offset
    epoch: LeaderEpoch
    values: tuple[bytes, ...]


@final
class AppendFetched(msgspec.Struct, frozen=True, kw_only=True):
    """Append batches fetched from the leader; skip those of an epoch above `epoch`.

    The driver answers with Appended (and, when flush is True, later Flushed), even when nothing
    could be appended, so that the next fetch can be sent.
    """

    base_offset: Offset
    epoch: LeaderEpoch
    records: bytes
    flush: bool


class TruncateLog(msgspec.Struct, frozen=True, kw_only=True):
    """Truncate the log to `end_offset` (exclusive); truncation `generation` begins."""

    end_offset: Offset
    generation: int


class WriteSnapshotChunk(msgspec.Struct, frozen=True, kw_only=True):
    """Write a chunk of a snapshot that is being fetched; `done` = freeze, rename, truncate log.

    The driver answers SnapshotInstalled when done, and SnapshotRefused for any chunk that it could
    not store.
    """

    snapshot_id: OffsetAndEpoch
    position_bytes: int
    chunk: bytes
    done: bool
    generation: int


@final
class SendRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Send a raft request to a node; it ends with ResponseReceived or RequestFailed."""

    destination_id: NodeId
    correlation_id: int
    request: RaftRequest
    endpoint: Endpoint | None = None
    """Address to send to; None = as configured (kraft.version 0) or as before."""


@final
class SendResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Send the response to a request."""

    reply_token: int
    response: RaftResponse


@final
class ReadAndSendFetch(msgspec.Struct, frozen=True, kw_only=True):
    """Answer a Fetch with stored batches from its offset: max_bytes, but at least one batch."""

    reply_token: int
    request: FetchRequest
    response: RaftResponse
    """A FetchResponse; the driver fills its `records` from the log."""


class ReadAndSendSnapshotChunk(msgspec.Struct, frozen=True, kw_only=True):
    """Answer FetchSnapshot with raw bytes of the snapshot file.

    The driver has the file: it answers POSITION_OUT_OF_RANGE to a position outside it, and
    SNAPSHOT_NOT_FOUND if there is none.
    """

    reply_token: int
    snapshot_id: OffsetAndEpoch
    position_bytes: int
    max_bytes: int
    response: RaftResponse


class HighWatermarkAdvanced(msgspec.Struct, frozen=True, kw_only=True):
    """Everything below `high_watermark` (exclusive) is committed."""

    high_watermark: Offset


class LeaderChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The known leader changed; `LeaderAndEpoch.leader_id` is None while there is none.

    An elected node gets this at its election; `Claimed` follows when it may act.
    """

    leader: LeaderAndEpoch
    loss: LeaderLoss | None = None
    """The loss as this replica saw it: the cause of the election.

    None for the leader of the epoch in which this replica started: there was no election.
    """
    leaderless_ms: int | None = None
    """Time from the noticed loss to the new leader; None without a leader, or if none was seen."""


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """The high watermark passed the start of `epoch`, which this node leads: activate now."""

    epoch: LeaderEpoch
    end_offset: Offset


class VotersAppended(msgspec.Struct, frozen=True, kw_only=True):
    """This leader has put a record of its own into the log: proposals go on at `end_offset`."""

    epoch: LeaderEpoch
    base_offset: Offset
    end_offset: Offset


class VoteWithheld(msgspec.Struct, frozen=True, kw_only=True):
    """This unproven voter refused a candidate with records; once while the process runs."""

    candidate_id: NodeId
    epoch: LeaderEpoch


class ReadIndexConfirmed(msgspec.Struct, frozen=True, kw_only=True):
    """Reads are linearizable of a state with all below `offset` (exclusive), or of a later one."""

    tokens: tuple[int, ...]
    offset: Offset


class ReadIndexRefused(msgspec.Struct, frozen=True, kw_only=True):
    """Reads cannot be linearizable at this node."""

    tokens: tuple[int, ...]
    reason: ReadRefusal


class ShutdownComplete(msgspec.Struct, frozen=True):
    """The process may end: this node leads nothing, and its resignation is done."""


PersistEffect = (
    PersistElection
    | RemoveUnprovenMark
    | AppendLeaderChange
    | AppendVoters
    | AppendBatch
    | AppendFetched
    | TruncateLog
    | WriteSnapshotChunk
)
SendEffect = SendRequest | SendResponse | ReadAndSendFetch | ReadAndSendSnapshotChunk
NotifyEffect = (
    HighWatermarkAdvanced
    | LeaderChanged
    | Claimed
    | VotersAppended
    | VoteWithheld
    | ReadIndexConfirmed
    | ReadIndexRefused
    | ShutdownComplete
)


class Effects(msgspec.Struct):
    """The effects of one step; a driver performs `persist` first, then `send`, then `notify`."""

    persist: list[PersistEffect] = msgspec.field(default_factory=list)
    send: list[SendEffect] = msgspec.field(default_factory=list)
    notify: list[NotifyEffect] = msgspec.field(default_factory=list)
