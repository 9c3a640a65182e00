"""A partition at its leader: its followers, its ISR and both watermarks.

The rules are functions of values in `isr` and `replica`; here is the state that they are applied
to. What a step changed is returned, so that the caller tries those who wait for the partition, and
sends proposals of ISRs to the controller.

    INV-PT-1  the epochs of a partition never fall
    INV-PT-2  the high watermark of a leader never falls

apache/kafka: core/.../cluster/Partition.scala (makeLeader, updateFollowerFetchState,
maybeShrinkIsr, maybeIncrementLeaderHW, lowWatermarkIfLeader, handleAlterPartitionUpdate)
"""

from collections.abc import Callable

import msgspec

from metadata.image import Partition as PartitionRegistration
from replication import isr
from replication.isr import (
    BrokerOf,
    CommittedPartitionState,
    LeaderAndIsr,
    Outcome,
    PartitionState,
    ProposedIsr,
)
from replication.log_ends import LogEnds
from replication.log_offsets import LogOffsetMetadata
from replication.replica import ReplicaState, new_replica
from storage.logs.unified_log import UnifiedLog
from wire.errors import ErrorCode
from wire.types import BrokerEpoch, LeaderEpoch, NodeId, Offset, PartitionEpoch


class Changed(msgspec.Struct, frozen=True):
    """Change of a partition by one step."""

    high_watermark_raised: bool = False
    """Produce, Fetch and DeleteRecords that wait for the partition may be complete."""
    low_watermark_raised: bool = False
    """As above, for DeleteRecords."""
    proposal: ProposedIsr | None = None
    """To be sent to the controller; `on_answer` takes what it says."""


UNCHANGED = Changed()


class Answered(msgspec.Struct, frozen=True):
    """Outcome of a proposal, and what changed by it."""

    outcome: Outcome
    changed: Changed = UNCHANGED


class LocalBroker(msgspec.Struct, frozen=True):
    """This broker, and others as its metadata has them."""

    node_id: NodeId
    broker_epoch: Callable[[], BrokerEpoch]
    """Of its registration; proposals of ISRs name it."""
    broker_of: BrokerOf
    lag_ms_max: int
    """`replica.lag.time.max.ms`."""


class Leadership:
    """The time from becoming leader to becoming follower, over one leader epoch or several."""

    __slots__ = (
        "_broker",
        "_ends",
        "_log",
        "epoch_start_offset",
        "leader_epoch",
        "min_insync_replicas",
        "partition_epoch",
        "replicas",
        "state",
    )

    def __init__(
        self, broker: LocalBroker, log: UnifiedLog, ends: LogEnds, min_insync_replicas: int
    ) -> None:
        self._broker = broker
        self._log = log
        self._ends = ends
        self.min_insync_replicas = min_insync_replicas
        self.leader_epoch = LeaderEpoch(-1)
        self.partition_epoch = PartitionEpoch(-1)
        self.epoch_start_offset = Offset(log.end_offset)
        """Log end when the leader epoch began."""
        self.replicas: dict[NodeId, ReplicaState] = {}
        """The followers."""
        self.state: PartitionState = CommittedPartitionState(())

    def take(self, registration: PartitionRegistration, now_ms: int) -> Changed:
        """Take the metadata of a partition epoch, which begin a leader epoch or go on with it.

        A later partition epoch ends a pending change. The same one is that of an answer which was
        faster: what was proposed since stays pending (Kafka drops it, and does not count a replica
        that the controller is about to take into the ISR).
        """
        assert registration.leader == self._broker.node_id, f"{registration.leader=}"
        is_new_leader = self.leader_epoch < 0
        is_new_epoch = registration.leader_epoch > self.leader_epoch
        before, self.replicas = self.replicas, {}
        if is_new_epoch:
            self.leader_epoch = registration.leader_epoch
            self.epoch_start_offset = Offset(self._log.end_offset)
            self._log.assign_epoch(registration.leader_epoch)
        for replica_id in registration.replicas:
            if replica_id == self._broker.node_id:
                continue
            replica = before.get(replica_id, ReplicaState())
            is_in_sync = replica_id in registration.isr
            if is_new_leader:
                replica = new_replica(now_ms, is_in_sync=is_in_sync)
            elif is_new_epoch:
                replica = replica.reset(self.epoch_start_offset, now_ms, is_in_sync=is_in_sync)
            self.replicas[replica_id] = replica
        assert registration.partition_epoch >= self.partition_epoch, f"INV-PT-1 {registration=}"
        if registration.partition_epoch > self.partition_epoch:
            self.partition_epoch = registration.partition_epoch
            self.state = CommittedPartitionState(registration.isr)
        return self.raise_high_watermark(now_ms)

    # -- watermarks -----------------------------------------------------------------------------

    @property
    def high_watermark(self) -> Offset:
        """End of what is committed."""
        return Offset(self._log.high_watermark)

    @property
    def low_watermark(self) -> Offset | None:
        """Smallest log start offset of the live replicas, None while one has not fetched."""
        start = Offset(self._log.log_start_offset)
        return isr.low_watermark(start, self.replicas, self._broker.broker_of)

    def raise_high_watermark(self, now_ms: int) -> Changed:
        """Raise the high watermark to where the replicas are."""
        new = isr.high_watermark(
            self.state,
            self._ends.high_watermark,
            self._ends.log_end,
            self.replicas,
            self._broker.broker_of,
            min_isr=self.effective_min_isr,
            now_ms=now_ms,
            lag_ms_max=self._broker.lag_ms_max,
        )
        if new is None:
            return UNCHANGED
        self._ends.raise_high_watermark(new)
        return Changed(high_watermark_raised=True)

    # -- ISR ------------------------------------------------------------------------------------

    @property
    def maximal_isr_size(self) -> int:
        """Number of replicas in the maximal ISR."""
        return len(isr.maximal_isr(self.state))

    @property
    def effective_min_isr(self) -> int:
        """`min.insync.replicas`, at most the number of replicas."""
        return isr.effective_min_isr(self.min_insync_replicas, len(self.replicas) + 1)

    @property
    def isr_size(self) -> int:
        """Number of replicas in the ISR as the controller has it."""
        return len(isr.committed_isr(self.state))

    @property
    def is_under_min_isr(self) -> bool:
        """True if the high watermark stands still, and acks=all is refused."""
        return self.isr_size < self.effective_min_isr

    @property
    def is_at_min_isr(self) -> bool:
        """True if the loss of one more replica makes it under-min-isr."""
        return self.isr_size == self.effective_min_isr

    def is_in_sync(self, replica_id: NodeId) -> bool:
        """True for a member of the ISR, which no quota of replication throttles."""
        return replica_id in isr.committed_isr(self.state)

    def record_fetch(
        self,
        replica_id: NodeId,
        start: LogOffsetMetadata,
        log_start_offset: Offset | None,
        *,
        leader_end_offset: Offset,
        broker_epoch: BrokerEpoch | None,
        now_ms: int,
    ) -> Changed:
        """Take a follower's fetch, whose offset acknowledges all below it.

        Args:
            replica_id: one of `replicas`.
            start: fetch offset.
            log_start_offset: of the follower, None if it does not say.
            leader_end_offset: log end when the fetch was read.
            broker_epoch: of the request; not stale.
            now_ms: instant of the request.
        """
        before = self.replicas[replica_id]
        is_lower_known = before.log_start_offset != log_start_offset
        low_before = self.low_watermark if is_lower_known else None
        self.replicas[replica_id] = after = before.after_fetch(
            start,
            log_start_offset,
            leader_end_offset=leader_end_offset,
            broker_epoch=broker_epoch,
            now_ms=now_ms,
        )
        low_after = self.low_watermark if is_lower_known else None
        proposal = self._maybe_expand(replica_id, after)
        raised = UNCHANGED
        if before.log_end is None or before.log_end.offset != start.offset:
            raised = self.raise_high_watermark(now_ms)
        return Changed(raised.high_watermark_raised, is_raised(low_before, low_after), proposal)

    def _maybe_expand(self, replica_id: NodeId, replica: ReplicaState) -> ProposedIsr | None:
        state = self.state
        if not isinstance(state, CommittedPartitionState) or not isr.needs_expansion(
            state,
            replica_id,
            replica,
            self._broker.broker_of(replica_id),
            high_watermark=self.high_watermark,
            epoch_start_offset=self.epoch_start_offset,
        ):
            return None
        pending = isr.expand(
            state,
            replica_id,
            self._broker_epochs(),
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
        )
        self.state = pending
        return pending.proposed

    def maybe_shrink_isr(self, now_ms: int) -> Changed:
        """Propose an ISR without those that lag; the high watermark may rise by the time alone.

        Who lagged too long outside of the ISR does not hold it back any more.
        """
        changed = self.raise_high_watermark(now_ms)
        state = self.state
        out_of_sync = isr.out_of_sync_replicas(
            state,
            self._broker.node_id,
            self.replicas,
            leader_end_offset=Offset(self._log.end_offset),
            now_ms=now_ms,
            lag_ms_max=self._broker.lag_ms_max,
        )
        if not out_of_sync:
            return changed
        assert isinstance(state, CommittedPartitionState), f"{state=}"
        pending = isr.shrink(
            state,
            out_of_sync,
            self._broker_epochs(),
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
        )
        self.state = pending
        return Changed(changed.high_watermark_raised, proposal=pending.proposed)

    def _broker_epochs(self) -> dict[NodeId, BrokerEpoch | None]:
        epochs = {replica_id: each.broker_epoch for replica_id, each in self.replicas.items()}
        return {self._broker.node_id: self._broker.broker_epoch(), **epochs}

    def on_answer(
        self, proposed: ProposedIsr, answer: LeaderAndIsr | ErrorCode, now_ms: int
    ) -> Answered:
        """Take the controller's answer to a proposal."""
        state = self.state
        outcome = isr.outcome_of(
            state,
            proposed,
            answer,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
        )
        if outcome is Outcome.TO_RETRY:
            return Answered(outcome, Changed(proposal=proposed))
        if outcome in (Outcome.WAITING, Outcome.IGNORED):
            return Answered(outcome)
        if outcome is Outcome.ADOPTED:
            assert isinstance(answer, LeaderAndIsr), f"{answer=}"
            assert answer.partition_epoch >= self.partition_epoch, f"INV-PT-1 {answer=}"
            self.state = isr.adopted(answer)
            self.partition_epoch = answer.partition_epoch
        else:
            assert not isinstance(state, CommittedPartitionState), f"{state=}"
            self.state = state.last_committed
        return Answered(outcome, self.raise_high_watermark(now_ms))


def is_raised(before: Offset | None, after: Offset | None) -> bool:
    """True for a low watermark that was raised, or was not known before."""
    return after is not None and (before is None or after > before)
