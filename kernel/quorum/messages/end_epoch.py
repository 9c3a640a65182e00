"""EndQuorumEpoch: a leader resigns and names its successors, preferred first (KIP-595)."""

from typing import TYPE_CHECKING

from kernel.quorum.messages.partition import (
    leader_endpoint,
    metadata_partition,
    node_endpoints,
    one_topic,
    only,
)
from raft import messages as raft
from wire.api_keys import END_QUORUM_EPOCH
from wire.errors import ErrorCode
from wire.ids import directory_id_of, directory_uuid, node_id_of, node_number
from wire.messages import codec
from wire.types import LeaderEpoch, NodeId, ReplicaKey

if TYPE_CHECKING:
    from kio.schema.end_quorum_epoch.v1.request import EndQuorumEpochRequest
    from kio.schema.end_quorum_epoch.v1.response import EndQuorumEpochResponse


def request_from_wire(body: "EndQuorumEpochRequest") -> raft.EndQuorumEpochRequest | None:
    """Return the message of a body; None unless it is about the metadata partition."""
    partition = metadata_partition(body.topics)
    if partition is None:
        return None
    return raft.EndQuorumEpochRequest(
        cluster_id=body.cluster_id,
        leader_id=NodeId(partition.leader_id),
        leader_epoch=LeaderEpoch(partition.leader_epoch),
        preferred_candidates=tuple(
            ReplicaKey(NodeId(each.candidate_id), directory_id_of(each.candidate_directory_id))
            for each in partition.preferred_candidates
        ),
    )


def request_to_wire(message: raft.EndQuorumEpochRequest) -> codec.Entity:
    """Return the body of a message."""
    new = codec.newest(END_QUORUM_EPOCH, "request")
    partition = new.PartitionData(
        partition_index=0,
        leader_id=message.leader_id,
        leader_epoch=message.leader_epoch,
        preferred_candidates=tuple(
            new.ReplicaInfo(
                candidate_id=candidate.id,
                candidate_directory_id=directory_uuid(candidate.directory_id),
            )
            for candidate in message.preferred_candidates
        ),
    )
    return new.EndQuorumEpochRequest(
        cluster_id=message.cluster_id,
        topics=one_topic(new, partition),
        leader_endpoints=(),
    )


def response_from_wire(body: "EndQuorumEpochResponse") -> raft.EndQuorumEpochResponse | None:
    """Return the message of a body; None unless it is about one partition."""
    if body.error_code.value:
        return raft.EndQuorumEpochResponse(top_error_code=body.error_code.value)
    partition = only(body.topics)
    if partition is None:
        return None
    leader_id = node_id_of(partition.leader_id)
    return raft.EndQuorumEpochResponse(
        error_code=partition.error_code.value,
        leader_id=leader_id,
        leader_epoch=LeaderEpoch(partition.leader_epoch),
        leader_endpoint=leader_endpoint(body.node_endpoints, leader_id),
    )


def response_to_wire(message: raft.EndQuorumEpochResponse) -> codec.Entity:
    """Return the body of a message."""
    if message.top_error_code:
        return _without_topics(message.top_error_code)
    new = codec.newest(END_QUORUM_EPOCH, "response")
    partition = new.PartitionData(
        partition_index=0,
        error_code=ErrorCode(message.error_code),
        leader_id=node_number(message.leader_id),
        leader_epoch=message.leader_epoch,
    )
    return new.EndQuorumEpochResponse(
        error_code=ErrorCode.none,
        topics=one_topic(new, partition),
        node_endpoints=node_endpoints(new, message.leader_id, message.leader_endpoint),
    )


def refusal(body: "EndQuorumEpochRequest") -> codec.Entity:
    """Return the response to a request that is not about exactly the metadata partition."""
    del body
    return _without_topics(ErrorCode.invalid_request.value)


def _without_topics(error_code: int) -> codec.Entity:
    new = codec.newest(END_QUORUM_EPOCH, "response")
    return new.EndQuorumEpochResponse(error_code=ErrorCode(error_code), topics=())
