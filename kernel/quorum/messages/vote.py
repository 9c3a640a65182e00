"""Vote, with pre-votes (KIP-595, KIP-996)."""

from typing import TYPE_CHECKING

from kernel.quorum.messages.partition import (
    leader_endpoint,
    metadata_partition,
    node_endpoints,
    one_topic,
    only,
)
from raft import messages as raft
from wire.api_keys import VOTE
from wire.errors import ErrorCode
from wire.ids import directory_id_of, directory_uuid, node_id_of, node_number
from wire.messages import codec
from wire.types import LeaderEpoch, NodeId, Offset

if TYPE_CHECKING:
    from kio.schema.vote.v2.request import VoteRequest
    from kio.schema.vote.v2.response import VoteResponse


def request_from_wire(body: "VoteRequest") -> raft.VoteRequest | None:
    """Return the message of a body; None unless it is about the metadata partition."""
    partition = metadata_partition(body.topics)
    if partition is None:
        return None
    return raft.VoteRequest(
        cluster_id=body.cluster_id,
        voter_id=node_id_of(body.voter_id),
        voter_directory_id=directory_id_of(partition.voter_directory_id),
        replica_id=NodeId(partition.replica_id),
        replica_directory_id=directory_id_of(partition.replica_directory_id),
        replica_epoch=LeaderEpoch(partition.replica_epoch),
        last_epoch=LeaderEpoch(partition.last_offset_epoch),
        last_end_offset=Offset(partition.last_offset),
        pre_vote=partition.pre_vote,
    )


def request_to_wire(message: raft.VoteRequest) -> codec.Entity:
    """Return the body of a message."""
    new = codec.newest(VOTE, "request")
    partition = new.PartitionData(
        partition_index=0,
        replica_epoch=message.replica_epoch,
        replica_id=message.replica_id,
        replica_directory_id=directory_uuid(message.replica_directory_id),
        voter_directory_id=directory_uuid(message.voter_directory_id),
        last_offset_epoch=message.last_epoch,
        last_offset=message.last_end_offset,
        pre_vote=message.pre_vote,
    )
    return new.VoteRequest(
        cluster_id=message.cluster_id,
        voter_id=node_number(message.voter_id),
        topics=one_topic(new, partition),
    )


def response_from_wire(body: "VoteResponse") -> raft.VoteResponse | None:
    """Return the message of a body; None unless it is about one partition."""
    if body.error_code.value:
        return raft.VoteResponse(top_error_code=body.error_code.value)
    partition = only(body.topics)
    if partition is None:
        return None
    leader_id = node_id_of(partition.leader_id)
    return raft.VoteResponse(
        error_code=partition.error_code.value,
        leader_id=leader_id,
        leader_epoch=LeaderEpoch(partition.leader_epoch),
        vote_granted=partition.vote_granted,
        leader_endpoint=leader_endpoint(body.node_endpoints, leader_id),
    )


def response_to_wire(message: raft.VoteResponse) -> codec.Entity:
    """Return the body of a message."""
    if message.top_error_code:
        return _without_topics(message.top_error_code)
    new = codec.newest(VOTE, "response")
    partition = new.PartitionData(
        partition_index=0,
        error_code=ErrorCode(message.error_code),
        leader_id=node_number(message.leader_id),
        leader_epoch=message.leader_epoch,
        vote_granted=message.vote_granted,
    )
    return new.VoteResponse(
        error_code=ErrorCode.none,
        topics=one_topic(new, partition),
        node_endpoints=node_endpoints(new, message.leader_id, message.leader_endpoint),
    )


def refusal(body: "VoteRequest") -> codec.Entity:
    """Return the response to a request that is not about exactly the metadata partition."""
    del body
    return _without_topics(ErrorCode.invalid_request.value)


def _without_topics(error_code: int) -> codec.Entity:
    new = codec.newest(VOTE, "response")
    return new.VoteResponse(error_code=ErrorCode(error_code), topics=())
