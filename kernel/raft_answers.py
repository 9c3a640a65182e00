"""Raft responses <-> Kafka response bodies; the other half of `raft_rpc`.

Every response names the leader that the answering node knows (`leader_id` -1 for none) and, when it
is known, where to reach it (`node_endpoints`, dropped on the way to a peer of an older version).
"""

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from raft import messages as raft
from wire import api_keys, codec
from wire.errors import ErrorCode
from wire.metadata_fetch import MetadataFetched
from wire.types import (
    METADATA_TOPIC_NAME,
    Endpoint,
    LeaderEpoch,
    NodeId,
    Offset,
    OffsetAndEpoch,
)

_ZERO: Final = timedelta(0)
NO_MESSAGE: Final = ""  # of DescribeQuorum, which Kafka answers with empty texts, not with null


# ---- responses that leave ----------------------------------------------------------------------


def body_of_response(response: raft.RaftResponse) -> Any:
    """The response body of a raft message."""
    if type(response) is raft.FetchResponse:
        return _fetch_body(response)
    match response:
        case raft.VoteResponse():
            return _voter_body(
                api_keys.VOTE, "VoteResponse", response, vote_granted=response.vote_granted
            )
        case raft.BeginQuorumEpochResponse():
            return _voter_body(api_keys.BEGIN_QUORUM_EPOCH, "BeginQuorumEpochResponse", response)
        case raft.EndQuorumEpochResponse():
            return _voter_body(api_keys.END_QUORUM_EPOCH, "EndQuorumEpochResponse", response)
        case raft.FetchSnapshotResponse():
            return _fetch_snapshot_body(response)
        case raft.DescribeQuorumResponse():
            return _describe_quorum_body(response)


def refusal_body(api_key: int, body: Any) -> Any:
    """The answer to a request `body` that is not about exactly the metadata partition.

    INVALID_REQUEST; UNKNOWN_TOPIC_OR_PARTITION for each partition that DescribeQuorum, and for the
    one that FetchSnapshot asks about. Source: apache/kafka: raft/.../KafkaRaftClient.java.
    """
    if api_key == api_keys.DESCRIBE_QUORUM:
        return _unknown_quorum_body(body)
    is_snapshot = api_key == api_keys.FETCH_SNAPSHOT
    if is_snapshot and len(body.topics) == 1 and len(body.topics[0].partitions) == 1:
        return _unknown_snapshot_body(body.topics[0])
    return _invalid_request_body(api_key)


def _invalid_request_body(api_key: int) -> Any:
    """INVALID_REQUEST at the top of an answer without topics."""
    new = codec.newest(api_key, "response")
    match api_key:
        case api_keys.FETCH:
            return new.FetchResponse(
                throttle_time=_ZERO, error_code=ErrorCode.invalid_request, responses=()
            )
        case api_keys.VOTE:
            return new.VoteResponse(error_code=ErrorCode.invalid_request, topics=())
        case api_keys.BEGIN_QUORUM_EPOCH:
            return new.BeginQuorumEpochResponse(error_code=ErrorCode.invalid_request, topics=())
        case api_keys.END_QUORUM_EPOCH:
            return new.EndQuorumEpochResponse(error_code=ErrorCode.invalid_request, topics=())
        case api_keys.FETCH_SNAPSHOT:
            return new.FetchSnapshotResponse(
                throttle_time=_ZERO, error_code=ErrorCode.invalid_request, topics=()
            )
        case _:
            raise AssertionError(f"not a raft api: {api_key=}")


def _unknown_quorum_body(body: Any) -> Any:
    """DescribeQuorum about other partitions; Kafka leaves every number at 0."""
    new = codec.newest(api_keys.DESCRIBE_QUORUM, "response")
    topics = tuple(
        new.TopicData(
            topic_name=topic.topic_name,
            partitions=tuple(
                new.PartitionData(
                    partition_index=partition.partition_index,
                    error_code=ErrorCode.unknown_topic_or_partition,
                    error_message=NO_MESSAGE,
                    leader_id=0,
                    leader_epoch=0,
                    high_watermark=0,
                    current_voters=(),
                    observers=(),
                )
                for partition in topic.partitions
            ),
        )
        for topic in body.topics
    )
    return new.DescribeQuorumResponse(
        error_code=ErrorCode.none, error_message=NO_MESSAGE, topics=topics, nodes=()
    )


def _unknown_snapshot_body(topic: Any) -> Any:
    """FetchSnapshot of another partition; Kafka leaves every number at 0."""
    new = codec.newest(api_keys.FETCH_SNAPSHOT, "response")
    partition = new.PartitionSnapshot(
        index=topic.partitions[0].partition,
        error_code=ErrorCode.unknown_topic_or_partition,
        snapshot_id=new.SnapshotId(end_offset=0, epoch=0),
        current_leader=new.LeaderIdAndEpoch(leader_id=0, leader_epoch=0),
        size=0,
        position=0,
        unaligned_records=b"",
    )
    return new.FetchSnapshotResponse(
        throttle_time=_ZERO,
        error_code=ErrorCode.none,
        topics=(new.TopicSnapshot(name=topic.name, partitions=(partition,)),),
    )


def _endpoints(new: Any, response: Any) -> tuple[Any, ...]:
    endpoint, leader_id = response.leader_endpoint, response.leader_id
    if endpoint is None or leader_id is None:
        return ()
    return (new.NodeEndpoint(node_id=leader_id, host=endpoint.host, port=endpoint.port),)


def _wire_id(node_id: NodeId | None) -> int:
    return -1 if node_id is None else node_id


def _voter_body(api_key: int, name: str, response: Any, **more: bool) -> Any:
    new = codec.newest(api_key, "response")
    body_class = getattr(new, name)
    if response.top_error_code:
        return body_class(error_code=ErrorCode(response.top_error_code), topics=())
    partition = new.PartitionData(
        partition_index=0,
        error_code=ErrorCode(response.error_code),
        leader_id=_wire_id(response.leader_id),
        leader_epoch=response.leader_epoch,
        **more,
    )
    return body_class(
        error_code=ErrorCode.none,
        topics=(new.TopicData(topic_name=METADATA_TOPIC_NAME, partitions=(partition,)),),
        node_endpoints=_endpoints(new, response),
    )


def _fetch_body(response: raft.FetchResponse) -> Any:
    if response.top_error_code:
        return codec.newest(api_keys.FETCH, "response").FetchResponse(
            throttle_time=_ZERO, error_code=ErrorCode(response.top_error_code), responses=()
        )
    endpoint, leader_id = response.leader_endpoint, _wire_id(response.leader_id)
    return MetadataFetched(
        error_code=response.error_code,
        leader_id=leader_id,
        leader_epoch=response.leader_epoch,
        endpoints=(
            ()
            if endpoint is None or leader_id < 0
            else ((leader_id, endpoint.host, endpoint.port),)
        ),
        high_watermark=response.high_watermark,
        log_start_offset=response.log_start_offset,
        diverging_epoch=response.diverging_epoch,
        snapshot_id=response.snapshot_id,
        records=response.records,
    )


def _fetch_snapshot_body(response: raft.FetchSnapshotResponse) -> Any:
    new = codec.newest(api_keys.FETCH_SNAPSHOT, "response")
    if response.top_error_code:
        return new.FetchSnapshotResponse(
            throttle_time=_ZERO, error_code=ErrorCode(response.top_error_code), topics=()
        )
    snapshot_id = response.snapshot_id or OffsetAndEpoch(Offset(0), LeaderEpoch(0))
    partition = new.PartitionSnapshot(
        index=0,
        error_code=ErrorCode(response.error_code),
        snapshot_id=new.SnapshotId(end_offset=snapshot_id.offset, epoch=snapshot_id.epoch),
        current_leader=new.LeaderIdAndEpoch(
            leader_id=_wire_id(response.leader_id), leader_epoch=response.leader_epoch
        ),
        size=response.size_bytes,
        position=response.position_bytes,
        unaligned_records=response.chunk,
    )
    return new.FetchSnapshotResponse(
        throttle_time=_ZERO,
        error_code=ErrorCode.none,
        topics=(new.TopicSnapshot(name=METADATA_TOPIC_NAME, partitions=(partition,)),),
        node_endpoints=_endpoints(new, response),
    )


def _describe_quorum_body(response: raft.DescribeQuorumResponse) -> Any:
    new = codec.newest(api_keys.DESCRIBE_QUORUM, "response")

    def replica(state: raft.ReplicaState) -> Any:
        directory_id = state.directory_id
        return new.ReplicaState(
            replica_id=state.replica_id,
            replica_directory_id=None if directory_id is None else UUID(bytes=directory_id),
            log_end_offset=state.log_end_offset,
            last_fetch_timestamp=state.last_fetch_timestamp_ms,
            last_caught_up_timestamp=state.last_caught_up_timestamp_ms,
        )

    partition = new.PartitionData(
        partition_index=0,
        error_code=ErrorCode(response.error_code),
        error_message=NO_MESSAGE,
        leader_id=_wire_id(response.leader_id),
        leader_epoch=response.leader_epoch,
        high_watermark=response.high_watermark,
        current_voters=tuple(replica(state) for state in response.voters),
        observers=tuple(replica(state) for state in response.observers),
    )
    nodes: dict[int, list[Any]] = {}
    for node_id, endpoint in response.nodes:
        listener = new.Listener(name=endpoint.listener, host=endpoint.host, port=endpoint.port)
        nodes.setdefault(node_id, []).append(listener)
    return new.DescribeQuorumResponse(
        error_code=ErrorCode.none,
        error_message=NO_MESSAGE,
        topics=(new.TopicData(topic_name=METADATA_TOPIC_NAME, partitions=(partition,)),),
        nodes=tuple(
            new.Node(node_id=node_id, listeners=tuple(listeners))
            for node_id, listeners in nodes.items()
        ),
    )


# ---- responses that arrive ---------------------------------------------------------------------


def response_of(api_key: int, body: Any) -> raft.RaftResponse | None:  # noqa: PLR0911
    """The raft message of a response body; None when it is not about the metadata partition."""
    if type(body) is MetadataFetched:
        return _fetch_response(body)
    top = int(body.error_code)
    if top:
        return _with_top_error(api_key, top)
    topics: tuple[Any, ...] = () if api_key == 1 else body.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    partition = topics[0].partitions[0]
    match api_key:
        case api_keys.VOTE:
            return raft.VoteResponse(
                vote_granted=partition.vote_granted, **_common(body, partition, partition)
            )
        case api_keys.BEGIN_QUORUM_EPOCH:
            return raft.BeginQuorumEpochResponse(**_common(body, partition, partition))
        case api_keys.END_QUORUM_EPOCH:
            return raft.EndQuorumEpochResponse(**_common(body, partition, partition))
        case api_keys.FETCH_SNAPSHOT:
            return raft.FetchSnapshotResponse(
                snapshot_id=_offset_and_epoch(partition.snapshot_id),
                size_bytes=partition.size,
                position_bytes=partition.position,
                chunk=bytes(partition.unaligned_records or b""),
                **_common(body, partition, partition.current_leader),
            )
        case _:
            raise AssertionError(f"not sent by the core: {api_key=}")


def _with_top_error(api_key: int, error_code: int) -> raft.RaftResponse:
    match api_key:
        case api_keys.FETCH:
            return raft.FetchResponse(top_error_code=error_code)
        case api_keys.VOTE:
            return raft.VoteResponse(top_error_code=error_code)
        case api_keys.BEGIN_QUORUM_EPOCH:
            return raft.BeginQuorumEpochResponse(top_error_code=error_code)
        case api_keys.END_QUORUM_EPOCH:
            return raft.EndQuorumEpochResponse(top_error_code=error_code)
        case api_keys.FETCH_SNAPSHOT:
            return raft.FetchSnapshotResponse(top_error_code=error_code)
        case _:
            raise AssertionError(f"not sent by the core: {api_key=}")


def _common(body: Any, partition: Any, leader: Any) -> dict[str, Any]:
    leader_id = None if leader.leader_id < 0 else NodeId(leader.leader_id)
    endpoint = next(
        (
            Endpoint("", node.host, node.port)
            for node in body.node_endpoints
            if node.node_id == leader_id
        ),
        None,
    )
    return {
        "error_code": int(partition.error_code),
        "leader_id": leader_id,
        "leader_epoch": LeaderEpoch(leader.leader_epoch),
        "leader_endpoint": endpoint,
    }


def _offset_and_epoch(snapshot_id: Any) -> OffsetAndEpoch | None:
    if snapshot_id.end_offset < 0 or snapshot_id.epoch < 0:
        return None
    return OffsetAndEpoch(Offset(snapshot_id.end_offset), LeaderEpoch(snapshot_id.epoch))


def _fetch_response(fetched: MetadataFetched) -> raft.FetchResponse:
    leader_id = None if fetched.leader_id < 0 else NodeId(fetched.leader_id)
    endpoint = None
    for id_, host, port in fetched.endpoints:
        if id_ == leader_id:
            endpoint = Endpoint("", host, port)
            break
    return raft.FetchResponse(
        error_code=fetched.error_code,
        leader_id=leader_id,
        leader_epoch=LeaderEpoch(fetched.leader_epoch),
        leader_endpoint=endpoint,
        high_watermark=fetched.high_watermark,
        log_start_offset=fetched.log_start_offset,
        diverging_epoch=fetched.diverging_epoch,
        snapshot_id=fetched.snapshot_id,
        records=fetched.records,
    )
