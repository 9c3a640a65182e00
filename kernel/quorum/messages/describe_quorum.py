"""DescribeQuorum, sent by clients to a controller, never between controllers (KIP-595)."""

from typing import TYPE_CHECKING, Final

from kernel.quorum.messages.partition import metadata_partition, one_topic
from raft import messages as raft
from wire.api_keys import DESCRIBE_QUORUM
from wire.errors import ErrorCode
from wire.ids import directory_uuid, node_number
from wire.messages import codec

if TYPE_CHECKING:
    from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest

NO_MESSAGE: Final = ""  # Kafka answers with empty texts, not with null


def request_from_wire(body: "DescribeQuorumRequest") -> raft.DescribeQuorumRequest | None:
    """Return the message of a body; None unless it is about the metadata partition."""
    return None if metadata_partition(body.topics) is None else raft.DescribeQuorumRequest()


def response_to_wire(message: raft.DescribeQuorumResponse) -> codec.Entity:
    """Return the body of a message."""
    new = codec.newest(DESCRIBE_QUORUM, "response")
    partition = new.PartitionData(
        partition_index=0,
        error_code=ErrorCode(message.error_code),
        error_message=NO_MESSAGE,
        leader_id=node_number(message.leader_id),
        leader_epoch=message.leader_epoch,
        high_watermark=message.high_watermark,
        current_voters=tuple(_replica_state(new, state) for state in message.voters),
        observers=tuple(_replica_state(new, state) for state in message.observers),
    )
    listeners: dict[int, list[codec.Entity]] = {}
    for node_id, endpoint in message.nodes:
        listener = new.Listener(name=endpoint.listener, host=endpoint.host, port=endpoint.port)
        listeners.setdefault(node_id, []).append(listener)
    return _body(
        new,
        topics=one_topic(new, partition),
        nodes=tuple(
            new.Node(node_id=node_id, listeners=tuple(found))
            for node_id, found in listeners.items()
        ),
    )


def _replica_state(new: codec.Schema, state: raft.ReplicaState) -> codec.Entity:
    return new.ReplicaState(
        replica_id=state.replica_id,
        replica_directory_id=directory_uuid(state.directory_id),
        log_end_offset=state.log_end_offset,
        last_fetch_timestamp=state.last_fetch_timestamp_ms,
        last_caught_up_timestamp=state.last_caught_up_timestamp_ms,
    )


def refusal(body: "DescribeQuorumRequest") -> codec.Entity:
    """Return the response to a request that is not about exactly the metadata partition.

    UNKNOWN_TOPIC_OR_PARTITION for each partition; Kafka leaves every number at 0. Source:
    apache/kafka: raft/.../KafkaRaftClient.java.
    """
    new = codec.newest(DESCRIBE_QUORUM, "response")
    topics = tuple(
        new.TopicData(
            topic_name=topic.topic_name,
            partitions=tuple(
                _unknown_partition(new, partition.partition_index) for partition in topic.partitions
            ),
        )
        for topic in body.topics
    )
    return _body(new, topics=topics, nodes=())


def _unknown_partition(new: codec.Schema, index: int) -> codec.Entity:
    return new.PartitionData(
        partition_index=index,
        error_code=ErrorCode.unknown_topic_or_partition,
        error_message=NO_MESSAGE,
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=(),
        observers=(),
    )


def _body(
    new: codec.Schema, *, topics: tuple[codec.Entity, ...], nodes: tuple[codec.Entity, ...]
) -> codec.Entity:
    return new.DescribeQuorumResponse(
        error_code=ErrorCode.none, error_message=NO_MESSAGE, topics=topics, nodes=nodes
    )
