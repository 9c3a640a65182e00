"""The raft requests and responses as plain values.

`kernel/quorum/messages/` maps them to kio bodies, one module for each. Fetch, the most frequent,
has one type on the wire and here: `wire/messages/fetch_messages.py`.

Versions and topic wrapping stay outside: a message is about the one metadata partition. A field
that an older version cannot carry has the protocol's default value.
Source: KIP-595, KIP-853, KIP-996; apache/kafka: clients/.../common/message/*.json (4.3).
"""

from typing import final

import msgspec

from wire.messages.fetch_messages import HIGH_WATERMARK_UNSUPPORTED, FetchRequest, FetchResponse
from wire.types import (
    DirectoryId,
    Endpoint,
    LeaderEpoch,
    NodeId,
    Offset,
    OffsetAndEpoch,
    ReplicaKey,
)

__all__ = [
    "HIGH_WATERMARK_UNSUPPORTED",
    "AddVoterRequest",
    "AddVoterResponse",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "BeginQuorumEpochRequest",
    "BeginQuorumEpochResponse",
    "DescribeQuorumRequest",
    "DescribeQuorumResponse",
    "EndQuorumEpochRequest",
    "EndQuorumEpochResponse",
    "FetchRequest",
    "FetchResponse",
    "FetchSnapshotRequest",
    "FetchSnapshotResponse",
    "LeaderResponse",
    "RaftRequest",
    "RaftResponse",
    "RemoveVoterRequest",
    "RemoveVoterResponse",
    "ReplicaState",
    "TransferLeadershipRequest",
    "TransferLeadershipResponse",
    "UpdateVoterRequest",
    "UpdateVoterResponse",
    "VoteRequest",
    "VoteResponse",
]


class VoteRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Vote 0-2. `last_end_offset`, LastOffset on the wire, is the candidate's log END offset."""

    cluster_id: str | None
    voter_id: NodeId | None
    voter_directory_id: DirectoryId | None
    replica_id: NodeId
    replica_directory_id: DirectoryId | None
    replica_epoch: LeaderEpoch
    last_epoch: LeaderEpoch
    last_end_offset: Offset
    pre_vote: bool


class BeginQuorumEpochRequest(msgspec.Struct, frozen=True, kw_only=True):
    """BeginQuorumEpoch 0-1."""

    cluster_id: str | None
    voter_id: NodeId | None
    voter_directory_id: DirectoryId | None
    leader_id: NodeId
    leader_epoch: LeaderEpoch
    leader_endpoints: tuple[Endpoint, ...] = ()


class EndQuorumEpochRequest(msgspec.Struct, frozen=True, kw_only=True):
    """EndQuorumEpoch 0-1; preferred candidates in descending order of preference."""

    cluster_id: str | None
    leader_id: NodeId
    leader_epoch: LeaderEpoch
    preferred_candidates: tuple[ReplicaKey, ...]


class FetchSnapshotRequest(msgspec.Struct, frozen=True, kw_only=True):
    """FetchSnapshot 0-1."""

    cluster_id: str | None
    replica_id: NodeId | None
    replica_directory_id: DirectoryId | None
    current_leader_epoch: LeaderEpoch
    snapshot_id: OffsetAndEpoch
    position_bytes: int
    max_bytes: int


class AddVoterRequest(msgspec.Struct, frozen=True, kw_only=True):
    """AddRaftVoter 0-1; its time-out is not used, as in Kafka."""

    cluster_id: str | None
    voter_id: int
    directory_id: DirectoryId | None
    endpoints: tuple[Endpoint, ...]
    ack_when_committed: bool = True


class RemoveVoterRequest(msgspec.Struct, frozen=True, kw_only=True):
    """RemoveRaftVoter 0."""

    cluster_id: str | None
    voter_id: int
    directory_id: DirectoryId | None


class UpdateVoterRequest(msgspec.Struct, frozen=True, kw_only=True):
    """UpdateRaftVoter 0: a voter describes itself to the leader."""

    cluster_id: str | None
    current_leader_epoch: LeaderEpoch
    voter_id: int
    directory_id: DirectoryId | None
    endpoints: tuple[Endpoint, ...]
    kraft_version_min: int
    kraft_version_max: int


class ApiVersionsRequest(msgspec.Struct, frozen=True):
    """ApiVersions, sent to a new voter for its range of kraft.version."""


class DescribeQuorumRequest(msgspec.Struct, frozen=True, kw_only=True):
    """DescribeQuorum 0-2 of the metadata partition."""


class TransferLeadershipRequest(msgspec.Struct, frozen=True, kw_only=True):
    """AlterPartitionReassignments of the metadata partition: its first replica is to lead."""

    replicas: tuple[int, ...]
    """The voters in any order, but for the first: the next leader."""
    timeout_ms: int


class VoteResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Response to Vote; `error_code` is the partition's, `top_error_code` the top-level one."""

    error_code: int = 0
    top_error_code: int = 0
    leader_id: NodeId | None = None
    leader_epoch: LeaderEpoch = LeaderEpoch(0)
    vote_granted: bool = False
    leader_endpoint: Endpoint | None = None


class BeginQuorumEpochResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Response to BeginQuorumEpoch."""

    error_code: int = 0
    top_error_code: int = 0
    leader_id: NodeId | None = None
    leader_epoch: LeaderEpoch = LeaderEpoch(0)
    leader_endpoint: Endpoint | None = None


class EndQuorumEpochResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Response to EndQuorumEpoch."""

    error_code: int = 0
    top_error_code: int = 0
    leader_id: NodeId | None = None
    leader_epoch: LeaderEpoch = LeaderEpoch(0)
    leader_endpoint: Endpoint | None = None


class FetchSnapshotResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Response to FetchSnapshot: `chunk` starts at `position_bytes` of a file of `size_bytes`."""

    error_code: int = 0
    top_error_code: int = 0
    leader_id: NodeId | None = None
    leader_epoch: LeaderEpoch = LeaderEpoch(0)
    leader_endpoint: Endpoint | None = None
    snapshot_id: OffsetAndEpoch | None = None
    size_bytes: int = 0
    position_bytes: int = 0
    chunk: bytes = b""


class AddVoterResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Response to AddRaftVoter."""

    error_code: int = 0
    error_message: str | None = None


class RemoveVoterResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Response to RemoveRaftVoter."""

    error_code: int = 0
    error_message: str | None = None


class TransferLeadershipResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Response to a transfer, also of a transfer that succeeded in words."""

    error_code: int = 0
    error_message: str | None = None


class UpdateVoterResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Response to UpdateRaftVoter."""

    error_code: int = 0
    top_error_code: int = 0
    leader_id: NodeId | None = None
    leader_epoch: LeaderEpoch = LeaderEpoch(0)
    leader_endpoint: Endpoint | None = None


class ApiVersionsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Response to ApiVersions: the supported range of kraft.version; None if it is not named."""

    error_code: int = 0
    kraft_version: tuple[int, int] | None = None


class ReplicaState(msgspec.Struct, frozen=True, kw_only=True):
    """One replica in DescribeQuorum; -1 where unknown; timestamps are wall clock ms."""

    replica_id: NodeId
    directory_id: DirectoryId | None
    log_end_offset: int
    last_fetch_timestamp_ms: int
    last_caught_up_timestamp_ms: int


@final
class DescribeQuorumResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Response to DescribeQuorum."""

    error_code: int = 0
    leader_id: NodeId | None = None
    leader_epoch: LeaderEpoch = LeaderEpoch(0)
    high_watermark: int = -1
    voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()
    nodes: tuple[tuple[NodeId, Endpoint], ...] = ()


RaftRequest = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | DescribeQuorumRequest
    | AddVoterRequest
    | RemoveVoterRequest
    | UpdateVoterRequest
    | TransferLeadershipRequest
    | ApiVersionsRequest
)
LeaderResponse = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | UpdateVoterResponse
)
"""Responses of controllers to each other, which name the leader."""
RaftResponse = (
    LeaderResponse
    | DescribeQuorumResponse
    | AddVoterResponse
    | RemoveVoterResponse
    | TransferLeadershipResponse
    | ApiVersionsResponse
)
