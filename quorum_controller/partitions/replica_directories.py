"""Assignment of replicas to log directories (AssignReplicasToDirs, KIP-858).

A replica assigned to a directory that is not online is removed from the ISR and as leader.
Source: apache/kafka: metadata/.../controller/ReplicationControlManager.java
(handleAssignReplicasToDirs).
"""

from typing import TYPE_CHECKING

from metadata.features import LEVEL_DIRECTORIES
from metadata.image import Broker
from quorum_controller.bodies import NO_TIME, to_bytes
from quorum_controller.handler_result import HandlerResult
from quorum_controller.partitions.electorate import ElectionPolicy
from quorum_controller.partitions.isr_changes import broker_epoch_error
from quorum_controller.partitions.partition_change import Target, change_record
from quorum_controller.result import Draft
from quorum_controller.services import Services
from wire.api_keys import ASSIGN_REPLICAS_TO_DIRS
from wire.errors import ApiError, ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.types import DirectoryId, NodeId, TopicId, TopicIdPartition

if TYPE_CHECKING:
    from kio.schema.assign_replicas_to_dirs.v0.request import AssignReplicasToDirsRequest


def assign_replicas_to_directories(
    draft: Draft, request: "AssignReplicasToDirsRequest", services: Services
) -> HandlerResult | ApiError:
    """Set the directories of replicas; each one succeeds or fails on its own, by error code.

    Returns:
        An AssignReplicasToDirsResponse; ApiError UNSUPPORTED_VERSION below metadata.version 17,
        STALE_BROKER_EPOCH unless the sender is the registered broker.
    """
    if draft.image.metadata_version < LEVEL_DIRECTORIES:
        text = "Directory assignment is not supported yet."
        return ApiError(ErrorCode.unsupported_version, text)
    error = broker_epoch_error(draft.image, request.broker_id, request.broker_epoch)
    if error is not None:
        return error
    broker = draft.image.brokers[NodeId(request.broker_id)]
    new = codec.newest(ASSIGN_REPLICAS_TO_DIRS, "response")
    offline: dict[TopicIdPartition, None] = {}
    directories = []
    for asked in request.directories:
        directory = DirectoryId(to_bytes(asked.id_))
        topics = []
        for topic in asked.topics:
            topic_id = TopicId(to_bytes(topic.topic_id))
            rows = []
            for wanted in topic.partitions:
                key = (topic_id, wanted.partition_index)
                code = _assign(draft, key, broker, directory, services)
                if code is ErrorCode.none and not broker.has_online_directory(directory):
                    offline[key] = None
                row = new.PartitionData(partition_index=wanted.partition_index, error_code=code)
                rows.append(row)
            topics.append(new.TopicData(topic_id=topic.topic_id, partitions=tuple(rows)))
        directories.append(new.DirectoryData(id_=asked.id_, topics=tuple(topics)))
    _leave_offline(draft, broker, list(offline), services.electorate.policy(never=broker.id))
    return HandlerResult(
        new.AssignReplicasToDirsResponse(
            throttle_time=NO_TIME, error_code=ErrorCode.none, directories=tuple(directories)
        )
    )


def assign_replicas_to_directories_error(
    _request: "AssignReplicasToDirsRequest", error: ApiError
) -> Entity:
    """The response with this code."""
    new = codec.newest(ASSIGN_REPLICAS_TO_DIRS, "response")
    return new.AssignReplicasToDirsResponse(
        throttle_time=NO_TIME, error_code=error.code, directories=()
    )


def _assign(
    draft: Draft, key: TopicIdPartition, broker: Broker, directory: DirectoryId, services: Services
) -> ErrorCode:
    topic_id, number = key
    topic = draft.image.topics.get(topic_id)
    if topic is None:
        return ErrorCode.unknown_topic_id
    partition = topic.partitions.get(number)
    if partition is None:
        return ErrorCode.unknown_topic_or_partition
    if broker.id not in partition.replicas:
        return ErrorCode.not_leader_or_follower
    target = Target(directory=(broker.id, directory))
    record = change_record(draft.image, key, target, services.electorate.policy())
    if record is not None:
        draft.cut_if_full()
        draft.emit(record)
    return ErrorCode.none


def _leave_offline(
    draft: Draft, broker: Broker, keys: list[TopicIdPartition], policy: ElectionPolicy
) -> None:
    for key in keys:
        partition = draft.image.partition(*key)
        assert partition is not None, "just assigned"
        isr = tuple(replica for replica in partition.isr if replica != broker.id)
        record = change_record(draft.image, key, Target(isr=isr), policy)
        if record is not None:
            draft.cut_if_full()
            draft.emit(record)
