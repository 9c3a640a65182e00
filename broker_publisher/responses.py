"""Metadata, DescribeCluster and DescribeTopicPartitions: pure functions of image and request.

Requests and responses are kio's newest classes of their API (`wire.messages.codec` converts from
and to older versions); if the response to an older version differs in more than missing fields, the
function takes `api_version`. kio's modules are loaded at the first use.
(apache/kafka: KafkaApis.handleTopicMetadataRequest, AuthHelper.computeDescribeClusterResponse,
DescribeTopicPartitionsRequestHandler; 3.9, 4.x the same.)
"""

import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import msgspec

from broker_publisher.partition_view import (
    INTERNAL_TOPICS,
    leader_view,
    missing_topic_error,
    offline_replicas,
    reachable_brokers,
    registered_replicas,
)
from metadata.image import Image, Partition, Topic, sorted_items
from wire.api_keys import DESCRIBE_CLUSTER, DESCRIBE_TOPIC_PARTITIONS, METADATA
from wire.errors import ErrorCode
from wire.messages.codec import newest
from wire.types import NodeId, Rng, TopicId

METADATA_NEWEST: Final = 13
METADATA_TOPIC_IDS_SINCE: Final = 12
METADATA_LISTENER_NOT_FOUND_SINCE: Final = 6
ENDPOINT_BROKER: Final = 1
ENDPOINT_CONTROLLER: Final = 2
ENDPOINT_NAMES: Final = {ENDPOINT_BROKER: "BROKER", ENDPOINT_CONTROLLER: "CONTROLLER"}
RESPONSE_PARTITIONS_MAX: Final = 2000  # max.request.partition.size.limit

NOT_REQUESTED: Final = -(2**31)
# Without an authorizer everything is allowed. Bit n stands for AclOperation n: READ 3, WRITE 4,
# CREATE 5, DELETE 6, ALTER 7, DESCRIBE 8, CLUSTER_ACTION 9, DESCRIBE_CONFIGS 10, ALTER_CONFIGS 11,
# IDEMPOTENT_WRITE 12 (apache/kafka: AclEntry.supportedOperations).
TOPIC_OPERATIONS: Final = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS: Final = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))
NO_THROTTLE: Final = timedelta()


class ResponseContext(msgspec.Struct, frozen=True, gc=False):
    """Context of a response besides image and request."""

    cluster_id: str
    listener: str
    """Name of the listener of the request: all endpoints in the response are of that listener."""
    controller_id: NodeId
    """Node to which clients send admin requests; see `controller_id_for`."""


def controller_id_for(
    image: Image, listener: str, rng: Rng, preferred: NodeId | None = None
) -> NodeId:
    """Return the broker to name as controller to clients; -1 if no broker is unfenced.

    It is the preferred one if that is an unfenced broker of this listener, else a random one. Kafka
    always names a random one, so clients expect either.
    """
    alive = reachable_brokers(image, listener)
    if not alive:
        return NodeId(-1)
    if preferred is not None and any(broker.id == preferred for broker in alive):
        return preferred
    return alive[rng.randrange(len(alive))].id


def metadata_response(
    image: Image, request: Any, context: ResponseContext, api_version: int = METADATA_NEWEST
) -> Any:
    """Answer Metadata: all topics, by name, or by topic id (v12+).

    Errors per topic: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION (names),
    UNKNOWN_TOPIC_ID (ids), INVALID_REQUEST (an id, or no name, before v12). Per partition:
    LEADER_NOT_AVAILABLE, LISTENER_NOT_FOUND (v6+), REPLICA_NOT_AVAILABLE (v0 only).
    Missing topics are an error here, also where the kernel creates them (`serving/auto_topics`).
    """
    schema = newest(METADATA, "response")
    return schema.MetadataResponse(
        throttle_time=NO_THROTTLE,
        brokers=tuple(
            schema.MetadataResponseBroker(
                node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
            )
            for broker in reachable_brokers(image, context.listener)
            if (endpoint := broker.endpoint(context.listener)) is not None
        ),
        cluster_id=context.cluster_id,
        controller_id=context.controller_id,
        topics=tuple(_metadata_topics(image, request, context.listener, api_version)),
        error_code=ErrorCode.none,
    )


def describe_cluster(
    image: Image,
    request: Any,
    context: ResponseContext,
    endpoint_type: int = ENDPOINT_BROKER,
    api_version: int = 2,
) -> Any:
    """Answer DescribeCluster on a broker listener (1) or a controller listener (2).

    Errors: UNSUPPORTED_ENDPOINT_TYPE, MISMATCHED_ENDPOINT_TYPE (both INVALID_REQUEST in v0).
    On a controller listener `context.controller_id` is the leader of the quorum, or -1.
    """
    schema = newest(DESCRIBE_CLUSTER, "response")
    refusal = _endpoint_type_refusal(request.endpoint_type, endpoint_type, api_version)
    if refusal is not None:
        code, message = refusal
        return schema.DescribeClusterResponse(
            throttle_time=NO_THROTTLE,
            error_code=code,
            error_message=message,
            cluster_id="",
            brokers=(),
        )
    if endpoint_type == ENDPOINT_BROKER:
        nodes = _broker_rows(
            schema, image, context.listener, include_fenced=request.include_fenced_brokers
        )
    else:
        nodes = _controller_rows(schema, image, context.listener)
    return schema.DescribeClusterResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        endpoint_type=endpoint_type,
        cluster_id=context.cluster_id,
        controller_id=context.controller_id,
        brokers=nodes,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_REQUESTED
        ),
    )


def describe_topic_partitions(
    image: Image,
    request: Any,
    listener: str,
    partitions_max: int = RESPONSE_PARTITIONS_MAX,
) -> Any:
    """Answer DescribeTopicPartitions: topics by name, paged by a budget of partitions (KIP-966).

    A request without topics means all of them; topics before the cursor are omitted. `next_cursor`
    is the start of the next request, None at the end. Errors per topic: UNKNOWN_TOPIC_OR_PARTITION,
    INVALID_TOPIC_EXCEPTION; INVALID_REQUEST for a cursor that is negative or not among the topics.
    """
    schema = newest(DESCRIBE_TOPIC_PARTITIONS, "response")
    cursor = request.cursor
    wants_all = not request.topics
    names = image.topic_id_by_name if wants_all else {topic.name for topic in request.topics}
    if cursor is not None and (
        cursor.partition_index < 0 or (not wants_all and cursor.topic_name not in names)
    ):
        return _invalid_cursor(schema, request)
    start = "" if cursor is None else cursor.topic_name
    budget = max(1, min(partitions_max, request.response_partition_limit))
    topics: list[Any] = []
    next_cursor = None
    for name in sorted(name for name in names if name >= start):
        if budget == 0:
            next_cursor = schema.Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topic_named(name)
        if topic is None:
            topics.append(_missing_described_topic(schema, name, missing_topic_error(name)))
            continue
        first = cursor.partition_index if cursor is not None and name == start else 0
        end = min(first + budget, len(topic.partitions))
        described = _described_topic(schema, image, topic, listener, range(first, end))
        topics.append(described)
        if end < len(topic.partitions):
            next_cursor = schema.Cursor(topic_name=name, partition_index=end)
            break
        budget -= len(described.partitions)
    return schema.DescribeTopicPartitionsResponse(
        throttle_time=NO_THROTTLE, topics=tuple(topics), next_cursor=next_cursor
    )


def _metadata_topics(image: Image, request: Any, listener: str, api_version: int) -> Iterator[Any]:
    """Rows of a Metadata response: all topics, or those requested by name or by id."""
    schema = newest(METADATA, "response")
    wanted = request.topics
    # v0 has no null: an empty list requests all topics.
    if wanted is None or (api_version == 0 and not wanted):
        for name, topic_id in sorted_items(image.topic_id_by_name):
            del name
            yield _metadata_topic(
                schema, image, image.topics[topic_id], request, listener, api_version
            )
        return
    if api_version < METADATA_TOPIC_IDS_SINCE and any(
        topic.name is None or topic.topic_id is not None for topic in wanted
    ):
        for topic in wanted:
            yield _missing_topic(
                schema, ErrorCode.invalid_request, topic.name or "", topic.topic_id
            )
        return
    ids = dict.fromkeys(topic.topic_id for topic in wanted if topic.topic_id is not None)
    for topic_id in ids:
        found = image.topics.get(TopicId(topic_id.bytes))
        if found is None:
            yield _missing_topic(schema, ErrorCode.unknown_topic_id, None, topic_id)
        else:
            yield _metadata_topic(schema, image, found, request, listener, api_version)
    if ids:  # Kafka ignores names if any id is given.
        return
    for name in dict.fromkeys(topic.name for topic in wanted):
        yield _metadata_topic_named(schema, image, name, request, (listener, api_version))


def _metadata_topic_named(
    schema: Any, image: Image, name: str | None, request: Any, asked: tuple[str, int]
) -> Any:
    if name is None:  # neither name nor id; Kafka fails with a NullPointerException
        return _missing_topic(schema, ErrorCode.invalid_request, None, None)
    topic = image.topic_named(name)
    if topic is None:
        return _missing_topic(schema, missing_topic_error(name), name, None)
    return _metadata_topic(schema, image, topic, request, *asked)


def _metadata_topic(
    schema: Any, image: Image, topic: Topic, request: Any, listener: str, api_version: int
) -> Any:
    return schema.MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=uuid.UUID(bytes=topic.topic_id),
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(
            _metadata_partition(schema, image, number, partition, listener, api_version)
            for number, partition in sorted_items(topic.partitions)
        ),
        topic_authorized_operations=(
            TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_REQUESTED
        ),
    )


def _metadata_partition(
    schema: Any, image: Image, number: int, partition: Partition, listener: str, api_version: int
) -> Any:
    """Row of a partition, with the error codes that the version of the request knows."""
    leader = leader_view(image, partition, listener)
    error = leader.error
    replicas, isr = partition.replicas, partition.isr
    if error is ErrorCode.listener_not_found and api_version < METADATA_LISTENER_NOT_FOUND_SINCE:
        error = ErrorCode.leader_not_available
    if api_version == 0:  # The first clients could not connect to a replica without address.
        replicas = registered_replicas(image, partition.replicas, listener)
        isr = registered_replicas(image, partition.isr, listener)
        is_complete = (replicas, isr) == (partition.replicas, partition.isr)
        if error is ErrorCode.none and not is_complete:
            error = ErrorCode.replica_not_available
    return schema.MetadataResponsePartition(
        error_code=error,
        partition_index=number,
        leader_id=leader.leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline_replicas(image, partition, listener),
    )


def _missing_topic(
    schema: Any, error: ErrorCode, name: str | None, topic_id: uuid.UUID | None
) -> Any:
    return schema.MetadataResponseTopic(
        error_code=error,
        name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=NOT_REQUESTED,
    )


def _endpoint_type_refusal(
    wanted: int, served: int, api_version: int
) -> tuple[ErrorCode, str] | None:
    if wanted == served:
        return None
    if wanted not in ENDPOINT_NAMES:
        code = ErrorCode.unsupported_endpoint_type
        message = f"Unsupported endpoint type {wanted}"
    else:
        code = ErrorCode.mismatched_endpoint_type
        message = (
            f"The request was sent to an endpoint of type {ENDPOINT_NAMES[served]}, but we "
            f"wanted an endpoint of type {ENDPOINT_NAMES[wanted]}"
        )
    return (ErrorCode.invalid_request if api_version == 0 else code), message


def _broker_rows(
    schema: Any, image: Image, listener: str, *, include_fenced: bool
) -> tuple[Any, ...]:
    return tuple(
        schema.DescribeClusterBroker(
            broker_id=broker.id,
            host=endpoint.host,
            port=endpoint.port,
            rack=broker.rack,
            is_fenced=broker.fenced,
        )
        for broker in reachable_brokers(image, listener, include_fenced=include_fenced)
        if (endpoint := broker.endpoint(listener)) is not None
    )


def _controller_rows(schema: Any, image: Image, listener: str) -> tuple[Any, ...]:
    return tuple(
        schema.DescribeClusterBroker(
            broker_id=controller.id,
            host=endpoint.host,
            port=endpoint.port,
            rack=None,
            is_fenced=False,
        )
        for _, controller in sorted_items(image.controllers)
        for endpoint in controller.endpoints
        if endpoint.name == listener
    )


def _described_topic(schema: Any, image: Image, topic: Topic, listener: str, numbers: range) -> Any:
    return schema.DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=uuid.UUID(bytes=topic.topic_id),
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(
            _described_partition(schema, image, number, topic.partitions[number], listener)
            for number in numbers
            if number in topic.partitions
        ),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _described_partition(
    schema: Any, image: Image, number: int, partition: Partition, listener: str
) -> Any:
    leader = leader_view(image, partition, listener)
    return schema.DescribeTopicPartitionsResponsePartition(
        error_code=leader.error,
        partition_index=number,
        leader_id=leader.leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.elr,
        last_known_elr=partition.last_known_elr,
        offline_replicas=offline_replicas(image, partition, listener),
    )


def _missing_described_topic(schema: Any, name: str, error: ErrorCode) -> Any:
    return schema.DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=name,
        topic_id=None,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _invalid_cursor(schema: Any, request: Any) -> Any:
    return schema.DescribeTopicPartitionsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            _missing_described_topic(schema, topic.name, ErrorCode.invalid_request)
            for topic in request.topics
        ),
        next_cursor=None,
    )
