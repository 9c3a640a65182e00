"""New partitions of existing topics (CreatePartitions).

Each topic of a request succeeds or fails on its own; the records of all that succeed are one batch.
A new partition has as many replicas as the topic's partition 0.
Source: apache/kafka: metadata/.../controller/ReplicationControlManager.java (createPartitions),
core/.../server/ControllerApis.scala; 4.3 texts.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final

from metadata.image import Image, Topic
from quorum_controller.bodies import NO_TIME
from quorum_controller.handler_result import HandlerResult
from quorum_controller.partitions.electorate import is_active
from quorum_controller.result import RECORDS_PER_BATCH_MAX, Draft
from quorum_controller.security.authorization import Operation, ResourceType
from quorum_controller.services import Services
from quorum_controller.topics.mutation_quota import EXCEEDED
from quorum_controller.topics.placement import place
from quorum_controller.topics.topics import (
    PARTITIONS_EXCEEDED,
    Assignment,
    emit_partitions,
    manual_assignment_error,
)
from wire.api_keys import CREATE_PARTITIONS
from wire.errors import ApiError, ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.types import NodeId

if TYPE_CHECKING:
    from kio.schema.create_partitions.v3.request import (
        CreatePartitionsAssignment,
        CreatePartitionsRequest,
        CreatePartitionsTopic,
    )

STRICT_VERSION: Final = 3
"""First version whose clients understand THROTTLING_QUOTA_EXCEEDED (KIP-599)."""
_DUPLICATE: Final = ApiError(ErrorCode.invalid_request, "Duplicate topic name.")


def create_partitions(
    draft: Draft, request: "CreatePartitionsRequest", services: Services
) -> HandlerResult | ApiError:
    """Add partitions; with validate_only the draft stays empty.

    Returns:
        A CreatePartitionsResponse, repeated names first, then topics that the caller may not alter,
        then a row per topic in the order of the request; for a request over the limits an ApiError
        (POLICY_VIOLATION) for all topics.
    """
    target = Draft(draft.image, draft.base_offset) if request.validate_only else draft
    counts = Counter(topic.name for topic in request.topics)
    rows = [_row(name, _DUPLICATE) for name, count in counts.items() if count > 1]
    wanted = []
    for topic in request.topics:
        if counts[topic.name] > 1:
            continue
        if services.may(draft.image, Operation.ALTER, ResourceType.TOPIC, topic.name):
            wanted.append(topic)
        else:
            rows.append(_row(topic.name, ApiError(ErrorCode.topic_authorization_failed)))
    if sum(_added_count(draft.image, topic) for topic in wanted) > RECORDS_PER_BATCH_MAX:
        return PARTITIONS_EXCEEDED
    rows += [_row(topic.name, _add_partitions(target, topic, services)) for topic in wanted]
    new = codec.newest(CREATE_PARTITIONS, "response")
    return HandlerResult(new.CreatePartitionsResponse(throttle_time=NO_TIME, results=tuple(rows)))


def create_partitions_error(request: "CreatePartitionsRequest", error: ApiError) -> Entity:
    """The response with this error for every topic of the request."""
    new = codec.newest(CREATE_PARTITIONS, "response")
    rows = tuple(_row(topic.name, error) for topic in request.topics)
    return new.CreatePartitionsResponse(throttle_time=NO_TIME, results=rows)


def _row(name: str, error: ApiError | None) -> Entity:
    new = codec.newest(CREATE_PARTITIONS, "response")
    return new.CreatePartitionsTopicResult(
        name=name,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
    )


def _added_count(image: Image, wanted: "CreatePartitionsTopic") -> int:
    topic = image.topic_named(wanted.name)
    return 0 if topic is None else max(0, wanted.count - len(topic.partitions))


def _add_partitions(
    draft: Draft, wanted: "CreatePartitionsTopic", services: Services
) -> ApiError | None:
    topic = draft.image.topic_named(wanted.name)
    if topic is None:
        return ApiError(ErrorCode.unknown_topic_or_partition)
    error = _count_error(topic, wanted)
    if error is not None:
        return error
    if wanted.assignments is None:
        assignments = _placed(draft.image, topic, wanted.count, services)
    else:
        assignments = _manual(draft.image, topic, wanted.assignments)
    if isinstance(assignments, ApiError):
        return assignments
    if services.charge(draft.image, len(assignments), STRICT_VERSION):
        return EXCEEDED
    emit_partitions(draft, topic.topic_id, assignments, len(topic.partitions))
    return None


def _count_error(topic: Topic, wanted: "CreatePartitionsTopic") -> ApiError | None:
    count = len(topic.partitions)
    added = wanted.count - count
    if added <= 0:
        text = (
            f"Topic already has {count} partition(s)."
            if added == 0
            else f"The topic {topic.name} currently has {count} partition(s); "
            f"{wanted.count} would not be an increase."
        )
        return ApiError(ErrorCode.invalid_partitions, text)
    if wanted.assignments is not None and len(wanted.assignments) != added:
        text = (
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(wanted.assignments)} assignment(s) were specified."
        )
        return ApiError(ErrorCode.invalid_replica_assignment, text)
    return None


def _manual(
    image: Image, topic: Topic, wanted: "tuple[CreatePartitionsAssignment, ...]"
) -> list[Assignment] | ApiError:
    replication_factor = len(topic.partitions[0].replicas)
    assignments = []
    for index, assignment in enumerate(wanted):
        replicas = tuple(NodeId(broker_id) for broker_id in assignment.broker_ids)
        isr = tuple(replica for replica in replicas if is_active(image, replica))
        text = manual_assignment_error(image, replicas, replication_factor)
        if text is None and not isr:
            text = (
                "All brokers specified in the manual partition assignment for partition "
                f"{len(topic.partitions) + index} are fenced or in controlled shutdown."
            )
        if text is not None:
            return ApiError(ErrorCode.invalid_replica_assignment, text)
        assignments.append(Assignment(replicas, isr))
    return assignments


def _placed(
    image: Image, topic: Topic, count: int, services: Services
) -> list[Assignment] | ApiError:
    replication_factor = len(topic.partitions[0].replicas)
    added = count - len(topic.partitions)
    usable = services.usable_brokers(image)
    placed = place(added, replication_factor, usable, services.rng)
    if isinstance(placed, ApiError):
        return placed
    assignments = []
    for broker_ids in placed:
        replicas = tuple(NodeId(broker_id) for broker_id in broker_ids)
        isr = tuple(replica for replica in replicas if is_active(image, replica))
        if not isr:
            text = (
                f"Unable to replicate the partition {replication_factor} time(s): "
                "All brokers are currently fenced or in controlled shutdown."
            )
            return ApiError(ErrorCode.invalid_replication_factor, text)
        assignments.append(Assignment(replicas, isr))
    return assignments
