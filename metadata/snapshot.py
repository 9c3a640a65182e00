"""The content of a snapshot: an image as records in Kafka's order, in batches.

    control batch   SnapshotHeader [KRaftVersion KRaftVoters]
    data batches    at most 1024 records each, offsets counted from 0 over the whole file
    control batch   SnapshotFooter

Every batch carries the epoch of the snapshot. Tests verify that
`image_of(snapshot_records(image)) == image` except for `registration_offset`, which becomes the
broker epoch, and the provenance, which comes from the snapshot's name and header.
(apache/kafka: MetadataImage.write, RecordsSnapshotWriter.java)
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from metadata import record_codec
from metadata.control_records import (
    ControlRecord,
    SnapshotFooter,
    SnapshotHeader,
    control_type,
    decode_control,
    encode_control,
)
from metadata.conversion import copied
from metadata.features import LEVEL_DIRECTORIES, record_version
from metadata.image import METADATA_VERSION, Image, sorted_items
from metadata.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from metadata.schema import Record
from metadata.snapshot_decoder import SnapshotDecoder
from wire.batches.batch import encode_batch, encode_control_batch, iterate_batches
from wire.types import DIRECTORY_MIGRATING, LeaderEpoch, NodeId, TopicId

RECORDS_PER_BATCH: Final = 1024  # apache/kafka: SnapshotGenerator / RaftSnapshotWriter


class SnapshotContent(msgspec.Struct, frozen=True, gc=False):
    """The decoded content of a snapshot file: metadata records and control records."""

    last_contained_timestamp_ms: int
    records: tuple[Record, ...]
    control_records: tuple[ControlRecord, ...]  # without header and footer


def snapshot_records(image: Image) -> Iterator[Record]:
    """The records that build the image from nothing, in Kafka's order, each kind sorted by key."""
    yield from _feature_records(image)
    if image.zk_migration_state is not None:
        yield ZkMigrationStateRecord(zk_migration_state=image.zk_migration_state)
    yield from _registration_records(image)
    yield from _topic_records(image)
    for (resource_type, resource_name), configs in sorted_items(image.configs):
        for name, value in sorted_items(configs):
            yield ConfigRecord(
                resource_type=resource_type, resource_name=resource_name, name=name, value=value
            )
    yield from _quota_records(image)
    if image.producer_ids is not None:
        yield ProducerIdsRecord(broker_id=NodeId(-1), next_producer_id=image.producer_ids)
    yield from _security_records(image)


def encode_snapshot(
    records: Iterable[Record],
    *,
    level: int,
    epoch: LeaderEpoch,
    last_contained_timestamp_ms: int,
    timestamp_ms: int,
    control_records: Sequence[ControlRecord] = (),
    pause_records: int = RECORDS_PER_BATCH,
) -> Iterator[bytes]:
    """The batches of a snapshot file, one after the other.

    Empty bytes are yielded after each `pause_records` records, so that the caller can do other work
    in between.

    Args:
        records: from `snapshot_records`, or those of a bootstrap file.
        level: metadata.version that decides the record versions.
        epoch: leader epoch of the last record covered; also in the file's name.
        last_contained_timestamp_ms: append time of the last record covered.
        timestamp_ms: now.
        control_records: KRaftVersion and KRaftVoters when kraft.version is 1.
        pause_records: records between two pauses.

    Raises:
        MetadataRecordError: a record holds what the level cannot carry.
    """
    header = SnapshotHeader(last_contained_log_timestamp=last_contained_timestamp_ms)
    first = [encode_control(record) for record in (header, *control_records)]
    yield encode_control_batch(first, 0, epoch, timestamp_ms)
    base_offset = len(first)
    values: list[bytes] = []
    for record in records:
        values.append(record_codec.encode(record, record_version(record, level)))
        if len(values) == RECORDS_PER_BATCH:
            yield encode_batch(values, base_offset, epoch, timestamp_ms)
            base_offset += len(values)
            values = []
        elif len(values) % pause_records == 0:
            yield b""
    if values:
        yield encode_batch(values, base_offset, epoch, timestamp_ms)
        base_offset += len(values)
    yield encode_control_batch([encode_control(SnapshotFooter())], base_offset, epoch, timestamp_ms)


def snapshot_timestamp_ms(start: bytes | memoryview) -> int | None:
    """The append time of the last record covered, from the first bytes of a file; None if unknown.

    `start` contains at least the first batch.
    """
    for batch in iterate_batches(start):
        for view in batch.records():
            if batch.header.is_control:
                known = decode_control(control_type(view.key), view.value)
                if isinstance(known, SnapshotHeader):
                    return known.last_contained_log_timestamp
        break
    return None


def decode_snapshot(content: bytes | memoryview) -> SnapshotContent:
    """Read a whole snapshot file.

    Raises:
        MetadataRecordError: header or footer is missing, a checksum does not match, bytes are left
            over, or a record cannot be read.
        CorruptBatchError: a batch is damaged.
    """
    decoder = SnapshotDecoder()
    decoder.feed(content)
    records = tuple(decoder.records())
    header, control_records = decoder.finish()
    return SnapshotContent(header.last_contained_log_timestamp, records, control_records)


def _feature_records(image: Image) -> Iterator[Record]:
    names = sorted(image.features, key=lambda name: (name != METADATA_VERSION, name))
    for name in names:
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])


def _registration_records(image: Image) -> Iterator[Record]:
    """Records of the registrations of brokers and controllers, by id."""
    for _, broker in sorted_items(image.brokers):
        yield RegisterBrokerRecord(
            broker_id=broker.id,
            is_migrating_zk_broker=broker.is_migrating_zk_broker,
            incarnation_id=broker.incarnation_id,
            broker_epoch=broker.epoch,
            end_points=broker.endpoints,
            features=broker.features,
            rack=broker.rack,
            fenced=broker.fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown,
            log_dirs=broker.log_dirs,
            cordoned_log_dirs=broker.cordoned_log_dirs,
        )
    for _, controller in sorted_items(image.controllers):
        yield RegisterControllerRecord(
            controller_id=controller.id,
            incarnation_id=controller.incarnation_id,
            zk_migration_ready=controller.zk_migration_ready,
            end_points=controller.endpoints,
            features=controller.features,
        )


def _topic_records(image: Image) -> Iterator[Record]:
    """Records of the topics and of their partitions, in the order of the snapshot."""
    with_directories = image.metadata_version >= LEVEL_DIRECTORIES
    for topic_id in _topic_ids(image):
        topic = image.topics[topic_id]
        yield TopicRecord(name=topic.name, topic_id=topic_id)
        for partition_id, partition in sorted_items(topic.partitions):
            known = any(item != DIRECTORY_MIGRATING for item in partition.directories)
            yield PartitionRecord(
                partition_id=partition_id,
                topic_id=topic_id,
                replicas=partition.replicas,
                isr=partition.isr,
                removing_replicas=partition.removing_replicas,
                adding_replicas=partition.adding_replicas,
                leader=partition.leader,
                leader_recovery_state=partition.leader_recovery_state,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                directories=partition.directories if with_directories or known else (),
                eligible_leader_replicas=partition.elr or None,
                last_known_elr=partition.last_known_elr or None,
            )


def _topic_ids(image: Image) -> Iterator[TopicId]:
    """All topic ids in order; sorted in 256 parts when reached, so that no step takes long."""
    by_first_byte: defaultdict[int, list[TopicId]] = defaultdict(list)
    for topic_id in image.topics:
        by_first_byte[topic_id[0]].append(topic_id)
    for first_byte in sorted(by_first_byte):
        yield from sorted(by_first_byte[first_byte])


def _quota_records(image: Image) -> Iterator[Record]:
    def sort_key(key: Any) -> list[tuple[str, bool, str]]:
        return [(entity_type, name is not None, name or "") for entity_type, name in key]

    for key in sorted(image.client_quotas, key=sort_key):
        entity = tuple(
            QuotaEntity(entity_type=entity_type, entity_name=name) for entity_type, name in key
        )
        for name, value in sorted_items(image.client_quotas[key]):
            yield ClientQuotaRecord(entity=entity, key=name, value=value)


def _security_records(image: Image) -> Iterator[Record]:
    for acl_id, acl in sorted_items(image.acls):
        yield copied(AccessControlEntryRecord, acl, id=acl_id)
    for (mechanism, name), credential in sorted_items(image.scram):
        yield copied(UserScramCredentialRecord, credential, name=name, mechanism=mechanism)
    for token_id, token in sorted_items(image.delegation_tokens):
        yield DelegationTokenRecord(
            owner=token.owner,
            requester=token.requester,
            renewers=token.renewers,
            issue_timestamp=token.issue_timestamp_ms,
            max_timestamp=token.max_timestamp_ms,
            expiration_timestamp=token.expiration_timestamp_ms,
            token_id=token_id,
        )
