"""Application of the records about topics and partitions; maintains the topic name indexes."""

from typing import Any, Final, TypeVar

from msgspec.structs import replace

from metadata.delta import MetadataDelta
from metadata.errors import IllegalRecordError
from metadata.image import CONFIG_TOPIC, Image, Partition, Topic, normalised_topic_name
from metadata.records import (
    LEADER_RECOVERED,
    LEADER_RECOVERING,
    NO_LEADER,
    NO_LEADER_CHANGE,
    NO_RECOVERY_STATE_CHANGE,
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from metadata.schema import Record
from wire.types import (
    DIRECTORY_MIGRATING,
    DirectoryId,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    TopicId,
)

SHARED_MAX: Final = 4096
"""Limit of interned id lists: few distinct ones exist, and a tuple of three takes 70 bytes."""
Ids = TypeVar("Ids", bound=tuple[Any, ...])
_SHARED: Final[dict[tuple[Any, ...], Any]] = {}


def _create_topic(image: Image, record: TopicRecord, offset: Offset, delta: MetadataDelta) -> Image:
    del offset
    if record.name in image.topic_id_by_name:
        raise IllegalRecordError(record, "a topic of this name exists")
    if record.topic_id in image.topics:
        raise IllegalRecordError(record, "a topic with this id exists")
    normalised = normalised_topic_name(record.name)
    names = image.topic_names_by_normalised.get(normalised, ())
    delta.on_topic_created(record.topic_id)
    return replace(
        image,
        topics=image.topics.set(record.topic_id, Topic(record.topic_id, record.name)),
        topic_id_by_name=image.topic_id_by_name.set(record.name, record.topic_id),
        topic_names_by_normalised=image.topic_names_by_normalised.set(
            normalised, tuple(sorted((*names, record.name)))
        ),
    )


def _remove_topic(
    image: Image, record: RemoveTopicRecord, offset: Offset, delta: MetadataDelta
) -> Image:
    """Remove a topic with its partitions, its names in the indexes and its configs."""
    del offset
    topic = _live_topic(image, record, record.topic_id)
    normalised = normalised_topic_name(topic.name)
    names = tuple(
        name for name in image.topic_names_by_normalised[normalised] if name != topic.name
    )
    by_normalised = (
        image.topic_names_by_normalised.set(normalised, names)
        if names
        else image.topic_names_by_normalised.delete(normalised)
    )
    resource = (CONFIG_TOPIC, topic.name)
    configs = image.configs.delete(resource) if resource in image.configs else image.configs
    delta.on_topic_deleted(topic.topic_id, topic.name, topic.partitions)
    return replace(
        image,
        topics=image.topics.delete(topic.topic_id),
        topic_id_by_name=image.topic_id_by_name.delete(topic.name),
        topic_names_by_normalised=by_normalised,
        configs=configs,
    )


def _set_partition(
    image: Image, record: PartitionRecord, offset: Offset, delta: MetadataDelta
) -> Image:
    """Set a partition from its full record."""
    # A partition that exists is replaced as a whole: Kafka's replay does the same.
    del offset
    topic = _live_topic(image, record, record.topic_id)
    if record.partition_id < 0:
        raise IllegalRecordError(record, "a negative partition id")
    if record.leader < NO_LEADER:
        raise IllegalRecordError(record, f"leader={record.leader}")
    _check_recovery_state(record, record.leader_recovery_state)
    directories = _directories(record, record.directories, len(record.replicas))
    partition = Partition(
        replicas=_shared(record.replicas),
        isr=_shared(record.isr),
        removing_replicas=record.removing_replicas,
        adding_replicas=record.adding_replicas,
        leader=record.leader,
        leader_recovery_state=record.leader_recovery_state,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        directories=_shared(directories),
        elr=record.eligible_leader_replicas or (),
        last_known_elr=record.last_known_elr or (),
    )
    return _with_partition(image, topic, record.partition_id, partition, delta)


def _change_partition(
    image: Image, record: PartitionChangeRecord, offset: Offset, delta: MetadataDelta
) -> Image:
    del offset
    topic = _live_topic(image, record, record.topic_id)
    partition = topic.partitions.get(record.partition_id)
    if partition is None:
        raise IllegalRecordError(record, f"topic {topic.name} has no such partition")
    merged = merge_partition(partition, record)
    return _with_partition(image, topic, record.partition_id, merged, delta)


def merge_partition(partition: Partition, record: PartitionChangeRecord) -> Partition:
    """The partition after a change (apache/kafka: PartitionRegistration.merge).

    Raises:
        IllegalRecordError: directories do not match replicas in number, or a value is unknown.
    """
    replicas = partition.replicas if record.replicas is None else record.replicas
    leader, leader_epoch = partition.leader, partition.leader_epoch
    if record.leader != NO_LEADER_CHANGE:
        if record.leader < NO_LEADER:
            raise IllegalRecordError(record, f"leader={record.leader}")
        leader, leader_epoch = record.leader, LeaderEpoch(leader_epoch + 1)
    recovery_state = partition.leader_recovery_state
    if record.leader_recovery_state != NO_RECOVERY_STATE_CHANGE:
        _check_recovery_state(record, record.leader_recovery_state)
        recovery_state = record.leader_recovery_state
    if record.directories is not None:
        directories = _directories(record, record.directories, len(replicas))
    elif record.replicas is not None:
        directories = _directories_after_move(partition, replicas)
    else:
        directories = partition.directories
    elr, last_known = record.eligible_leader_replicas, record.last_known_elr
    isr, removing, adding = record.isr, record.removing_replicas, record.adding_replicas
    return Partition(
        replicas=replicas,
        isr=partition.isr if isr is None else _shared(isr),
        removing_replicas=partition.removing_replicas if removing is None else removing,
        adding_replicas=partition.adding_replicas if adding is None else adding,
        leader=leader,
        leader_recovery_state=recovery_state,
        leader_epoch=leader_epoch,
        partition_epoch=PartitionEpoch(partition.partition_epoch + 1),
        directories=directories,
        elr=partition.elr if elr is None else elr,
        last_known_elr=partition.last_known_elr if last_known is None else last_known,
    )


def _clear_elr(image: Image, record: ClearElrRecord, offset: Offset, delta: MetadataDelta) -> Image:
    """Clear both ELRs of the partitions of one topic, or of all if the record names none."""
    del offset
    topic_ids = list(image.topics)
    if record.topic_name:
        topic_id = image.topic_id_by_name.get(record.topic_name)
        if topic_id is None:
            raise IllegalRecordError(record, "no topic of this name")
        topic_ids = [topic_id]
    topics = image.topics
    for topic_id in topic_ids:
        topic = image.topics[topic_id]
        cleared = {
            partition_id: replace(
                partition,
                elr=(),
                last_known_elr=(),
                partition_epoch=PartitionEpoch(partition.partition_epoch + 1),
            )
            for partition_id, partition in topic.partitions.items()
            if partition.elr or partition.last_known_elr
        }
        if cleared:
            partitions = topic.partitions.update(cleared)
            topics = topics.set(topic_id, Topic(topic_id, topic.name, partitions))
        for partition_id in cleared:
            delta.on_partition_changed(topic_id, partition_id)
    return image if topics is image.topics else replace(image, topics=topics)


def _live_topic(image: Image, record: Record, topic_id: TopicId) -> Topic:
    topic = image.topics.get(topic_id)
    if topic is None:
        raise IllegalRecordError(record, f"no topic has id {topic_id.hex()}")
    return topic


def _with_partition(
    image: Image, topic: Topic, partition_id: int, partition: Partition, delta: MetadataDelta
) -> Image:
    assert len(partition.directories) == len(partition.replicas), f"{partition=}"
    topic_id = topic.topic_id
    delta.on_partition_changed(topic_id, partition_id)
    changed = Topic(topic_id, topic.name, topic.partitions.set(partition_id, partition))
    return replace(image, topics=image.topics.set(topic_id, changed))


def _shared(ids: Ids) -> Ids:
    """The interned tuple equal to `ids`; clearing the cache costs memory, never correctness."""
    found: Ids | None = _SHARED.get(ids)
    if found is None:
        if len(_SHARED) >= SHARED_MAX:
            _SHARED.clear()
        found = _SHARED[ids] = ids
    return found


def _directories(
    record: Record, directories: tuple[DirectoryId, ...], replica_count: int
) -> tuple[DirectoryId, ...]:
    """One directory per replica; an empty list means MIGRATING for every replica."""
    if not directories:
        return (DIRECTORY_MIGRATING,) * replica_count
    if len(directories) != replica_count:
        raise IllegalRecordError(
            record, f"{len(directories)} directories for {replica_count} replicas"
        )
    return directories


def _directories_after_move(
    partition: Partition, replicas: tuple[NodeId, ...]
) -> tuple[DirectoryId, ...]:
    """The directories of the new replicas when a record below metadata.version 17 omits them."""
    known = dict(zip(partition.replicas, partition.directories, strict=True))
    return tuple(known.get(replica, DIRECTORY_MIGRATING) for replica in replicas)


def _check_recovery_state(record: Record, state: int) -> None:
    if state not in (LEADER_RECOVERED, LEADER_RECOVERING):
        raise IllegalRecordError(record, f"leader_recovery_state={state} is unknown")


TOPIC_RECORDS: Final[dict[type[Record], Any]] = {
    TopicRecord: _create_topic,
    RemoveTopicRecord: _remove_topic,
    PartitionRecord: _set_partition,
    PartitionChangeRecord: _change_partition,
    ClearElrRecord: _clear_elr,
}
