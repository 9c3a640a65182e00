"""A replica of a partition at this broker: leader, follower, or offline.

Each call is a step without threads or I/O of its own beside that of the log. A refusal is an
`ErrorCode`; what a step changed is returned (`Changed`, `Transition`), so that the caller tries the
operations that wait for the partition, sends proposals of ISRs and starts or stops fetchers.

    Offline --open_log, metadata--> Follower <--metadata--> Leader
       ^------------- mark_offline ----/------------------/

Metadata may come before the log is open: the latest are kept, and taken when it is.

    INV-PT-1  the epochs of a partition never fall
    INV-PT-3  a partition has one leader in one leader epoch

apache/kafka: core/.../cluster/Partition.scala (4.x, KRaft)
"""

import msgspec

from metadata.image import Partition as PartitionRegistration
from replication.follower.following import (
    FetchedFromLeader,
    FollowerAppended,
    append_fetched,
    begins_anew_with,
    truncation_offset,
)
from replication.leader.fetch_params import FetchParams
from replication.leader.fetch_session import FetchPartition
from replication.leader.isr import LeaderAndIsr, Outcome, ProposedIsr
from replication.leader.leadership import (
    UNCHANGED,
    Answered,
    Appended,
    Changed,
    Leadership,
    LocalBroker,
    RecordDeletion,
)
from replication.leader.replica import is_stale
from replication.log_ends import LogEnds
from replication.log_offsets import LogOffsetMetadata
from replication.reading import Fetched, offset_for_timestamp, with_records, without_records
from replication.roles import Following, Offline, PartitionSettings, Transition
from storage.logs.append_info import UnexpectedOffsetError
from storage.logs.log_validator import Checked, LogValidator
from storage.logs.recovery import first_gap
from storage.logs.unified_log import FetchIsolation, UnifiedLog
from storage.producers.append_source import CLIENT, AppendSource
from storage.producers.verification import VerificationGuard
from storage.segments.timestamp_lookup import Spend, TimestampAndOffset, spend_nothing
from wire.batches.batch import Batch, BatchHeader
from wire.errors import ErrorCode
from wire.types import LeaderEpoch, Offset, OffsetAndEpoch, PartitionEpoch


class Partition:
    """A partition of which this broker is a replica.

    Args:
        broker: this one.
        settings: of the topic.
    """

    def __init__(self, broker: LocalBroker, settings: PartitionSettings) -> None:
        self._broker = broker
        self._settings = settings
        self._awaiting_log: PartitionRegistration | None = None
        self._ends: LogEnds | None = None
        self.log: UnifiedLog | None = None
        """None until it is opened, and when its directory has failed."""
        self._gap_offset: int | None = None
        self._future_log: UnifiedLog | None = None
        self.role: Leadership | Following | Offline = Offline()

    @property
    def leader_epoch(self) -> LeaderEpoch:
        """The newest leader epoch that is known; -1 before any."""
        return self.role.leader_epoch

    @property
    def partition_epoch(self) -> PartitionEpoch:
        """The newest partition epoch that is known; -1 before any."""
        return self.role.partition_epoch

    @property
    def leadership(self) -> Leadership | ErrorCode:
        """The partition at its leader; the error where this broker is none."""
        role = self.role
        if isinstance(role, Leadership):
            return role
        return role.code if isinstance(role, Offline) else ErrorCode.not_leader_or_follower

    # -- roles ----------------------------------------------------------------------------------

    def open_log(self, log: UnifiedLog, now_ms: int) -> Transition:
        """Take the opened log, with the metadata that waited for it."""
        assert self.log is None, "the log is open"
        assert isinstance(self.role, Offline), f"{self.role=}"
        assert self.role.code is not ErrorCode.kafka_storage_error, "its directory has failed"
        self.log, self._ends = log, LogEnds(log)
        self._gap_offset = first_gap(log.recovery_report)
        awaited, self._awaiting_log = self._awaiting_log, None
        return Transition() if awaited is None else self._take(awaited, now_ms)

    def make_leader(self, registration: PartitionRegistration, now_ms: int) -> Transition:
        """Become or stay leader. The partition of a failed directory is offline until a restart."""
        assert registration.leader == self._broker.node_id, f"{registration.leader=}"
        return self._take(registration, now_ms)

    def make_follower(self, registration: PartitionRegistration, now_ms: int) -> Transition:
        """Become or stay follower, also of no leader."""
        assert registration.leader != self._broker.node_id, f"{registration.leader=}"
        return self._take(registration, now_ms)

    def _take(self, registration: PartitionRegistration, now_ms: int) -> Transition:
        known = self._awaiting_log or self.role
        is_older = (
            registration.partition_epoch < known.partition_epoch
            or registration.leader_epoch < known.leader_epoch
        )
        if is_older:
            return Transition()
        if self.log is None:
            self._awaiting_log = registration
            return Transition()
        before, is_leader = self.role, registration.leader == self._broker.node_id
        is_new_epoch = registration.leader_epoch > before.leader_epoch
        assert is_new_epoch or is_leader == isinstance(before, Leadership), (
            f"INV-PT-3 {registration=} {before=}"
        )
        changed = UNCHANGED
        if is_leader:
            changed = self._lead(self.log, registration, now_ms)
        else:
            self.role = Following(
                registration.leader if registration.has_leader else None,
                registration.leader_epoch,
                registration.partition_epoch,
            )
        return Transition(
            is_taken=True,
            is_new_leader=is_leader and not isinstance(before, Leadership),
            is_new_leader_epoch=is_new_epoch,
            changed=changed,
        )

    def _lead(self, log: UnifiedLog, registration: PartitionRegistration, now_ms: int) -> Changed:
        self._gap_offset = None  # followers copy it
        if isinstance(self.role, Leadership):
            return self.role.take(registration, now_ms)
        assert self._ends is not None, "the log is open"
        self.role = Leadership(
            self._broker,
            log,
            registration,
            now_ms,
            ends=self._ends,
            min_insync_replicas=self._settings.min_insync_replicas,
            future_log=self._future_log,
        )
        return self.role.raise_high_watermark(now_ms)

    def mark_offline(self) -> None:
        """Leave the log, whose directory has failed: KAFKA_STORAGE_ERROR from here on."""
        self.role = Offline(ErrorCode.kafka_storage_error, self.leader_epoch, self.partition_epoch)
        self.log = self._ends = self._awaiting_log = self._future_log = None

    def set_future_log(self, log: UnifiedLog | None) -> None:
        """Take a copy of the log that is made in another log directory; None without one."""
        self._future_log = log
        if isinstance(self.role, Leadership):
            self.role.future_log = log

    def replace_log(self, log: UnifiedLog) -> None:
        """Go on with a copy of the log, which has the same end."""
        assert self.log is not None, "the log is open"
        assert log.end_offset == self.log.end_offset, f"{log.end_offset=}"
        self.set_future_log(None)
        log.set_high_watermark(self.log.high_watermark)
        self.log, self._ends = log, LogEnds(log)
        if isinstance(self.role, Leadership):
            self.role.replace_log(log, self._ends)

    def configure(self, settings: PartitionSettings, now_ms: int) -> Changed:
        """Take other settings of the topic; a smaller minimum may release the high watermark."""
        self._settings = settings
        if not isinstance(self.role, Leadership):
            return UNCHANGED
        self.role.min_insync_replicas = settings.min_insync_replicas
        return self.role.raise_high_watermark(now_ms)

    # -- checks ---------------------------------------------------------------------------------

    def check_current_leader_epoch(self, epoch: LeaderEpoch | None) -> ErrorCode:
        """Compare the leader epoch of a request, None for none, with the one that is known."""
        if epoch is not None and epoch < self.leader_epoch:
            return ErrorCode.fenced_leader_epoch
        if epoch is not None and epoch > self.leader_epoch:
            return ErrorCode.unknown_leader_epoch
        return ErrorCode.none

    def local_log(
        self, current_leader_epoch: LeaderEpoch | None, *, is_leader_only: bool
    ) -> UnifiedLog | ErrorCode:
        """The log, if this broker may read it for a request with this epoch."""
        role = self.role
        if isinstance(role, Offline):
            return role.code
        assert self.log is not None, f"{role=} without a log"
        code = self.check_current_leader_epoch(current_leader_epoch)
        if code is ErrorCode.none and is_leader_only and not isinstance(role, Leadership):
            code = ErrorCode.not_leader_or_follower
        return self.log if code is ErrorCode.none else code

    # -- records --------------------------------------------------------------------------------

    @property
    def validator(self) -> LogValidator | None:
        """The checks of batches that clients send to this leader; None at others."""
        if self.log is None or not isinstance(self.role, Leadership):
            return None
        return self.log.validator

    def append_as_leader(
        self,
        batch: Batch | Checked,
        *,
        required_acks: int,
        wall_ms: int,
        now_ms: int,
        source: AppendSource = CLIENT,
    ) -> Appended | ErrorCode:
        """Append a batch of a producer or a coordinator; raises as `UnifiedLog.append_as_leader`.

        Args:
            batch: as `UnifiedLog.append_as_leader` takes it.
            required_acks: of the request; -1 asks for `min.insync.replicas`.
            wall_ms: wall clock.
            now_ms: monotonic clock.
            source: of the batch.
        """
        leader = self.leadership
        if isinstance(leader, ErrorCode):
            return leader
        return leader.append(
            batch, required_acks=required_acks, wall_ms=wall_ms, now_ms=now_ms, source=source
        )

    def begin_verification(
        self, header: BatchHeader, wall_ms: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard | ErrorCode | None:
        """As `UnifiedLog.begin_verification`, at the leader; raises the same."""
        leader = self.leadership
        if isinstance(leader, ErrorCode):
            return leader
        assert self.log is not None, "a leader has a log"
        return self.log.begin_verification(header, wall_ms, supports_epoch_bump=supports_epoch_bump)

    def has_late_transaction(self, wall_ms: int, timeout_ms_max: int) -> bool:
        """As `UnifiedLog.has_late_transaction`; False without a log."""
        return self.log is not None and self.log.has_late_transaction(wall_ms, timeout_ms_max)

    def append_as_follower(
        self, fetched: FetchedFromLeader, leader_epoch: LeaderEpoch, wall_ms: int
    ) -> FollowerAppended | ErrorCode:
        """Append what the leader of an epoch sent, unless the epoch is over.

        An empty log that begins inside the first batch begins anew with it.

        Raises:
            UnexpectedOffsetError, ProducerStateError, CorruptBatchError, OutOfSpaceError: as
                `following.append_fetched`.
        """
        log = self._followed_log(leader_epoch)
        if isinstance(log, ErrorCode):
            return log
        try:
            return append_fetched(log, fetched, leader_epoch, wall_ms)
        except UnexpectedOffsetError as error:
            if not begins_anew_with(log, error):
                raise
            self._begin_anew_at(error.first_offset, log, wall_ms)
            return append_fetched(log, fetched, leader_epoch, wall_ms)

    def truncate_to_leader(
        self, diverging: OffsetAndEpoch, leader_epoch: LeaderEpoch, wall_ms: int
    ) -> Offset | ErrorCode:
        """Truncate by the diverging epoch that the leader of an epoch answered; the new end.

        Raises:
            RemoteProtocolError: that is no epoch, or no end of one; nothing was truncated.
        """
        log = self._followed_log(leader_epoch)
        if isinstance(log, ErrorCode):
            return log
        return self._truncate(log, truncation_offset(log, diverging), wall_ms)

    @property
    def unproven_offset(self) -> Offset | None:
        """Offset from which on the log is no proof of what its leader has; None without.

        The epochs of both logs do not tell what is missing between two segments since a power
        failure; and a log of the oldest formats has no epochs, so that what is above its high
        watermark may be another's. A follower fetches that again, which loses nothing: the
        controller has taken this broker out of the ISR when it registered, before it follows. Who
        leads is none to ask: its gap is that of a compacted log, or of all that were in sync.
        """
        assert self.log is not None, "the log is open"
        offset, watermark = self._gap_offset, self.log.high_watermark
        if self.log.last_epoch is None and self.log.end_offset > watermark:
            offset = watermark if offset is None else min(offset, watermark)
        return None if offset is None else Offset(offset)

    def truncate_to(
        self, offset: Offset, leader_epoch: LeaderEpoch, wall_ms: int
    ) -> Offset | ErrorCode:
        """Truncate to an offset, such as the end of the log at the leader of an epoch; the end."""
        log = self._followed_log(leader_epoch)
        return log if isinstance(log, ErrorCode) else self._truncate(log, offset, wall_ms)

    def _truncate(self, log: UnifiedLog, offset: Offset, wall_ms: int) -> Offset:
        log.truncate_to(offset, wall_ms)
        if self._gap_offset is not None and log.end_offset <= self._gap_offset:
            self._gap_offset = None
        self._ends = LogEnds(log)
        return Offset(log.end_offset)

    def truncate_fully_and_start_at(
        self, offset: Offset, leader_epoch: LeaderEpoch, wall_ms: int
    ) -> ErrorCode:
        """Begin the log anew where that of the leader of an epoch begins."""
        log = self._followed_log(leader_epoch)
        if not isinstance(log, ErrorCode):
            self._begin_anew_at(offset, log, wall_ms)
        return log if isinstance(log, ErrorCode) else ErrorCode.none

    def _begin_anew_at(self, offset: int, log: UnifiedLog, wall_ms: int) -> None:
        log.truncate_fully_and_start_at(offset, wall_ms)
        self._gap_offset = None
        self._ends = LogEnds(log)

    def _followed_log(self, leader_epoch: LeaderEpoch) -> UnifiedLog | ErrorCode:
        if isinstance(self.role, Leadership):
            return ErrorCode.not_leader_or_follower
        return self.local_log(leader_epoch, is_leader_only=False)

    def fetch(
        self,
        params: FetchParams,
        request: FetchPartition,
        *,
        max_bytes: int,
        at_least_one: bool,
        now_ms: int,
        updates_replica: bool = True,
    ) -> Fetched | ErrorCode:
        """Read for a consumer or a follower; the fetch of a follower moves its replica's state.

        Args:
            params: of the request.
            request: row of the partition.
            max_bytes: room in the response, at most that of the row.
            at_least_one: True if a first batch above `max_bytes` is read all the same.
            now_ms: instant of the request.
            updates_replica: False when a fetch that has waited is read again.

        Raises:
            CorruptLogError: a header on the way is damaged.
        """
        log = self.local_log(request.current_leader_epoch, is_leader_only=params.is_leader_only)
        if isinstance(log, ErrorCode):
            return log
        code = self._replica_code(params, request)
        if code is not ErrorCode.none:
            return code
        fetched = without_records(log, request)
        if isinstance(fetched, ErrorCode) or fetched.diverging_epoch is not None:
            return fetched
        follower_id = params.replica_id if updates_replica else None
        if follower_id is not None and is_stale(
            params.replica_epoch, self._broker.broker_of(follower_id)
        ):
            return ErrorCode.not_leader_or_follower
        fetched = with_records(log, fetched, max_bytes, params.isolation, at_least_one=at_least_one)
        if follower_id is None:
            return fetched
        assert isinstance(self.role, Leadership), f"{follower_id=} is no replica here"
        changed = self.role.record_fetch(
            follower_id,
            fetched.start,
            request.log_start_offset,
            leader_end_offset=fetched.log_end_offset,
            broker_epoch=params.replica_epoch,
            now_ms=now_ms,
        )
        return msgspec.structs.replace(fetched, changed=changed)

    def _replica_code(self, params: FetchParams, request: FetchPartition) -> ErrorCode:
        """Error for a follower that is no replica here.

        With a leader epoch it knows of a reassignment before this broker does.
        """
        replica_id, role = params.replica_id, self.role
        if replica_id is None or (isinstance(role, Leadership) and replica_id in role.replicas):
            return ErrorCode.none
        if request.current_leader_epoch is None:
            return ErrorCode.not_leader_or_follower
        return ErrorCode.unknown_leader_epoch

    # -- offsets --------------------------------------------------------------------------------

    def end(
        self,
        isolation: FetchIsolation,
        current_leader_epoch: LeaderEpoch | None,
        *,
        is_leader_only: bool,
    ) -> LogOffsetMetadata | ErrorCode:
        """The end of what a Fetch may read, or why the log may not be read."""
        log = self.local_log(current_leader_epoch, is_leader_only=is_leader_only)
        if isinstance(log, ErrorCode):
            return log
        assert self._ends is not None, "the log is open"
        return self._ends.of(isolation)

    def is_last_epoch(self, epoch: LeaderEpoch) -> bool:
        """True if an epoch is the newest one of which the log knows."""
        return self.log is not None and self.log.last_epoch == epoch

    def end_of_epoch(
        self,
        current_leader_epoch: LeaderEpoch | None,
        epoch: LeaderEpoch,
        *,
        is_leader_only: bool,
    ) -> OffsetAndEpoch | ErrorCode | None:
        """Largest epoch up to the one given, with its end offset; None if unknown."""
        log = self.local_log(current_leader_epoch, is_leader_only=is_leader_only)
        if isinstance(log, ErrorCode):
            return log
        found, end_offset = log.end_offset_for_epoch(epoch)
        return None if found < 0 else OffsetAndEpoch(Offset(end_offset), LeaderEpoch(found))

    def offset_for_timestamp(
        self,
        timestamp_ms: int,
        isolation: FetchIsolation,
        current_leader_epoch: LeaderEpoch | None,
        *,
        is_leader_only: bool,
        spend: Spend = spend_nothing,
    ) -> TimestampAndOffset | ErrorCode | None:
        """Offset by time as `reading.offset_for_timestamp` finds it; None without a record."""
        log = self.local_log(current_leader_epoch, is_leader_only=is_leader_only)
        if isinstance(log, ErrorCode):
            return log
        role = self.role
        return offset_for_timestamp(
            log,
            timestamp_ms,
            isolation,
            leader_epoch=role.leader_epoch,
            epoch_start_offset=role.epoch_start_offset if isinstance(role, Leadership) else None,
            spend=spend,
        )

    def delete_records_on_leader(self, offset: int) -> RecordDeletion | ErrorCode:
        """Raise the log start to an offset, -1 for the high watermark; segments go later."""
        leader = self.leadership
        if isinstance(leader, ErrorCode) or self._settings.deletes:
            return leader if isinstance(leader, ErrorCode) else leader.delete_records(offset)
        return ErrorCode.policy_violation

    # -- ISR ------------------------------------------------------------------------------------

    def maybe_shrink_isr(self, now_ms: int) -> Changed:
        """Propose to drop replicas that lag; every half `replica.lag.time.max.ms`."""
        role = self.role
        return role.maybe_shrink_isr(now_ms) if isinstance(role, Leadership) else UNCHANGED

    def on_answer(
        self, proposed: ProposedIsr, answer: LeaderAndIsr | ErrorCode, now_ms: int
    ) -> Answered:
        """Take the controller's answer to a proposal of this partition."""
        role = self.role
        if not isinstance(role, Leadership):
            return Answered(Outcome.IGNORED)
        return role.on_answer(proposed, answer, now_ms)
