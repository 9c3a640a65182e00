"""ISR changes requested by leaders (AlterPartition), each partition validated on its own.

A request with another than the current partition epoch is refused, so a leader must know the last
change before it can make the next. A change that completes a reassignment may elect another leader
than the sender: then the record is written and the answer is NEW_LEADER_ELECTED.
Source: apache/kafka: metadata/.../controller/ReplicationControlManager.java (alterPartition).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from metadata.image import LEADER_RECOVERED, LEADER_RECOVERING, Image, Partition
from metadata.records import NO_LEADER_CHANGE
from quorum_controller.bodies import NO_TIME, to_bytes
from quorum_controller.handler_result import HandlerResult
from quorum_controller.partitions.partition_change import Target, change_record
from quorum_controller.result import Draft
from quorum_controller.services import Services
from wire.api_keys import ALTER_PARTITION
from wire.errors import ApiError, ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.types import BrokerEpoch, LeaderEpoch, NodeId, PartitionEpoch, TopicId

if TYPE_CHECKING:
    from kio.schema.alter_partition.v3.request import (
        AlterPartitionRequest,
        BrokerState,
        PartitionData,
    )

_ANY_EPOCH: Final = -1
"""The broker epoch of an ISR member that the sender does not know (versions below 3)."""


def alter_partition(
    draft: Draft, request: "AlterPartitionRequest", services: Services
) -> HandlerResult | ApiError:
    """Change ISRs; an ApiError (STALE_BROKER_EPOCH) unless the sender is the registered broker.

    The records are not atomic: the draft is split where a batch would be too large.
    """
    error = broker_epoch_error(draft.image, request.broker_id, request.broker_epoch)
    if error is not None:
        return error
    new = codec.newest(ALTER_PARTITION, "response")
    topics = []
    for topic in request.topics:
        topic_id = TopicId(to_bytes(topic.topic_id))
        rows = tuple(
            _alter(draft, topic_id, wanted, NodeId(request.broker_id), services)
            for wanted in topic.partitions
        )
        topics.append(new.TopicData(topic_id=topic.topic_id, partitions=rows))
    return HandlerResult(
        new.AlterPartitionResponse(
            throttle_time=NO_TIME, error_code=ErrorCode.none, topics=tuple(topics)
        )
    )


def alter_partition_error(_request: "AlterPartitionRequest", error: ApiError) -> Entity:
    """The response with this code."""
    new = codec.newest(ALTER_PARTITION, "response")
    return new.AlterPartitionResponse(throttle_time=NO_TIME, error_code=error.code, topics=())


def broker_epoch_error(image: Image, broker_id: int, broker_epoch: int) -> ApiError | None:
    """STALE_BROKER_EPOCH unless this epoch of the broker is registered."""
    broker = image.brokers.get(NodeId(broker_id))
    if broker is None or broker.epoch != BrokerEpoch(broker_epoch):
        return ApiError(ErrorCode.stale_broker_epoch)
    return None


def _alter(
    draft: Draft, topic_id: TopicId, wanted: "PartitionData", sender: NodeId, services: Services
) -> Entity:
    """Change the ISR of one partition as its leader proposes; return its row of the answer."""
    topic = draft.image.topics.get(topic_id)
    if topic is None:
        return _row(wanted.partition_index, ErrorCode.unknown_topic_id)
    partition = topic.partitions.get(wanted.partition_index)
    if partition is None:
        return _row(wanted.partition_index, ErrorCode.unknown_topic_or_partition)
    error = _error(draft.image, partition, wanted, sender)
    if error is not None:
        return _row(wanted.partition_index, error)
    target = Target(
        isr=tuple(NodeId(state.broker_id) for state in wanted.new_isr_with_epochs),
        leader_recovery_state=wanted.leader_recovery_state,
    )
    key = (topic_id, wanted.partition_index)
    record = change_record(draft.image, key, target, services.electorate.policy())
    if record is not None:
        draft.cut_if_full()
        draft.emit(record)
        if record.leader not in (sender, NO_LEADER_CHANGE):
            return _row(wanted.partition_index, ErrorCode.new_leader_elected)
        changed = draft.image.partition(*key)
        assert changed is not None, "just changed"
        partition = changed
    return _row(wanted.partition_index, ErrorCode.none, partition)


def _error(  # noqa: PLR0911 - one return per check
    image: Image, partition: Partition, wanted: "PartitionData", sender: NodeId
) -> ErrorCode | None:
    """The error of the first failed check, in Kafka's order; None if all pass."""
    leader_epoch = LeaderEpoch(wanted.leader_epoch)
    partition_epoch = PartitionEpoch(wanted.partition_epoch)
    if leader_epoch > partition.leader_epoch or partition_epoch > partition.partition_epoch:
        return ErrorCode.not_controller  # the sender knows a newer epoch: this controller is stale
    if leader_epoch < partition.leader_epoch:
        return ErrorCode.fenced_leader_epoch
    if sender != partition.leader:
        return ErrorCode.invalid_request
    if partition_epoch < partition.partition_epoch:
        return ErrorCode.invalid_update_version
    isr = [NodeId(state.broker_id) for state in wanted.new_isr_with_epochs]
    is_subset = set(isr) <= set(partition.replicas) and len(set(isr)) == len(isr)
    if not is_subset or partition.leader not in isr:
        return ErrorCode.invalid_request
    if _recovery_error(partition, wanted.leader_recovery_state, len(isr)):
        return ErrorCode.invalid_request
    if any(True for _ in _ineligible(image, wanted.new_isr_with_epochs)):
        return ErrorCode.ineligible_replica
    return None


def _recovery_error(partition: Partition, state: int, isr_size: int) -> bool:
    """True for an invalid state: RECOVERING needs an ISR of one, and cannot follow RECOVERED."""
    if state == LEADER_RECOVERING:
        return isr_size > 1 or partition.leader_recovery_state == LEADER_RECOVERED
    return state != LEADER_RECOVERED


def _ineligible(image: Image, members: Iterable["BrokerState"]) -> Iterable[int]:
    """Members that must not be in an ISR: unknown, fenced, shutting down, or of another epoch."""
    for member in members:
        broker = image.brokers.get(NodeId(member.broker_id))
        if (
            broker is None
            or broker.in_controlled_shutdown
            or broker.fenced
            or member.broker_epoch not in (_ANY_EPOCH, broker.epoch)
        ):
            yield member.broker_id


def _row(index: int, error: ErrorCode, partition: Partition | None = None) -> Entity:
    new = codec.newest(ALTER_PARTITION, "response")
    if partition is None:
        return new.PartitionData(
            partition_index=index,
            error_code=error,
            leader_id=0,
            leader_epoch=0,
            isr=(),
            leader_recovery_state=LEADER_RECOVERED,
            partition_epoch=0,
        )
    return new.PartitionData(
        partition_index=index,
        error_code=error,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )
