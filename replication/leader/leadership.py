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
from typing import TYPE_CHECKING, Any, Final

import msgspec

from metadata.image import Partition as PartitionRegistration
from replication.leader import isr
from replication.leader.isr import (
    BrokerOf,
    CommittedPartitionState,
    Epochs,
    LeaderAndIsr,
    Outcome,
    PartitionState,
    PendingPartitionChange,
    ProposedIsr,
)
from replication.leader.replica import Registration, ReplicaState, new_replica
from replication.log_ends import LogEnds
from replication.log_offsets import LogOffsetMetadata
from storage.errors import OffsetOutOfRangeError
from storage.logs.append_info import LeaderAppend
from storage.logs.log_validator import Checked
from storage.logs.unified_log import UnifiedLog
from storage.producers.append_source import AppendSource
from wire.batches.batch import Batch
from wire.errors import ErrorCode
from wire.types import BrokerEpoch, NodeId, Offset

if TYPE_CHECKING:
    from replication.leader.quiet_reads import QuietRead

ALL_IN_SYNC: Final = -1
"""`acks=all`."""
UP_TO_HIGH_WATERMARK: Final = -1
"""Offset of DeleteRecords."""


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


class Appended(msgspec.Struct, frozen=True):
    """Result of an append by the leader."""

    append: LeaderAppend
    changed: Changed


class RecordDeletion(msgspec.Struct, frozen=True):
    """Deletion of records at the leader; complete when the low watermark is at the offset."""

    requested_offset: Offset
    low_watermark: Offset | None
    changed: Changed


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
        "future_log",
        "leader_epoch",
        "min_insync_replicas",
        "partition_epoch",
        "quiet_reads",
        "replicas",
        "state",
    )

    def __init__(
        self,
        broker: LocalBroker,
        log: UnifiedLog,
        registration: PartitionRegistration,
        now_ms: int,
        *,
        ends: LogEnds,
        min_insync_replicas: int,
        future_log: UnifiedLog | None = None,
    ) -> None:
        """Begin an epoch at the end of the log; who is in the ISR has the full lag time.

        Args:
            broker: this one.
            log: of the partition.
            registration: metadata that make this broker leader.
            now_ms: instant of that.
            ends: of the log.
            min_insync_replicas: of the topic.
            future_log: copy of the log that is being made in another log directory.
        """
        self.future_log = future_log
        self._broker = broker
        self._log = log
        self._ends = ends
        self.min_insync_replicas = min_insync_replicas
        self.leader_epoch = registration.leader_epoch
        self.partition_epoch = registration.partition_epoch
        self.epoch_start_offset = self._begin_epoch()
        """Log end when the leader epoch began."""
        self.replicas = {
            replica_id: new_replica(now_ms, is_in_sync=replica_id in registration.isr)
            for replica_id in self._followers(registration)
        }
        """The followers."""
        self.quiet_reads: dict[NodeId, QuietRead[Any]] = {}
        """Of members of the ISR the last read at the end of the log."""
        self.state: PartitionState = CommittedPartitionState(registration.isr)

    def take(self, registration: PartitionRegistration, now_ms: int) -> Changed:
        """Take later metadata, which begin another leader epoch or go on with this one.

        A later partition epoch ends a pending change. The same one is that of an answer which was
        faster: what was proposed since stays pending (Kafka drops it, and does not count a replica
        that the controller is about to take into the ISR).
        """
        assert registration.partition_epoch >= self.partition_epoch, f"INV-PT-1 {registration=}"
        self.replicas = {
            replica_id: self.replicas.get(replica_id, ReplicaState())
            for replica_id in self._followers(registration)
        }
        for replica_id in self.quiet_reads.keys() - self.replicas.keys():
            del self.quiet_reads[replica_id]
        if registration.leader_epoch > self.leader_epoch:
            self.leader_epoch = registration.leader_epoch
            self.epoch_start_offset = start = self._begin_epoch()
            for replica_id, replica in self.replicas.items():
                is_in_sync = replica_id in registration.isr
                self.replicas[replica_id] = replica.reset(start, now_ms, is_in_sync=is_in_sync)
        if registration.partition_epoch > self.partition_epoch:
            self.partition_epoch = registration.partition_epoch
            self.state = CommittedPartitionState(registration.isr)
        return self.raise_high_watermark(now_ms)

    def replace_log(self, log: UnifiedLog, ends: LogEnds) -> None:
        """Go on with a copy of the log; the places of offsets are other ones there."""
        self._log, self._ends = log, ends
        self.quiet_reads.clear()
        for replica_id, replica in self.replicas.items():
            if replica.log_end is not None:
                log_end = LogOffsetMetadata(replica.log_end.offset)
                self.replicas[replica_id] = msgspec.structs.replace(replica, log_end=log_end)

    def _begin_epoch(self) -> Offset:
        self._log.assign_epoch(self.leader_epoch)
        return Offset(self._log.end_offset)

    def _followers(self, registration: PartitionRegistration) -> list[NodeId]:
        node_id = self._broker.node_id
        assert registration.leader == node_id, f"{registration.leader=} {node_id=}"
        return [replica_id for replica_id in registration.replicas if replica_id != node_id]

    # -- records --------------------------------------------------------------------------------

    def append(
        self,
        batch: Batch | Checked,
        *,
        required_acks: int,
        wall_ms: int,
        now_ms: int,
        source: AppendSource,
    ) -> Appended | ErrorCode:
        """Append a batch, as `Partition.append_as_leader` says."""
        if required_acks == ALL_IN_SYNC and self.is_under_min_isr:
            return ErrorCode.not_enough_replicas
        append = self._log.append_as_leader(batch, self.leader_epoch, wall_ms, source)
        return Appended(append, self.raise_high_watermark(now_ms))

    def delete_records(self, offset: int) -> RecordDeletion | ErrorCode:
        """Raise the log start, as `Partition.delete_records_on_leader` says."""
        requested = self.high_watermark if offset == UP_TO_HIGH_WATERMARK else Offset(offset)
        if requested < 0:
            return ErrorCode.offset_out_of_range
        before = self.low_watermark
        try:
            self._log.raise_log_start_to(requested)
        except OffsetOutOfRangeError:
            return ErrorCode.offset_out_of_range
        after = self.low_watermark
        changed = Changed(low_watermark_raised=is_raised(before, after))
        return RecordDeletion(requested, after, changed)

    @property
    def log(self) -> UnifiedLog:
        """The log of the partition."""
        return self._log

    def broker_of(self, node_id: NodeId) -> Registration | None:
        """Registration of a broker in the newest metadata."""
        return self._broker.broker_of(node_id)

    # -- watermarks -----------------------------------------------------------------------------

    @property
    def high_watermark(self) -> Offset:
        """End of what is committed."""
        return Offset(self._log.high_watermark)

    @property
    def low_watermark(self) -> Offset | None:
        """Smallest log start offset of the live replicas, None while one has not fetched.

        A copy of the log in another log directory counts as one.
        """
        start = self._log.log_start_offset
        if self.future_log is not None:
            start = min(start, self.future_log.log_start_offset)
        return isr.low_watermark(Offset(start), self.replicas, self._broker.broker_of)

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
        if not isr.needs_expansion(
            state,
            replica_id,
            replica,
            self._broker.broker_of(replica_id),
            high_watermark=self.high_watermark,
            epoch_start_offset=self.epoch_start_offset,
        ):
            return None
        assert isinstance(state, CommittedPartitionState), f"{state=}"
        return self._propose(isr.expand(state, replica_id, self._epochs()))

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
        proposed = self._propose(isr.shrink(state, out_of_sync, self._epochs()))
        return Changed(changed.high_watermark_raised, proposal=proposed)

    def _propose(self, pending: PendingPartitionChange) -> ProposedIsr:
        self.state = pending
        return pending.proposed

    def _epochs(self) -> Epochs:
        epochs = {replica_id: each.broker_epoch for replica_id, each in self.replicas.items()}
        epochs = {self._broker.node_id: self._broker.broker_epoch(), **epochs}
        return Epochs(self.leader_epoch, self.partition_epoch, epochs)

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
