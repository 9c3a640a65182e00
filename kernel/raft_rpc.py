"""Raft messages <-> Kafka RPC bodies: the wrapping in topics and partitions, and nothing else.

A request that is not about exactly partition 0 of `__cluster_metadata` never reaches the core:
`request_of` gives None and `refusal_body` is the answer (KIP-595, "prologue").
"""

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from kernel import raft_answers
from raft import messages as raft
from wire import codec
from wire.api_keys import (
    BEGIN_QUORUM_EPOCH,
    DESCRIBE_QUORUM,
    END_QUORUM_EPOCH,
    FETCH,
    FETCH_SNAPSHOT,
    VOTE,
)
from wire.metadata_fetch import MetadataFetch
from wire.types import (
    METADATA_TOPIC_NAME,
    DirectoryId,
    Endpoint,
    LeaderEpoch,
    NodeId,
    Offset,
    OffsetAndEpoch,
)

RAFT_API_KEYS: Final = frozenset(
    {FETCH, VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, DESCRIBE_QUORUM, FETCH_SNAPSHOT}
)


# ---- requests that arrive ----------------------------------------------------------------------


def request_of(api_key: int, body: Any) -> raft.RaftRequest | None:
    """The raft message of a request body; None unless it is about the metadata partition."""
    if type(body) is MetadataFetch:
        return _fetch_request(body)
    partition = None if api_key == FETCH else _metadata_partition(api_key, body.topics)
    return None if partition is None else _REQUEST_OF[api_key](body, partition)


def _metadata_partition(api_key: int, topics: Any) -> Any | None:
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    topic, partition = topics[0], topics[0].partitions[0]
    if api_key == FETCH_SNAPSHOT:
        ours = topic.name == METADATA_TOPIC_NAME and partition.partition == 0
    else:
        ours = topic.topic_name == METADATA_TOPIC_NAME and partition.partition_index == 0
    return partition if ours else None


def _fetch_request(fetch: MetadataFetch) -> raft.FetchRequest:
    directory_id = fetch.replica_directory_id
    return raft.FetchRequest(
        cluster_id=fetch.cluster_id,
        replica_id=_node_id(fetch.replica_id),
        replica_directory_id=None if directory_id is None else DirectoryId(directory_id),
        current_leader_epoch=LeaderEpoch(fetch.current_leader_epoch),
        fetch_offset=Offset(fetch.fetch_offset),
        last_fetched_epoch=LeaderEpoch(fetch.last_fetched_epoch),
        max_wait_ms=fetch.max_wait_ms,
        max_bytes=fetch.max_bytes,
        high_watermark=fetch.high_watermark,
    )


def _vote_request(body: Any, partition: Any) -> raft.VoteRequest:
    return raft.VoteRequest(
        cluster_id=body.cluster_id,
        voter_id=_node_id(body.voter_id),
        voter_directory_id=_directory_id(partition.voter_directory_id),
        replica_id=NodeId(partition.replica_id),
        replica_directory_id=_directory_id(partition.replica_directory_id),
        replica_epoch=LeaderEpoch(partition.replica_epoch),
        last_epoch=LeaderEpoch(partition.last_offset_epoch),
        last_end_offset=Offset(partition.last_offset),
        pre_vote=partition.pre_vote,
    )


def _begin_request(body: Any, partition: Any) -> raft.BeginQuorumEpochRequest:
    return raft.BeginQuorumEpochRequest(
        cluster_id=body.cluster_id,
        voter_id=_node_id(body.voter_id),
        voter_directory_id=_directory_id(partition.voter_directory_id),
        leader_id=NodeId(partition.leader_id),
        leader_epoch=LeaderEpoch(partition.leader_epoch),
        leader_endpoints=tuple(
            Endpoint(endpoint.name.upper(), endpoint.host, endpoint.port)
            for endpoint in body.leader_endpoints
        ),
    )


def _end_request(body: Any, partition: Any) -> raft.EndQuorumEpochRequest:
    return raft.EndQuorumEpochRequest(
        cluster_id=body.cluster_id,
        leader_id=NodeId(partition.leader_id),
        leader_epoch=LeaderEpoch(partition.leader_epoch),
        preferred_candidates=tuple(
            NodeId(candidate.candidate_id) for candidate in partition.preferred_candidates
        ),
    )


def _describe_request(body: Any, partition: Any) -> raft.DescribeQuorumRequest:
    del body, partition
    return raft.DescribeQuorumRequest()


def _fetch_snapshot_request(body: Any, partition: Any) -> raft.FetchSnapshotRequest:
    return raft.FetchSnapshotRequest(
        cluster_id=body.cluster_id,
        replica_id=_node_id(body.replica_id),
        replica_directory_id=_directory_id(partition.replica_directory_id),
        current_leader_epoch=LeaderEpoch(partition.current_leader_epoch),
        snapshot_id=OffsetAndEpoch(
            Offset(partition.snapshot_id.end_offset), LeaderEpoch(partition.snapshot_id.epoch)
        ),
        position_bytes=partition.position,
        max_bytes=body.max_bytes,
    )


_REQUEST_OF: Final[dict[int, Callable[[Any, Any], raft.RaftRequest]]] = {
    VOTE: _vote_request,
    BEGIN_QUORUM_EPOCH: _begin_request,
    END_QUORUM_EPOCH: _end_request,
    DESCRIBE_QUORUM: _describe_request,
    FETCH_SNAPSHOT: _fetch_snapshot_request,
}


# ---- requests that leave -----------------------------------------------------------------------


def body_of_request(message: raft.RaftRequest) -> tuple[int, Any]:
    """The api key and the request body of a raft message; the core sends no DescribeQuorum."""
    api_key, body_of = _BODY_OF[type(message)]
    return api_key, body_of(message)


def _fetch_body(message: raft.FetchRequest) -> MetadataFetch:
    return MetadataFetch(
        cluster_id=message.cluster_id,
        replica_id=_wire_id(message.replica_id),
        replica_directory_id=message.replica_directory_id,
        current_leader_epoch=message.current_leader_epoch,
        fetch_offset=message.fetch_offset,
        last_fetched_epoch=message.last_fetched_epoch,
        max_wait_ms=message.max_wait_ms,
        max_bytes=message.max_bytes,
        high_watermark=message.high_watermark,
    )


def _vote_body(message: raft.VoteRequest) -> Any:
    new = codec.newest(VOTE, "request")
    partition = new.PartitionData(
        partition_index=0,
        replica_epoch=message.replica_epoch,
        replica_id=message.replica_id,
        replica_directory_id=_uuid(message.replica_directory_id),
        voter_directory_id=_uuid(message.voter_directory_id),
        last_offset_epoch=message.last_epoch,
        last_offset=message.last_end_offset,
        pre_vote=message.pre_vote,
    )
    return new.VoteRequest(
        cluster_id=message.cluster_id,
        voter_id=_wire_id(message.voter_id),
        topics=_one_topic(new, partition),
    )


def _begin_body(message: raft.BeginQuorumEpochRequest) -> Any:
    new = codec.newest(BEGIN_QUORUM_EPOCH, "request")
    partition = new.PartitionData(
        partition_index=0,
        voter_directory_id=_uuid(message.voter_directory_id),
        leader_id=message.leader_id,
        leader_epoch=message.leader_epoch,
    )
    return new.BeginQuorumEpochRequest(
        cluster_id=message.cluster_id,
        voter_id=_wire_id(message.voter_id),
        topics=_one_topic(new, partition),
        leader_endpoints=tuple(
            new.LeaderEndpoint(name=endpoint.listener, host=endpoint.host, port=endpoint.port)
            for endpoint in message.leader_endpoints
        ),
    )


def _end_body(message: raft.EndQuorumEpochRequest) -> Any:
    new = codec.newest(END_QUORUM_EPOCH, "request")
    partition = new.PartitionData(
        partition_index=0,
        leader_id=message.leader_id,
        leader_epoch=message.leader_epoch,
        preferred_candidates=tuple(
            new.ReplicaInfo(candidate_id=candidate, candidate_directory_id=None)
            for candidate in message.preferred_candidates
        ),
    )
    return new.EndQuorumEpochRequest(
        cluster_id=message.cluster_id,
        topics=_one_topic(new, partition),
        leader_endpoints=(),
    )


def _fetch_snapshot_body(message: raft.FetchSnapshotRequest) -> Any:
    new = codec.newest(FETCH_SNAPSHOT, "request")
    snapshot_id = new.SnapshotId(
        end_offset=message.snapshot_id.offset, epoch=message.snapshot_id.epoch
    )
    partition = new.PartitionSnapshot(
        partition=0,
        current_leader_epoch=message.current_leader_epoch,
        snapshot_id=snapshot_id,
        position=message.position_bytes,
        replica_directory_id=_uuid(message.replica_directory_id),
    )
    return new.FetchSnapshotRequest(
        cluster_id=message.cluster_id,
        replica_id=_wire_id(message.replica_id),
        max_bytes=message.max_bytes,
        topics=(new.TopicSnapshot(name=METADATA_TOPIC_NAME, partitions=(partition,)),),
    )


_BODY_OF: Final[dict[type, tuple[int, Callable[[Any], Any]]]] = {
    raft.FetchRequest: (FETCH, _fetch_body),
    raft.VoteRequest: (VOTE, _vote_body),
    raft.BeginQuorumEpochRequest: (BEGIN_QUORUM_EPOCH, _begin_body),
    raft.EndQuorumEpochRequest: (END_QUORUM_EPOCH, _end_body),
    raft.FetchSnapshotRequest: (FETCH_SNAPSHOT, _fetch_snapshot_body),
}


def _one_topic(new: Any, partition: Any) -> tuple[Any]:
    return (new.TopicData(topic_name=METADATA_TOPIC_NAME, partitions=(partition,)),)


# ---- responses: see raft_answers ---------------------------------------------------------------

body_of_response = raft_answers.body_of_response
response_of = raft_answers.response_of
refusal_body = raft_answers.refusal_body


def _wire_id(node_id: NodeId | None) -> int:
    return -1 if node_id is None else node_id


def _node_id(wire_id: int) -> NodeId | None:
    return None if wire_id < 0 else NodeId(wire_id)


def _directory_id(wire_id: UUID | None) -> DirectoryId | None:
    return None if wire_id is None else DirectoryId(wire_id.bytes)


def _uuid(directory_id: DirectoryId | None) -> UUID | None:
    return None if directory_id is None else UUID(bytes=directory_id)
