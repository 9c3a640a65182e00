"""Reassignment of replicas: AlterPartitionReassignments and ListPartitionReassignments.

The replicas of a partition under reassignment are the target followed by those to remove; the first
change after which the ISR contains every remaining replica completes it. A second reassignment
starts from the merged list; a cancellation removes the added replicas again.
Source: apache/kafka: metadata/.../controller/ReplicationControlManager.java,
PartitionReassignment{Replicas,Revert}.java; KIP-860 for allow_replication_factor_change.

Unlike in Kafka, where a second reassignment that adds (removes) other replicas drops the adding
(removing) list of the first, and one that adds (removes) none keeps it: here `adding` holds all
replicas added since the last completion, so that a cancellation always restores the replicas before
the first reassignment, and `removing` holds exactly those that are not in the target.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from metadata.image import Image, Partition, Topic, sorted_items
from quorum_controller.bodies import NO_TIME
from quorum_controller.handler_result import HandlerResult
from quorum_controller.partitions.electorate import ElectionPolicy, unclean_election
from quorum_controller.partitions.partition_change import Target, change_record
from quorum_controller.query_context import QueryContext
from quorum_controller.result import RECORDS_PER_BATCH_MAX, Draft
from quorum_controller.services import Services
from quorum_controller.topics.topics import RECORDS_EXCEEDED, manual_assignment_error
from wire.api_keys import ALTER_PARTITION_REASSIGNMENTS, LIST_PARTITION_REASSIGNMENTS
from wire.errors import ApiError, ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.types import NodeId, TopicIdPartition

if TYPE_CHECKING:
    from kio.schema.alter_partition_reassignments.v1.request import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
    )
    from kio.schema.list_partition_reassignments.v0.request import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsTopics,
    )


def alter_partition_reassignments(
    draft: Draft, request: "AlterPartitionReassignmentsRequest", services: Services
) -> HandlerResult | ApiError:
    """Start, change or cancel reassignments; each partition succeeds or fails on its own."""
    policy = services.electorate.policy()
    allows = request.allow_replication_factor_change
    new = codec.newest(ALTER_PARTITION_REASSIGNMENTS, "response")
    topics = []
    for topic in request.topics:
        rows = []
        for wanted in topic.partitions:
            error = _alter(draft, topic.name, wanted, policy, allows_factor_change=allows)
            rows.append(_row(wanted.partition_index, error))
            if len(draft.records) > RECORDS_PER_BATCH_MAX:
                return RECORDS_EXCEEDED
        topics.append(new.ReassignableTopicResponse(name=topic.name, partitions=tuple(rows)))
    return HandlerResult(
        new.AlterPartitionReassignmentsResponse(
            throttle_time=NO_TIME,
            allow_replication_factor_change=allows,
            error_code=ErrorCode.none,
            error_message=None,
            responses=tuple(topics),
        )
    )


def alter_partition_reassignments_error(
    request: "AlterPartitionReassignmentsRequest", error: ApiError
) -> Entity:
    """The response with the error at the top and for every partition."""
    new = codec.newest(ALTER_PARTITION_REASSIGNMENTS, "response")
    topics = tuple(
        new.ReassignableTopicResponse(
            name=topic.name,
            partitions=tuple(_row(wanted.partition_index, error) for wanted in topic.partitions),
        )
        for topic in request.topics
    )
    return new.AlterPartitionReassignmentsResponse(
        throttle_time=NO_TIME,
        allow_replication_factor_change=True,
        error_code=error.code,
        error_message=error.message,
        responses=topics,
    )


def _row(index: int, error: ApiError | None) -> Entity:
    new = codec.newest(ALTER_PARTITION_REASSIGNMENTS, "response")
    return new.ReassignablePartitionResponse(
        partition_index=index,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
    )


def _alter(
    draft: Draft,
    name: str,
    wanted: "ReassignablePartition",
    policy: ElectionPolicy,
    *,
    allows_factor_change: bool,
) -> ApiError | None:
    """Begin or cancel the reassignment of one partition; return its error."""
    topic = draft.image.topic_named(name)
    if topic is None:
        text = f"Unable to find a topic named {name}."
        return ApiError(ErrorCode.unknown_topic_or_partition, text)
    index = wanted.partition_index
    partition = topic.partitions.get(index)
    if partition is None:
        text = f"Unable to find partition {name}:{index}."
        return ApiError(ErrorCode.unknown_topic_or_partition, text)
    key = (topic.topic_id, index)
    if wanted.replicas is None:
        target = _cancelled(draft.image, topic, key, partition, policy)
    else:
        replicas = tuple(NodeId(replica) for replica in wanted.replicas)
        target = _moved(draft.image, partition, replicas, allows_factor_change=allows_factor_change)
    if isinstance(target, ApiError):
        return target
    record = change_record(draft.image, key, target, policy)
    if record is not None:
        draft.emit(record)
    return None


def _moved(
    image: Image,
    partition: Partition,
    replicas: tuple[NodeId, ...],
    *,
    allows_factor_change: bool,
) -> Target | ApiError:
    text = manual_assignment_error(image, replicas, None)
    if text is not None:
        return ApiError(ErrorCode.invalid_replica_assignment, text)
    size = len(set(partition.replicas) - set(partition.removing_replicas))
    if not allows_factor_change and size != len(replicas):
        text = f"The replication factor is changed from {size} to {len(replicas)}"
        return ApiError(ErrorCode.invalid_replication_factor, text)
    removing = tuple(sorted(set(partition.replicas) - set(replicas)))
    added = set(replicas) - set(partition.replicas)
    return Target(
        replicas=(*replicas, *removing),
        removing_replicas=removing,
        adding_replicas=tuple(sorted(added.union(partition.adding_replicas))),
    )


def _cancelled(
    image: Image, topic: Topic, key: TopicIdPartition, partition: Partition, policy: ElectionPolicy
) -> Target | ApiError:
    if not partition.is_reassigning:
        return ApiError(ErrorCode.no_reassignment_in_progress)
    adding = partition.adding_replicas
    replicas = tuple(replica for replica in partition.replicas if replica not in adding)
    isr = tuple(replica for replica in partition.isr if replica not in adding)
    if not isr:
        if not unclean_election(image, topic.name, policy):
            text = (
                f"Unable to revert partition assignment for {topic.name}:{key[1]} because it "
                "would require an unclean leader election."
            )
            return ApiError(ErrorCode.invalid_replica_assignment, text)
        isr = replicas[:1]
    return Target(replicas=replicas, isr=isr, removing_replicas=(), adding_replicas=())


# --- listing ------------------------------------------------------------------------------------


def list_partition_reassignments(
    image: Image, request: "ListPartitionReassignmentsRequest", _context: QueryContext
) -> Entity:
    """The reassignments in progress; unknown names and numbers are left out.

    With a null list every partition is examined, some 0.1 us each.
    """
    new = codec.newest(LIST_PARTITION_REASSIGNMENTS, "response")
    topics = []
    for topic, numbers in _asked(image, request.topics):
        rows = tuple(
            new.OngoingPartitionReassignment(
                partition_index=number,
                replicas=partition.replicas,
                adding_replicas=partition.adding_replicas,
                removing_replicas=partition.removing_replicas,
            )
            for number in numbers
            if (partition := topic.partitions.get(number)) is not None and partition.is_reassigning
        )
        if rows:
            topics.append(new.OngoingTopicReassignment(name=topic.name, partitions=rows))
    return new.ListPartitionReassignmentsResponse(
        throttle_time=NO_TIME,
        error_code=ErrorCode.none,
        error_message=None,
        topics=tuple(topics),
    )


def _asked(
    image: Image, wanted: "tuple[ListPartitionReassignmentsTopics, ...] | None"
) -> Iterable[tuple[Topic, Iterable[int]]]:
    if wanted is None:
        for _, topic_id in sorted_items(image.topic_id_by_name):
            topic = image.topics[topic_id]
            yield topic, range(len(topic.partitions))
        return
    for row in wanted:
        found = image.topic_named(row.name)
        if found is not None:
            yield found, row.partition_indexes
