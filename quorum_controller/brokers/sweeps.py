"""Sweeps over the partitions of a broker: fencing, unfencing, controlled shutdown, unregistration.

A sweep works in slices. Partitions that the broker leads come first: they are not writable until
another broker leads them. A slice emits at most RECORDS_PER_SLICE_MAX records and reads the latest
image, so that one dead broker with 100,000 partitions does not block the controller. The record
that completes the work (fence, unregister) is in the last slice: after a crash between slices the
work is repeated.
Source: apache/kafka: metadata/.../controller/ReplicationControlManager.java
(generateLeaderAndIsrUpdates, handleBrokerFenced, handleBrokerUnfenced).
"""

from collections import deque
from enum import Enum, auto
from typing import Final

from metadata.features import LEVEL_REGISTRATION_CHANGE
from metadata.image import CONFIG_TOPIC, Broker, Image, Partition
from metadata.records import (
    REGISTRATION_FENCE,
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)
from quorum_controller.partitions.electorate import ElectionPolicy
from quorum_controller.partitions.elr import is_elr_enabled
from quorum_controller.partitions.partition_change import ChangedFields, Target, changed_fields
from quorum_controller.partitions.partition_index import Electorate
from quorum_controller.result import RECORDS_PER_SLICE_MAX, Draft
from wire.types import BrokerEpoch, NodeId, Offset, TopicId, TopicIdPartition

LOOKS_PER_SLICE_MAX: Final = 4 * RECORDS_PER_SLICE_MAX
"""Partitions that one slice examines; in most of them the broker has a replica."""


class SweepKind(Enum):
    """The transition of the broker."""

    FENCE = auto()
    UNFENCE = auto()
    CONTROLLED_SHUTDOWN = auto()
    UNREGISTER = auto()
    UNCLEAN_SHUTDOWN = auto()
    """Fenced after a possible loss of data: removed from every ELR too (KIP-966)."""


_LEAVES_ELR: Final = (SweepKind.UNREGISTER, SweepKind.UNCLEAN_SHUTDOWN)


class Sweep:
    """Progress of one sweep; it ends early when its registration is replaced or removed."""

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "end_offset",
        "followed",
        "is_disturbed",
        "kind",
        "remaining",
        "topics",
    )

    def __init__(self, kind: SweepKind, broker: Broker) -> None:
        self.kind = kind
        self.broker_id: NodeId = broker.id
        self.broker_epoch: BrokerEpoch = broker.epoch
        self.topics: deque[TopicId] | None = None
        """Topics to examine, in order; their partitions are read when reached. None: not begun."""
        self.remaining: deque[TopicIdPartition] = deque()
        """Partitions to examine before the topics."""
        self.followed: list[TopicIdPartition] | None = None
        """Partitions led by other brokers, to examine after all topics; then None."""
        self.end_offset: Offset | None = None
        """End offset of the last slice, exclusive."""
        self.is_disturbed = False
        """True if other records were written between the slices."""


def sweep_slice(draft: Draft, sweep: Sweep, electorate: Electorate) -> bool:
    """Emit the next slice; True when the sweep is done."""
    broker = draft.image.brokers.get(sweep.broker_id)
    if broker is None or broker.epoch != sweep.broker_epoch:
        return True
    if sweep.end_offset not in (None, draft.base_offset):
        sweep.is_disturbed = True
    if sweep.topics is None:
        _begin(sweep, electorate)
    choices = _Choices(draft.image, sweep, electorate)
    looks_left = LOOKS_PER_SLICE_MAX
    while looks_left and len(draft.records) < RECORDS_PER_SLICE_MAX - 1:
        looks_left -= 1
        candidate = _next_candidate(draft.image, sweep)
        if candidate is None:
            break
        record = _look(draft.image, sweep, choices, candidate)
        if record is not None:
            draft.emit(record)
    sweep.end_offset = draft.end_offset
    if sweep.remaining or sweep.topics or sweep.followed:
        return False
    if sweep.is_disturbed:
        # Other requests ran between the slices: a new topic may have put the broker into an ISR.
        image = draft.image
        missed = [
            candidate
            for candidate in _candidates(image, sweep, electorate)
            if choices.change(image, candidate) is not None
        ]
        sweep.is_disturbed = False
        if missed:
            sweep.remaining = deque(missed)
            return False
    _emit_last_record(draft, sweep, broker)
    assert len(draft.records) <= RECORDS_PER_SLICE_MAX, f"{len(draft.records)=}"
    return True


def _begin(sweep: Sweep, electorate: Electorate) -> None:
    if sweep.kind is SweepKind.UNFENCE:
        sweep.topics = deque()
        sweep.remaining = deque(sorted(electorate.index.leaderless))
    else:
        sweep.topics = deque(sorted(electorate.index.topics_of(sweep.broker_id)))
        sweep.followed = []


def _next_candidate(image: Image, sweep: Sweep) -> TopicIdPartition | None:
    """The next partition to examine, None at the end; the broker may have no replica of it."""
    assert sweep.topics is not None, "the sweep has begun"
    while not sweep.remaining:
        if not sweep.topics:
            if not sweep.followed:
                return None
            sweep.remaining, sweep.followed = deque(sweep.followed), None
            break
        topic_id = sweep.topics.popleft()
        topic = image.topics.get(topic_id)
        if topic is not None:
            sweep.remaining.extend((topic_id, number) for number in sorted(topic.partitions))
    return sweep.remaining.popleft()


def _look(
    image: Image, sweep: Sweep, choices: "_Choices", candidate: TopicIdPartition
) -> PartitionChangeRecord | None:
    """The record that a partition needs; a partition led by another broker is postponed."""
    if sweep.followed is not None and not _leads(image, sweep.broker_id, candidate):
        sweep.followed.append(candidate)
        return None
    return choices.change(image, candidate)


def _leads(image: Image, broker_id: NodeId, candidate: TopicIdPartition) -> bool:
    partition = image.partition(*candidate)
    return partition is not None and partition.leader == broker_id


def removal_records(
    image: Image, sweep: Sweep, electorate: Electorate
) -> list[PartitionChangeRecord]:
    """All partition changes of a sweep at once, in partition order, without its last record."""
    records, choices = [], _Choices(image, sweep, electorate)
    for candidate in _candidates(image, sweep, electorate):
        record = choices.change(image, candidate)
        if record is not None:
            records.append(record)
    return records


def _candidates(image: Image, sweep: Sweep, electorate: Electorate) -> list[TopicIdPartition]:
    index, broker_id = electorate.index, sweep.broker_id
    if sweep.kind is SweepKind.UNFENCE:
        return sorted(index.leaderless)
    if sweep.kind in _LEAVES_ELR:
        return index.partitions_of(
            image, broker_id, lambda p: broker_id in p.isr or broker_id in p.elr
        )
    return index.partitions_of(image, broker_id, lambda partition: broker_id in partition.isr)


def _policy(sweep: Sweep, electorate: Electorate) -> ElectionPolicy:
    if sweep.kind is SweepKind.UNFENCE:
        return electorate.policy(always=sweep.broker_id)
    return electorate.policy(never=sweep.broker_id)


class _Choices:
    """The changes of the partitions of one slice, computed once for equal partitions.

    Brokers, features and configs do not change during a slice, so a change is taken to depend only
    on the partition without its epochs, and with ELR on the replication factor of its topic; in
    topics with configs of their own each is computed.
    """

    __slots__ = ("_configs", "_has_elr", "_known", "_policy", "_sweep")

    def __init__(self, image: Image, sweep: Sweep, electorate: Electorate) -> None:
        self._configs = image.configs
        self._has_elr = is_elr_enabled(image)
        self._known: dict[tuple[object, ...], ChangedFields] = {}
        self._policy = _policy(sweep, electorate)
        self._sweep = sweep

    def change(self, image: Image, candidate: TopicIdPartition) -> PartitionChangeRecord | None:
        """Return the record that the sweep needs for a partition of this image, None if none."""
        assert image.configs is self._configs, "a slice changes no config"
        topic_id, partition_id = candidate
        topic = image.topics.get(topic_id)
        partition = None if topic is None else topic.partitions.get(partition_id)
        if topic is None or partition is None or not self._concerns(partition):
            return None
        if (CONFIG_TOPIC, topic.name) in self._configs:
            changes = self._decide(image, topic.name, partition)
        else:
            factor = len(topic.partitions[0].replicas) if self._has_elr else 0
            alike = (factor, *_without_epochs(partition))
            found = self._known.get(alike)
            if found is None:
                found = self._known[alike] = self._decide(image, topic.name, partition)
            changes = found
        if not changes:
            return None
        return PartitionChangeRecord(partition_id=partition_id, topic_id=topic_id, **changes)

    def _concerns(self, partition: Partition) -> bool:
        sweep = self._sweep
        if sweep.kind is SweepKind.UNFENCE or sweep.broker_id in partition.isr:
            return True
        return sweep.kind in _LEAVES_ELR and sweep.broker_id in partition.elr

    def _decide(self, image: Image, topic_name: str, partition: Partition) -> ChangedFields:
        sweep = self._sweep
        target = Target()
        if sweep.kind is not SweepKind.UNFENCE:
            broker_id = sweep.broker_id
            target = Target(
                isr=tuple(replica for replica in partition.isr if replica != broker_id),
                unclean_shutdown=broker_id if sweep.kind in _LEAVES_ELR else None,
            )
        return changed_fields(image, topic_name, partition, target, self._policy)


def _without_epochs(partition: Partition) -> tuple[object, ...]:
    return (
        partition.replicas,
        partition.isr,
        partition.leader,
        partition.directories,
        partition.removing_replicas,
        partition.adding_replicas,
        partition.leader_recovery_state,
        partition.elr,
        partition.last_known_elr,
    )


def _emit_last_record(draft: Draft, sweep: Sweep, broker: Broker) -> None:
    if sweep.kind is SweepKind.UNREGISTER:
        draft.emit(UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch))
    elif sweep.kind in (SweepKind.FENCE, SweepKind.UNCLEAN_SHUTDOWN) and not broker.fenced:
        if draft.image.metadata_version >= LEVEL_REGISTRATION_CHANGE:
            draft.emit(
                BrokerRegistrationChangeRecord(
                    broker_id=broker.id, broker_epoch=broker.epoch, fenced=REGISTRATION_FENCE
                )
            )
        else:
            draft.emit(FenceBrokerRecord(id=broker.id, epoch=broker.epoch))
