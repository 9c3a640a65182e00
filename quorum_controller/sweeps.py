"""Work over many partitions in slices: fencing, unfencing, controlled shutdown, unregistration.

A slice makes at most RECORDS_PER_SLICE_MAX records and re-reads the latest image, so that one dead
broker with 100,000 partitions does not stop the controller. The record that ends the work (fence,
unregister) is in the last slice: a crash between slices only means that it is done again.
Source: apache/kafka: metadata/.../controller/ReplicationControlManager.java
(generateLeaderAndIsrUpdates, handleBrokerFenced, handleBrokerUnfenced).
"""

from collections import deque
from enum import Enum, auto
from typing import Final

from metadata.image import Broker, Image
from metadata.records import (
    REGISTRATION_FENCE,
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)
from quorum_controller.partition_change import Target, change_record
from quorum_controller.partition_index import Electorate
from quorum_controller.partitions import ElectionPolicy, TopicPartition
from quorum_controller.result import RECORDS_PER_SLICE_MAX, Draft
from wire.types import BrokerEpoch, NodeId, Offset

REGISTRATION_CHANGE_LEVEL: Final = 6
"""metadata.version from which BrokerRegistrationChangeRecord replaces (Un)FenceBrokerRecord."""


class SweepKind(Enum):
    """What happens to the broker."""

    FENCE = auto()
    UNFENCE = auto()
    CONTROLLED_SHUTDOWN = auto()
    UNREGISTER = auto()
    UNCLEAN_SHUTDOWN = auto()
    """It is fenced, and what it had may be lost: it leaves every ELR too (KIP-966)."""


_LEAVES_ELR: Final = (SweepKind.UNREGISTER, SweepKind.UNCLEAN_SHUTDOWN)


class Sweep:
    """Progress of one sweep; it ends early when the registration it belongs to is gone."""

    __slots__ = ("broker_epoch", "broker_id", "end_offset", "is_disturbed", "kind", "remaining")

    def __init__(self, kind: SweepKind, broker: Broker) -> None:
        self.kind = kind
        self.broker_id: NodeId = broker.id
        self.broker_epoch: BrokerEpoch = broker.epoch
        self.remaining: deque[TopicPartition] | None = None
        self.end_offset: Offset | None = None
        """Where the last slice ended."""
        self.is_disturbed = False
        """Other records came between the slices."""


def sweep_slice(draft: Draft, sweep: Sweep, electorate: Electorate) -> bool:
    """Emit the next slice; True when the sweep is done."""
    broker = draft.image.brokers.get(sweep.broker_id)
    if broker is None or broker.epoch != sweep.broker_epoch:
        return True
    if sweep.end_offset not in (None, draft.base_offset):
        sweep.is_disturbed = True
    if sweep.remaining is None:
        sweep.remaining = deque(_candidates(draft.image, sweep, electorate))
    remaining, policy = sweep.remaining, _policy(sweep, electorate)
    while remaining and len(draft.records) < RECORDS_PER_SLICE_MAX - 1:
        record = _change(draft.image, remaining.popleft(), sweep, policy)
        if record is not None:
            draft.emit(record)
    sweep.end_offset = draft.end_offset
    if remaining:
        return False
    if sweep.is_disturbed:
        # Other requests ran between the slices: a new topic may have put the broker into an ISR.
        image = draft.image
        missed = [
            candidate
            for candidate in _candidates(image, sweep, electorate)
            if _change(image, candidate, sweep, policy) is not None
        ]
        sweep.is_disturbed = False
        if missed:
            sweep.remaining = deque(missed)
            return False
    _emit_last_record(draft, sweep, broker)
    assert len(draft.records) <= RECORDS_PER_SLICE_MAX, f"{len(draft.records)=}"
    return True


def removal_records(
    image: Image, sweep: Sweep, electorate: Electorate
) -> list[PartitionChangeRecord]:
    """All partition changes of a sweep at once, in partition order, without its last record."""
    records, policy = [], _policy(sweep, electorate)
    for candidate in _candidates(image, sweep, electorate):
        record = _change(image, candidate, sweep, policy)
        if record is not None:
            records.append(record)
    return records


def _candidates(image: Image, sweep: Sweep, electorate: Electorate) -> list[TopicPartition]:
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


def _change(
    image: Image, candidate: TopicPartition, sweep: Sweep, policy: ElectionPolicy
) -> PartitionChangeRecord | None:
    partition = image.partition(*candidate)
    if partition is None:
        return None
    broker_id = sweep.broker_id
    if sweep.kind is SweepKind.UNFENCE:
        return change_record(image, candidate, Target(), policy)
    target = Target(
        isr=tuple(replica for replica in partition.isr if replica != broker_id),
        unclean_shutdown=broker_id if sweep.kind in _LEAVES_ELR else None,
    )
    return change_record(image, candidate, target, policy)


def _emit_last_record(draft: Draft, sweep: Sweep, broker: Broker) -> None:
    if sweep.kind is SweepKind.UNREGISTER:
        draft.emit(UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch))
    elif sweep.kind in (SweepKind.FENCE, SweepKind.UNCLEAN_SHUTDOWN) and not broker.fenced:
        if draft.image.metadata_version >= REGISTRATION_CHANGE_LEVEL:
            draft.emit(
                BrokerRegistrationChangeRecord(
                    broker_id=broker.id, broker_epoch=broker.epoch, fenced=REGISTRATION_FENCE
                )
            )
        else:
            draft.emit(FenceBrokerRecord(id=broker.id, epoch=broker.epoch))
