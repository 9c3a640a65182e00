"""The ISR of a partition that this broker leads, and the high watermark that follows from it.

    CommittedPartitionState --expand--> PendingExpandIsr --+--> CommittedPartitionState
                            --shrink--> PendingShrinkIsr --+

A change is proposed to the controller (AlterPartition) and pending until its answer, or until
metadata with a later partition epoch replaces the state. Meanwhile the high watermark is that of
the maximal ISR: a replica that is to join counts already, one that is to leave counts still, so
that it is right whichever the controller decides (KIP-497). It does not move while the committed
ISR is smaller than `min.insync.replicas` (KIP-966), and it waits for replicas that are caught up
and may join, or they would never reach it.

Everything here is a value or a function of values. Replicas are the followers by id, without the
leader; ISRs have the leader.

apache/kafka: core/.../cluster/Partition.scala (4.x, KRaft)
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final

import msgspec

from metadata.image import LEADER_RECOVERED
from replication.leader.replica import Registration, ReplicaState
from replication.log_offsets import LogOffsetMetadata
from wire.errors import ErrorCode
from wire.types import BrokerEpoch, LeaderEpoch, NodeId, Offset, PartitionEpoch

Isr = tuple[NodeId, ...]
Replicas = Mapping[NodeId, ReplicaState]
BrokerOf = Callable[[NodeId], Registration | None]


class CommittedPartitionState(msgspec.Struct, frozen=True):
    """The ISR as the controller has it.

    A new leader takes it from the metadata, but as RECOVERED: its next proposal says so.
    """

    isr: Isr
    leader_recovery_state: int = LEADER_RECOVERED


class ProposedIsr(msgspec.Struct, frozen=True, kw_only=True):
    """Proposal of AlterPartition: Kafka's sentLeaderAndIsr."""

    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[tuple[NodeId, BrokerEpoch | None], ...]
    """The new ISR; without an epoch the controller does not compare the registration."""
    leader_recovery_state: int


class PendingExpandIsr(msgspec.Struct, frozen=True):
    """A replica is to join."""

    new_in_sync_replica_id: NodeId
    proposed: ProposedIsr
    last_committed: CommittedPartitionState


class PendingShrinkIsr(msgspec.Struct, frozen=True):
    """Replicas are to leave."""

    out_of_sync_replica_ids: Isr
    proposed: ProposedIsr
    last_committed: CommittedPartitionState


PendingPartitionChange = PendingExpandIsr | PendingShrinkIsr
PartitionState = CommittedPartitionState | PendingPartitionChange


def committed_isr(state: PartitionState) -> Isr:
    """The ISR that the controller has for certain."""
    if isinstance(state, CommittedPartitionState):
        return state.isr
    return state.last_committed.isr


def maximal_isr(state: PartitionState) -> Isr:
    """Everyone who may be in the ISR, whichever the controller decides."""
    if isinstance(state, PendingExpandIsr):
        return (*state.last_committed.isr, state.new_in_sync_replica_id)
    return committed_isr(state)


def effective_min_isr(min_insync_replicas: int, replica_count: int) -> int:
    """`min.insync.replicas`, at most the number of replicas."""
    return min(min_insync_replicas, replica_count)


# --- changes


def needs_expansion(
    state: PartitionState,
    replica_id: NodeId,
    replica: ReplicaState | None,
    broker: Registration | None,
    *,
    high_watermark: Offset,
    epoch_start_offset: Offset,
) -> bool:
    """True if a follower has what it needs to join the ISR, and no change is pending.

    It has all that is committed, and all that was in the log when this leadership started: below
    that may be records which are committed while the leader does not know it yet.
    """
    if not isinstance(state, CommittedPartitionState) or replica_id in state.isr:
        return False
    if replica is None or not replica.is_eligible(broker):
        return False
    assert replica.log_end is not None, "an eligible replica has fetched"
    return replica.log_end.offset >= max(high_watermark, epoch_start_offset)


def out_of_sync_replicas(
    state: PartitionState,
    leader_id: NodeId,
    replicas: Replicas,
    *,
    leader_end_offset: Offset,
    now_ms: int,
    lag_ms_max: int,
) -> Isr:
    """Members of the ISR that were not caught up for too long; none while a change is pending."""
    if not isinstance(state, CommittedPartitionState):
        return ()

    def is_out_of_sync(member: NodeId) -> bool:
        replica = replicas.get(member)
        return replica is None or not replica.is_caught_up(leader_end_offset, now_ms, lag_ms_max)

    return tuple(member for member in state.isr if member != leader_id and is_out_of_sync(member))


class Epochs(msgspec.Struct, frozen=True):
    """Epochs that a proposal names."""

    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    """The one that the state has."""
    broker_epochs: Mapping[NodeId, BrokerEpoch | None]
    """Of the leader and of its followers as they last fetched."""


def expand(state: CommittedPartitionState, replica_id: NodeId, epochs: Epochs) -> PendingExpandIsr:
    """Propose the ISR with one more replica, a follower that joins."""
    assert replica_id not in state.isr, f"{replica_id=} {state.isr=}"
    return PendingExpandIsr(replica_id, _proposed(state, (*state.isr, replica_id), epochs), state)


def shrink(state: CommittedPartitionState, out_of_sync: Isr, epochs: Epochs) -> PendingShrinkIsr:
    """Propose the ISR without some members."""
    assert out_of_sync, "a shrink without a member that leaves"
    assert set(out_of_sync) < set(state.isr), f"{out_of_sync=} {state.isr=}"
    members = (member for member in state.isr if member not in out_of_sync)
    return PendingShrinkIsr(out_of_sync, _proposed(state, members, epochs), state)


def _proposed(
    state: CommittedPartitionState, members: Iterable[NodeId], epochs: Epochs
) -> ProposedIsr:
    return ProposedIsr(
        leader_epoch=epochs.leader_epoch,
        partition_epoch=epochs.partition_epoch,
        isr=tuple((member, epochs.broker_epochs.get(member)) for member in members),
        leader_recovery_state=state.leader_recovery_state,
    )


# --- answers of the controller


class LeaderAndIsr(msgspec.Struct, frozen=True, kw_only=True):
    """A partition as the controller answers that it is."""

    leader_id: NodeId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: Isr
    leader_recovery_state: int


class Outcome(Enum):
    """Outcome of a proposal, by its answer."""

    ADOPTED = "the controller's ISR is the committed one"
    ROLLED_BACK = "the controller refused, and knows no later state: the proposal is dropped"
    WAITING = "the partition changed: it stays pending until metadata comes"
    TO_RETRY = "the controller could not decide: the same proposal is sent again"
    IGNORED = "metadata was faster: the state is another one by now"


_ROLLED_BACK: Final = frozenset({ErrorCode.operation_not_attempted, ErrorCode.ineligible_replica})
_WAITING: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.invalid_update_version,
        ErrorCode.invalid_request,
        ErrorCode.new_leader_elected,
    }
)


def outcome_of(
    state: PartitionState,
    proposed: ProposedIsr,
    answer: LeaderAndIsr | ErrorCode,
    *,
    leader_epoch: LeaderEpoch,
    partition_epoch: PartitionEpoch,
) -> Outcome:
    """Outcome of an answer in the state that the partition has now, with its epochs.

    An accepted proposal is ADOPTED also with an equal partition epoch: nothing was to be changed.
    """
    if isinstance(state, CommittedPartitionState) or state.proposed != proposed:
        return Outcome.IGNORED
    if isinstance(answer, LeaderAndIsr):
        is_current = (
            answer.leader_epoch == leader_epoch and answer.partition_epoch >= partition_epoch
        )
        return Outcome.ADOPTED if is_current else Outcome.WAITING
    if answer in _ROLLED_BACK:
        return Outcome.ROLLED_BACK
    return Outcome.WAITING if answer in _WAITING else Outcome.TO_RETRY


def adopted(answer: LeaderAndIsr) -> CommittedPartitionState:
    """State after an answer that is ADOPTED; its partition epoch is the partition's."""
    return CommittedPartitionState(answer.isr, answer.leader_recovery_state)


# --- watermarks


def high_watermark(
    state: PartitionState,
    current: LogOffsetMetadata,
    log_end: LogOffsetMetadata,
    replicas: Replicas,
    broker_of: BrokerOf,
    *,
    min_isr: int,
    now_ms: int,
    lag_ms_max: int,
) -> LogOffsetMetadata | None:
    """The new high watermark of a leader, None if it stays.

    Args:
        state: of the ISR.
        current: the high watermark, never lowered.
        log_end: of the leader.
        replicas: the followers.
        broker_of: registration of a follower's broker.
        min_isr: `effective_min_isr`.
        now_ms: instant that lag is counted to.
        lag_ms_max: `replica.lag.time.max.ms`.
    """
    assert current.offset <= log_end.offset, f"{current=} {log_end=}"
    if len(committed_isr(state)) < min_isr:
        return None
    members = maximal_isr(state)
    new = log_end
    for replica_id, replica in replicas.items():
        end = replica.log_end
        if end is not None and end.offset >= new.offset:
            continue
        if replica_id not in members and not (
            replica.is_caught_up(log_end.offset, now_ms, lag_ms_max)
            and replica.is_eligible(broker_of(replica_id))
        ):
            continue
        if end is None:  # a member that has not fetched yet
            return None
        new = end
    return new if _is_raised(current, new) else None


def _is_raised(current: LogOffsetMetadata, new: LogOffsetMetadata) -> bool:
    """True for a later offset, or the same one on a later segment: the log rolled there."""
    if new.offset > current.offset:
        return True
    if new.offset < current.offset or new.place is None or current.place is None:
        return False
    return new.place[0] > current.place[0]


def low_watermark(
    log_start_offset: Offset, replicas: Replicas, broker_of: BrokerOf
) -> Offset | None:
    """Smallest log start offset of the leader and its live followers, for DeleteRecords.

    None while one of them has not fetched. Live is a registered broker that is not fenced.
    """
    lowest = log_start_offset
    for replica_id, replica in replicas.items():
        broker = broker_of(replica_id)
        if broker is None or broker.fenced:
            continue
        if replica.log_start_offset is None:
            return None
        lowest = min(lowest, replica.log_start_offset)
    return lowest
