"""Creation and deletion of topics.

Each topic of a request succeeds or fails on its own; the records of all that succeed are one batch.
Names are checked against the topics before the request: two new names that collide with each other
are both created, as in Kafka.
Source: apache/kafka: metadata/.../controller/ReplicationControlManager.java (createTopics,
createTopic, deleteTopics), core/.../server/ControllerApis.scala; 4.3 texts.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec
from kio.schema.types import TopicName

from metadata.features import LEVEL_DIRECTORIES
from metadata.image import CONFIG_TOPIC, LEADER_RECOVERED, Image, normalised_topic_name
from metadata.records import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from metadata.topic_names import illegal_topic_name
from quorum_controller.bodies import (
    NO_TIME,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeletionRow,
    TopicRow,
    to_bytes,
    to_uuid,
)
from quorum_controller.config import ControllerConfig
from quorum_controller.configs.config_rules import topic_config_error
from quorum_controller.configs.topic_defaults import TopicConfigDefaults
from quorum_controller.partitions.electorate import default_directory, is_active
from quorum_controller.partitions.elr import clear_elr_records
from quorum_controller.result import RECORDS_PER_BATCH_MAX, Draft
from quorum_controller.topics.mutation_quota import EXCEEDED
from quorum_controller.topics.placement import UsableBroker, place
from wire.errors import ApiError, ErrorCode
from wire.types import (
    METADATA_TOPIC_NAME,
    ZERO_UUID,
    DirectoryId,
    LeaderEpoch,
    NodeId,
    PartitionEpoch,
    Rng,
    TopicId,
)

CREATE_TOPICS_STRICT_VERSION: Final = 6
DELETE_TOPICS_STRICT_VERSION: Final = 5
"""First version whose clients understand THROTTLING_QUOTA_EXCEEDED (KIP-599)."""
_TOPIC_AUTHORIZATION_FAILED: Final = int(ErrorCode.topic_authorization_failed)
_UNKNOWN_TOPIC: Final = "This server does not host this topic-partition."
_UNKNOWN_TOPIC_ID: Final = "This server does not host this topic ID."

PARTITIONS_EXCEEDED: Final = ApiError(
    ErrorCode.policy_violation, "Excessively large number of partitions per request."
)
RECORDS_EXCEEDED: Final = ApiError(
    ErrorCode.policy_violation, "Unable to perform excessively large batch operation."
)

Replicas = tuple[NodeId, ...]


class TopicServices(msgspec.Struct, frozen=True):
    """Arguments of the creation of a topic besides the image."""

    config: ControllerConfig
    defaults: TopicConfigDefaults
    rng: Rng
    new_uuid: Callable[[], bytes]
    usable_brokers: list[UsableBroker]
    """Brokers that may get replicas, sorted by id."""
    charge: Callable[[int], int] = lambda _: 0
    """Charges new partitions to the caller's quota: ms to wait, 0 if they are allowed now."""


class Assignment(msgspec.Struct, frozen=True):
    """Replicas and ISR of one new partition; the first of the ISR becomes leader."""

    replicas: Replicas
    isr: Replicas


def create_topics(
    draft: Draft,
    request: CreateTopicsRequest,
    services: TopicServices,
    *,
    may_describe_configs: bool = True,
) -> CreateTopicsResponse | ApiError:
    """Create the topics of a request; with validate_only the draft stays empty.

    Returns:
        A CreateTopicsResponse with a row per topic, duplicate and prohibited names last; for a
        request over the limits an ApiError (POLICY_VIOLATION) for all topics.
    """
    if _partition_count(request, services.config) > RECORDS_PER_BATCH_MAX:
        return PARTITIONS_EXCEEDED
    before = draft.image
    target = Draft(before, draft.base_offset) if request.validate_only else draft
    name_counts = Counter(topic.name for topic in request.topics)
    rows = []
    for topic in request.topics:
        if name_counts[topic.name] > 1 or topic.name == METADATA_TOPIC_NAME:
            continue
        result = new_topic_name_error(before, topic.name) or _create_topic(target, topic, services)
        if isinstance(result, ApiError):
            rows.append(_error_row(topic.name, result))
        else:
            rows.append(_success_row(before, topic, result, services, may_describe_configs))
        if len(target.records) > RECORDS_PER_BATCH_MAX:
            return RECORDS_EXCEEDED
    rows += _refused_names(name_counts)
    return CreateTopicsResponse(throttle_time=NO_TIME, topics=tuple(rows))


def create_topics_error(request: CreateTopicsRequest, error: ApiError) -> CreateTopicsResponse:
    """The response with this error for every topic of the request."""
    rows = tuple(_error_row(topic.name, error) for topic in request.topics)
    return CreateTopicsResponse(throttle_time=NO_TIME, topics=rows)


def new_topic_name_error(image: Image, name: str) -> ApiError | None:
    """The error of creating a topic of this name, None if it is possible."""
    if name in image.topic_id_by_name:
        return ApiError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    text = illegal_topic_name(name)
    if text is not None:
        return ApiError(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {text}")
    if "." in name or "_" in name:
        colliding = image.topic_names_by_normalised.get(normalised_topic_name(name))
        if colliding:
            return ApiError(
                ErrorCode.invalid_topic_exception,
                f"Topic '{name}' collides with existing topic: {colliding[0]}",
            )
    return None


def delete_topics(
    draft: Draft,
    request: DeleteTopicsRequest,
    config: ControllerConfig,
    charge: Callable[[int], int] = lambda _: 0,
) -> DeleteTopicsResponse | ApiError:
    """Delete topics by name or id; rows in the order of the request.

    Args:
        draft: for the records.
        request: the body.
        config: with delete.topic.enable.
        charge: charges the partitions to the caller's quota, as in `TopicServices`.
    """
    if not config.delete_topic_enable:
        disabled = ApiError(ErrorCode.topic_deletion_disabled, "Topic deletion is disabled.")
        return delete_topics_error(request, disabled)
    names = Counter(topic.name for topic in request.topics if topic.name is not None)
    ids = Counter(topic.topic_id for topic in request.topics if topic.name is None)
    rows = []
    for topic in request.topics:
        topic_id = TopicId(to_bytes(topic.topic_id))
        name = topic.name
        error: ApiError | None = _malformed_deletion(
            name, topic_id, names[name] if name else ids[topic.topic_id]
        )
        if error is None and name is not None:
            topic_id = draft.image.topic_id_by_name.get(name, TopicId(ZERO_UUID))
            if topic_id == ZERO_UUID:
                error = ApiError(ErrorCode.unknown_topic_or_partition, _UNKNOWN_TOPIC)
            elif ids[to_uuid(topic_id)]:
                text = "The provided topic name maps to an ID that was already supplied."
                error = ApiError(ErrorCode.invalid_request, text)
        elif error is None:
            existing = draft.image.topics.get(topic_id)
            if existing is None:
                error = ApiError(ErrorCode.unknown_topic_id, _UNKNOWN_TOPIC_ID)
            else:
                name = TopicName(existing.name)
        if error is None:
            error = _delete(draft, topic_id, charge)
        rows.append(_deletion_row(name, topic_id, error))
        if len(draft.records) > RECORDS_PER_BATCH_MAX:
            return RECORDS_EXCEEDED
    unique = {(row.name, row.topic_id, row.error_code): row for row in rows}
    return DeleteTopicsResponse(throttle_time=NO_TIME, responses=tuple(unique.values()))


def _delete(draft: Draft, topic_id: TopicId, charge: Callable[[int], int]) -> ApiError | None:
    """Delete an existing topic, unless the caller's quota is exhausted."""
    if charge(len(draft.image.topics[topic_id].partitions)):
        return EXCEEDED
    draft.emit(RemoveTopicRecord(topic_id=topic_id))
    return None


def delete_topics_error(request: DeleteTopicsRequest, error: ApiError) -> DeleteTopicsResponse:
    """The response with this error for every topic of the request."""
    rows = tuple(_deletion_row(t.name, to_bytes(t.topic_id), error) for t in request.topics)
    return DeleteTopicsResponse(throttle_time=NO_TIME, responses=rows)


def _partition_count(request: CreateTopicsRequest, config: ControllerConfig) -> int:
    count = 0
    for topic in request.topics:
        if topic.assignments:
            count += len(topic.assignments)
        elif topic.num_partitions == -1:
            count += config.default_partition_count
        else:
            count += max(topic.num_partitions, 0)
    return count


class _Created(msgspec.Struct, frozen=True):
    """The fields of the response for a new topic."""

    topic_id: TopicId
    partition_count: int
    replication_factor: int
    configs: dict[str, str]


def _create_topic(
    draft: Draft, topic: CreatableTopic, services: TopicServices
) -> _Created | ApiError:
    """Write the records of one topic; return the fields of its response, or its error."""
    null_configs = [config.name for config in topic.configs if config.value is None]
    if null_configs:
        text = f"Null value not supported for topic configs: {','.join(null_configs)}"
        return ApiError(ErrorCode.invalid_config, text)
    configs = {config.name: config.value for config in topic.configs if config.value is not None}
    error = (
        topic_config_error(configs, {}, services.defaults.node_configs(draft.image))
        if configs
        else None
    )
    if error is not None:
        return error
    if topic.assignments:
        assignments = _manual_assignments(draft.image, topic)
    else:
        assignments = _placed_assignments(draft.image, topic, services)
    if isinstance(assignments, ApiError):
        return assignments
    if services.charge(len(assignments)):
        return EXCEEDED
    topic_id = TopicId(services.new_uuid())
    assert topic_id not in draft.image.topics, "a topic id came twice"
    draft.emit(TopicRecord(name=topic.name, topic_id=topic_id))
    for name in sorted(configs):
        draft.emit(
            ConfigRecord(
                resource_type=CONFIG_TOPIC,
                resource_name=topic.name,
                name=name,
                value=configs[name],
            )
        )
    for record in clear_elr_records(draft.image, draft.records[-len(configs) :] if configs else ()):
        draft.emit(record)
    emit_partitions(draft, topic_id, assignments)
    return _Created(topic_id, len(assignments), len(assignments[0].replicas), configs)


def emit_partitions(
    draft: Draft, topic_id: TopicId, assignments: list[Assignment], first_partition_id: int = 0
) -> None:
    """Emit a new partition per assignment, numbered from `first_partition_id`."""
    has_directories = draft.image.metadata_version >= LEVEL_DIRECTORIES
    directory_of: dict[NodeId, DirectoryId] = {}
    if has_directories:
        brokers = {replica for assignment in assignments for replica in assignment.replicas}
        directory_of = {broker: default_directory(draft.image, broker) for broker in brokers}
    for partition_id, assignment in enumerate(assignments, first_partition_id):
        replicas = assignment.replicas
        draft.emit(
            PartitionRecord(
                partition_id=partition_id,
                topic_id=topic_id,
                replicas=replicas,
                isr=assignment.isr,
                leader=assignment.isr[0],
                leader_recovery_state=LEADER_RECOVERED,
                leader_epoch=LeaderEpoch(0),
                partition_epoch=PartitionEpoch(0),
                directories=tuple(directory_of[r] for r in replicas) if has_directories else (),
            )
        )


def _manual_assignments(image: Image, topic: CreatableTopic) -> list[Assignment] | ApiError:
    """Check the request's own assignments, one for each partition from 0 on."""
    prefix = "A manual partition assignment was specified, but"
    if topic.replication_factor != -1:
        text = f"{prefix} replication factor was not set to -1."
        return ApiError(ErrorCode.invalid_request, text)
    if topic.num_partitions != -1:
        text = f"{prefix} numPartitions was not set to -1."
        return ApiError(ErrorCode.invalid_request, text)
    by_partition: dict[int, Assignment] = {}
    replication_factor: int | None = None
    for assignment in topic.assignments:
        partition_id = assignment.partition_index
        replicas = tuple(NodeId(broker_id) for broker_id in assignment.broker_ids)
        isr = tuple(r for r in replicas if is_active(image, r))
        text_or_none = None
        if partition_id in by_partition:
            text_or_none = (
                f"Found multiple manual partition assignments for partition {partition_id}"
            )
        elif error := manual_assignment_error(image, replicas, replication_factor):
            text_or_none = error
        elif not isr:
            text_or_none = (
                "All brokers specified in the manual partition assignment for partition "
                f"{partition_id} are fenced or in controlled shutdown."
            )
        if text_or_none is not None:
            return ApiError(ErrorCode.invalid_replica_assignment, text_or_none)
        by_partition[partition_id] = Assignment(replicas, isr)
        replication_factor = len(replicas)
    if sorted(by_partition) != list(range(len(by_partition))):
        text = "partitions should be a consecutive 0-based integer sequence"
        return ApiError(ErrorCode.invalid_replica_assignment, text)
    return [by_partition[partition_id] for partition_id in range(len(by_partition))]


def manual_assignment_error(
    image: Image, replicas: Replicas, replication_factor: int | None
) -> str | None:
    """The error text of a replica list chosen by a client, None if it is valid.

    Args:
        image: registered brokers.
        replicas: as requested, leader first.
        replication_factor: of the previous partitions, None for the first.
    """
    prefix = "The manual partition assignment includes"
    if not replicas:
        return f"{prefix} an empty replica list."
    previous: NodeId | None = None
    for broker_id in sorted(replicas):
        if broker_id not in image.brokers:
            return f"{prefix} broker {broker_id}, but no such broker is registered."
        if broker_id == previous:
            return f"{prefix} the broker {broker_id} more than once."
        previous = broker_id
    if replication_factor is not None and len(replicas) != replication_factor:
        return (
            f"{prefix} a partition with {len(replicas)} replica(s), but this is not consistent "
            f"with previous partitions, which have {replication_factor} replica(s)."
        )
    return None


def _placed_assignments(
    image: Image, topic: CreatableTopic, services: TopicServices
) -> list[Assignment] | ApiError:
    """Place the partitions on brokers; the ISR has the active replicas."""
    replication_factor = int(topic.replication_factor)
    if replication_factor < -1 or replication_factor == 0:
        return ApiError(
            ErrorCode.invalid_replication_factor,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    partition_count = int(topic.num_partitions)
    if partition_count < -1 or partition_count == 0:
        return ApiError(
            ErrorCode.invalid_partitions,
            "Number of partitions was set to an invalid non-positive value.",
        )
    if replication_factor == -1:
        replication_factor = services.config.default_replication_factor
    if partition_count == -1:
        partition_count = services.config.default_partition_count
    placed = place(partition_count, replication_factor, services.usable_brokers, services.rng)
    prefix = f"Unable to replicate the partition {replication_factor} time(s): "
    if isinstance(placed, ApiError):
        return ApiError(placed.code, f"{prefix}{placed.message}")
    active = {broker for broker in image.brokers if is_active(image, broker)}
    assignments = []
    for broker_ids in placed:
        replicas: Replicas = broker_ids  # type: ignore[assignment]
        isr = replicas if active.issuperset(replicas) else tuple(r for r in replicas if r in active)
        if not isr:
            text = f"{prefix}All brokers are currently fenced or in controlled shutdown."
            return ApiError(ErrorCode.invalid_replication_factor, text)
        assignments.append(Assignment(replicas, isr))
    return assignments


def _success_row(
    image: Image,
    topic: CreatableTopic,
    created: _Created,
    services: TopicServices,
    may_describe_configs: bool,  # noqa: FBT001
) -> TopicRow:
    """Row of a created topic; without configs for a caller who may not describe them."""
    if not may_describe_configs:
        return CreatableTopicResult(
            name=topic.name,
            topic_id=to_uuid(created.topic_id),
            error_code=ErrorCode.none,
            error_message=None,
            topic_config_error_code=_TOPIC_AUTHORIZATION_FAILED,
            configs=(),
        )
    return CreatableTopicResult(
        name=topic.name,
        topic_id=to_uuid(created.topic_id),
        error_code=ErrorCode.none,
        error_message=None,
        num_partitions=created.partition_count,
        replication_factor=created.replication_factor,
        configs=services.defaults.rows(image, created.configs),
    )


def _error_row(name: str, error: ApiError) -> TopicRow:
    return CreatableTopicResult(
        name=name, topic_id=None, error_code=error.code, error_message=error.message, configs=()
    )


def _refused_names(name_counts: Counter[TopicName]) -> list[TopicRow]:
    """Rows of duplicate and prohibited names, which are refused without other checks."""
    duplicate = ApiError(ErrorCode.invalid_request, "Duplicate topic name.")
    rows = [_error_row(name, duplicate) for name, count in name_counts.items() if count > 1]
    if name_counts[TopicName(METADATA_TOPIC_NAME)] == 1:
        text = f"Creation of internal topic {METADATA_TOPIC_NAME} is prohibited."
        rows.append(_error_row(METADATA_TOPIC_NAME, ApiError(ErrorCode.invalid_request, text)))
    return rows


def _malformed_deletion(name: str | None, topic_id: bytes, count: int) -> ApiError | None:
    text = None
    if name is None and topic_id == ZERO_UUID:
        text = "Neither topic name nor id were specified."
    elif name is not None and topic_id != ZERO_UUID:
        text = "You may not specify both topic name and topic id."
    elif count > 1:
        text = f"Duplicate topic {'id' if name is None else 'name'}."
    return None if text is None else ApiError(ErrorCode.invalid_request, text)


def _deletion_row(name: str | None, topic_id: bytes, error: ApiError | None) -> DeletionRow:
    return DeletableTopicResult(
        name=name,
        topic_id=to_uuid(topic_id),
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
    )
