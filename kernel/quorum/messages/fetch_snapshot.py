"""FetchSnapshot: a chunk of a snapshot of the metadata partition (KIP-630)."""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from kernel.quorum.messages.partition import leader_endpoint, node_endpoints, only, position
from raft import messages as raft
from raft.config import READ_BYTES_MAX
from wire.api_keys import FETCH_SNAPSHOT
from wire.errors import ErrorCode
from wire.ids import directory_id_of, directory_uuid, node_id_of, node_number
from wire.messages import codec
from wire.types import METADATA_TOPIC_NAME, LeaderEpoch, Offset, OffsetAndEpoch

if TYPE_CHECKING:
    from kio.schema.fetch_snapshot.v1.request import FetchSnapshotRequest
    from kio.schema.fetch_snapshot.v1.response import FetchSnapshotResponse

_ZERO: Final = timedelta(0)
_NO_SNAPSHOT: Final = OffsetAndEpoch(Offset(0), LeaderEpoch(0))


def request_from_wire(body: "FetchSnapshotRequest") -> raft.FetchSnapshotRequest | None:
    """Return the message of a body; None unless it is about the metadata partition."""
    partition = only(body.topics)
    if partition is None or partition.partition != 0:
        return None
    if body.topics[0].name != METADATA_TOPIC_NAME:
        return None
    return raft.FetchSnapshotRequest(
        cluster_id=body.cluster_id,
        replica_id=node_id_of(body.replica_id),
        replica_directory_id=directory_id_of(partition.replica_directory_id),
        current_leader_epoch=LeaderEpoch(partition.current_leader_epoch),
        snapshot_id=position(partition.snapshot_id),
        position_bytes=partition.position,
        max_bytes=min(max(body.max_bytes, 0), READ_BYTES_MAX),
    )


def request_to_wire(message: raft.FetchSnapshotRequest) -> codec.Entity:
    """Return the body of a message."""
    new = codec.newest(FETCH_SNAPSHOT, "request")
    snapshot_id = message.snapshot_id
    partition = new.PartitionSnapshot(
        partition=0,
        current_leader_epoch=message.current_leader_epoch,
        snapshot_id=new.SnapshotId(end_offset=snapshot_id.offset, epoch=snapshot_id.epoch),
        position=message.position_bytes,
        replica_directory_id=directory_uuid(message.replica_directory_id),
    )
    return new.FetchSnapshotRequest(
        cluster_id=message.cluster_id,
        replica_id=node_number(message.replica_id),
        max_bytes=message.max_bytes,
        topics=(new.TopicSnapshot(name=METADATA_TOPIC_NAME, partitions=(partition,)),),
    )


def response_from_wire(body: "FetchSnapshotResponse") -> raft.FetchSnapshotResponse | None:
    """Return the message of a body; None unless it is about one partition."""
    if body.error_code.value:
        return raft.FetchSnapshotResponse(top_error_code=body.error_code.value)
    partition = only(body.topics)
    if partition is None:
        return None
    leader_id = node_id_of(partition.current_leader.leader_id)
    snapshot_id = partition.snapshot_id
    is_named = snapshot_id.end_offset >= 0 and snapshot_id.epoch >= 0
    return raft.FetchSnapshotResponse(
        error_code=partition.error_code.value,
        leader_id=leader_id,
        leader_epoch=LeaderEpoch(partition.current_leader.leader_epoch),
        leader_endpoint=leader_endpoint(body.node_endpoints, leader_id),
        snapshot_id=position(snapshot_id) if is_named else None,
        size_bytes=partition.size,
        position_bytes=partition.position,
        chunk=bytes(partition.unaligned_records or b""),
    )


def response_to_wire(message: raft.FetchSnapshotResponse) -> codec.Entity:
    """Return the body of a message."""
    new = codec.newest(FETCH_SNAPSHOT, "response")
    if message.top_error_code:
        return _body(ErrorCode(message.top_error_code))
    snapshot_id = message.snapshot_id or _NO_SNAPSHOT
    partition = new.PartitionSnapshot(
        index=0,
        error_code=ErrorCode(message.error_code),
        snapshot_id=new.SnapshotId(end_offset=snapshot_id.offset, epoch=snapshot_id.epoch),
        current_leader=new.LeaderIdAndEpoch(
            leader_id=node_number(message.leader_id), leader_epoch=message.leader_epoch
        ),
        size=message.size_bytes,
        position=message.position_bytes,
        unaligned_records=message.chunk,
    )
    return _body(
        ErrorCode.none,
        topics=(new.TopicSnapshot(name=METADATA_TOPIC_NAME, partitions=(partition,)),),
        node_endpoints=node_endpoints(new, message.leader_id, message.leader_endpoint),
    )


def refusal(body: "FetchSnapshotRequest") -> codec.Entity:
    """Return the response to a request that is not about exactly the metadata partition.

    INVALID_REQUEST; for exactly one other partition UNKNOWN_TOPIC_OR_PARTITION, where Kafka leaves
    every number at 0. Source: apache/kafka: raft/.../KafkaRaftClient.java.
    """
    asked = only(body.topics)
    if asked is None:
        return _body(ErrorCode.invalid_request)
    new = codec.newest(FETCH_SNAPSHOT, "response")
    partition = new.PartitionSnapshot(
        index=asked.partition,
        error_code=ErrorCode.unknown_topic_or_partition,
        snapshot_id=new.SnapshotId(end_offset=0, epoch=0),
        current_leader=new.LeaderIdAndEpoch(leader_id=0, leader_epoch=0),
        size=0,
        position=0,
        unaligned_records=b"",
    )
    topic = new.TopicSnapshot(name=body.topics[0].name, partitions=(partition,))
    return _body(ErrorCode.none, topics=(topic,))


def _body(
    error_code: ErrorCode,
    *,
    topics: tuple[codec.Entity, ...] = (),
    node_endpoints: tuple[codec.Entity, ...] = (),
) -> codec.Entity:
    return codec.newest(FETCH_SNAPSHOT, "response").FetchSnapshotResponse(
        throttle_time=_ZERO, error_code=error_code, topics=topics, node_endpoints=node_endpoints
    )
