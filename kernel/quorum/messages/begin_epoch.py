"""BeginQuorumEpoch: the leader of a new epoch announces itself (KIP-595, KIP-853)."""

from typing import TYPE_CHECKING

from kernel.quorum.messages.partition import (
    leader_endpoint,
    metadata_partition,
    node_endpoints,
    one_topic,
    only,
)
from raft import messages as raft
from wire.api_keys import BEGIN_QUORUM_EPOCH
from wire.errors import ErrorCode
from wire.ids import directory_id_of, directory_uuid, node_id_of, node_number
from wire.messages import codec
from wire.types import Endpoint, LeaderEpoch, NodeId

if TYPE_CHECKING:
    from kio.schema.begin_quorum_epoch.v1.request import BeginQuorumEpochRequest
    from kio.schema.begin_quorum_epoch.v1.response import BeginQuorumEpochResponse


def request_from_wire(body: "BeginQuorumEpochRequest") -> raft.BeginQuorumEpochRequest | None:
    """Return the message of a body; None unless it is about the metadata partition."""
    partition = metadata_partition(body.topics)
    if partition is None:
        return None
    return raft.BeginQuorumEpochRequest(
        cluster_id=body.cluster_id,
        voter_id=node_id_of(body.voter_id),
        voter_directory_id=directory_id_of(partition.voter_directory_id),
        leader_id=NodeId(partition.leader_id),
        leader_epoch=LeaderEpoch(partition.leader_epoch),
        leader_endpoints=tuple(
            Endpoint(endpoint.name.upper(), endpoint.host, endpoint.port)
            for endpoint in body.leader_endpoints
        ),
    )


def request_to_wire(message: raft.BeginQuorumEpochRequest) -> codec.Entity:
    """Return the body of a message."""
    new = codec.newest(BEGIN_QUORUM_EPOCH, "request")
    partition = new.PartitionData(
        partition_index=0,
        voter_directory_id=directory_uuid(message.voter_directory_id),
        leader_id=message.leader_id,
        leader_epoch=message.leader_epoch,
    )
    return new.BeginQuorumEpochRequest(
        cluster_id=message.cluster_id,
        voter_id=node_number(message.voter_id),
        topics=one_topic(new, partition),
        leader_endpoints=tuple(
            new.LeaderEndpoint(name=endpoint.listener, host=endpoint.host, port=endpoint.port)
            for endpoint in message.leader_endpoints
        ),
    )


def response_from_wire(body: "BeginQuorumEpochResponse") -> raft.BeginQuorumEpochResponse | None:
    """Return the message of a body; None unless it is about one partition."""
    if body.error_code.value:
        return raft.BeginQuorumEpochResponse(top_error_code=body.error_code.value)
    partition = only(body.topics)
    if partition is None:
        return None
    leader_id = node_id_of(partition.leader_id)
    return raft.BeginQuorumEpochResponse(
        error_code=partition.error_code.value,
        leader_id=leader_id,
        leader_epoch=LeaderEpoch(partition.leader_epoch),
        leader_endpoint=leader_endpoint(body.node_endpoints, leader_id),
    )


def response_to_wire(message: raft.BeginQuorumEpochResponse) -> codec.Entity:
    """Return the body of a message."""
    if message.top_error_code:
        return _without_topics(message.top_error_code)
    new = codec.newest(BEGIN_QUORUM_EPOCH, "response")
    partition = new.PartitionData(
        partition_index=0,
        error_code=ErrorCode(message.error_code),
        leader_id=node_number(message.leader_id),
        leader_epoch=message.leader_epoch,
    )
    return new.BeginQuorumEpochResponse(
        error_code=ErrorCode.none,
        topics=one_topic(new, partition),
        node_endpoints=node_endpoints(new, message.leader_id, message.leader_endpoint),
    )


def refusal(body: "BeginQuorumEpochRequest") -> codec.Entity:
    """Return the response to a request that is not about exactly the metadata partition."""
    del body
    return _without_topics(ErrorCode.invalid_request.value)


def _without_topics(error_code: int) -> codec.Entity:
    new = codec.newest(BEGIN_QUORUM_EPOCH, "response")
    return new.BeginQuorumEpochResponse(error_code=ErrorCode(error_code), topics=())
