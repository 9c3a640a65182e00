"""Transfer of the leadership, inside AlterPartitionReassignments of the metadata partition.

Kafka's controllers have no topic of that name, and refuse the partition with
UNKNOWN_TOPIC_OR_PARTITION (apache/kafka: ReplicationControlManager.alterPartitionReassignment).
Here too is a request refused that has other partitions beside it, or cancels.
"""

from typing import TYPE_CHECKING

from kernel.quorum.messages.partition import NO_TIME, only
from raft import error_codes
from raft import messages as raft
from wire.api_keys import ALTER_PARTITION_REASSIGNMENTS
from wire.errors import ErrorCode
from wire.messages import codec
from wire.types import METADATA_TOPIC_NAME, milliseconds

if TYPE_CHECKING:
    from kio.schema.alter_partition_reassignments.v1.request import (
        AlterPartitionReassignmentsRequest,
    )


def request_from_wire(
    body: "AlterPartitionReassignmentsRequest",
) -> raft.TransferLeadershipRequest | None:
    """Return the message of a body; None unless it is about the metadata partition alone."""
    partition = only(body.topics)
    if partition is None or body.topics[0].name != METADATA_TOPIC_NAME:
        return None
    if partition.partition_index != 0 or partition.replicas is None:
        return None
    return raft.TransferLeadershipRequest(
        replicas=tuple(map(int, partition.replicas)), timeout_ms=milliseconds(body.timeout)
    )


def response_to_wire(message: raft.TransferLeadershipResponse) -> codec.Entity:
    """Return the body of a message: its error is the partition's.

    NOT_CONTROLLER is at the top too, where brokers look for it to ask the next leader.
    """
    new = codec.newest(ALTER_PARTITION_REASSIGNMENTS, "response")
    code = ErrorCode(message.error_code)
    row = new.ReassignablePartitionResponse(
        partition_index=0, error_code=code, error_message=message.error_message
    )
    is_elsewhere = message.error_code == error_codes.NOT_CONTROLLER
    return new.AlterPartitionReassignmentsResponse(
        throttle_time=NO_TIME,
        allow_replication_factor_change=True,
        error_code=code if is_elsewhere else ErrorCode.none,
        error_message=None,
        responses=(new.ReassignableTopicResponse(name=METADATA_TOPIC_NAME, partitions=(row,)),),
    )
