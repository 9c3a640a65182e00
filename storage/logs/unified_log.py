"""The log of a partition as its leader and its followers use it.

The segments (storage/logs/log.py) with what only partitions have: validation of produced batches,
producers and their transactions, high watermark and last stable offset, offsets by time, deletion
from the start. No threads: each call is a step; a slice that it returns is read by who has it.

    INV-UL-1  log start <= last stable offset <= high watermark <= log end
    INV-UL-2  `producers.end_offset` is the log end

apache/kafka: storage/.../log/UnifiedLog.java
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final

import msgspec

from storage.checkpoints.epoch_checkpoint import EpochEntry
from storage.errors import OffsetOutOfRangeError
from storage.logs.append_info import FollowerAppend, LeaderAppend, UnexpectedOffsetError
from storage.logs.flush_plan import FlushPlan
from storage.logs.log import Log, LogConfig
from storage.logs.log_producers import LogProducers
from storage.logs.log_validator import AppendRules, Checked, LogValidator, stamp
from storage.logs.recovery import RecoveryEvent
from storage.logs.retention import RetentionRules, deletable_count, extents
from storage.logs.tail import Tail
from storage.producers.append_source import CLIENT, AppendSource
from storage.producers.leader_append import begin_verification, prepare_append
from storage.producers.producer_entry import BatchMetadata
from storage.producers.producer_replay import take
from storage.producers.producer_state import (
    CompletedTransaction,
    Origin,
    ProducerAppend,
    ProducerStates,
)
from storage.producers.verification import VerificationGuard
from storage.segments.file_slice import FileSlice
from storage.segments.segment import OFFSET_MAX, floor_index
from storage.segments.timestamp_lookup import (
    Spend,
    TimestampAndOffset,
    first_at_or_after,
    spend_nothing,
    with_max_timestamp,
)
from storage.segments.transaction_index import AbortedTransaction
from storage.vfs import Vfs
from wire.batches.batch import Batch, BatchFrame, BatchHeader
from wire.batches.legacy_batch import LegacyBatch, iterate_any
from wire.batches.log_batches import iterate_log_frames

NO_TIMESTAMP_MS: Final = -1
_REPLAY_BYTES: Final = 1 << 20
SEGMENTS_MAX: Final = 1 << 31
"""More segments than a log can have."""


class FetchIsolation(Enum):
    """The end that a reader may read up to."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    TXN_COMMITTED = "last stable offset"


class UnifiedLog:
    """An open log of a partition."""

    def __init__(
        self,
        vfs: Vfs,
        partition: str,
        log: Log,
        producers: ProducerStates,
        rules: AppendRules,
        *,
        wall_ms: int,
        high_watermark: int = 0,
    ) -> None:
        """Join an open log with the state of its producers, which is read here.

        Args:
            vfs: of the log.
            partition: `topic-number`, for texts.
            log: opened.
            producers: empty.
            rules: of the topic.
            wall_ms: wall clock.
            high_watermark: as recorded; it will not be set below.
        """
        self._log = log
        self.validator = LogValidator(partition, rules)
        """Of the batches of clients."""
        self._producers = LogProducers(vfs, log, producers)
        self.high_watermark = log.log_start_offset
        self.last_flush_ms = wall_ms
        """Wall clock of the last flush, at first of the opening; for `flush.ms`."""
        self.tail = Tail(log)
        self.has_rolled = False
        """True from a roll to the next flush plan: the closed segments are to be flushed."""
        self._truncated_to = OFFSET_MAX
        damage = self._producers.load(wall_ms, high_watermark)
        assert self.producers.end_offset == log.end_offset, "INV-UL-2"
        self.recovery_report: tuple[RecoveryEvent, ...] = (*log.recovery_report, *damage)

    @property
    def log_start_offset(self) -> int:
        """First offset that may be read."""
        return self._log.log_start_offset

    @property
    def producers(self) -> ProducerStates:
        """The producers below the end; of a truncated log the replay comes to its end before."""
        self._replay()
        return self._producers.states

    @property
    def known_producers(self) -> ProducerStates:
        """As `producers`, without a replay: of a truncated log those that it has come to."""
        return self._producers.states

    def _replay(self) -> None:
        while self.is_replaying:
            self.replay_some(_REPLAY_BYTES)

    @property
    def is_replaying(self) -> bool:
        """True after a truncation while producers are not those below the end yet."""
        return self._producers.is_behind

    def replay_some(self, max_bytes: int) -> tuple[int, int]:
        """Replay batches of at most `max_bytes`, but at least one; their number and bytes."""
        counts = self._producers.replay_some(max_bytes)
        assert self._producers.states.end_offset <= self.end_offset, "INV-UL-2"
        if not self.is_replaying:
            self.set_high_watermark(self.high_watermark)
        return counts

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        return self._log.end_offset

    @property
    def last_stable_offset(self) -> int:
        """First offset of the oldest transaction not known to be ended; else the high watermark."""
        unstable = self.producers.first_unstable_offset
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self._log.log_start_offset)

    # -- append ---------------------------------------------------------------------------------

    def append_as_leader(
        self, batch: Batch | Checked, leader_epoch: int, wall_ms: int, source: AppendSource = CLIENT
    ) -> LeaderAppend:
        """Append one batch at the end, stamped with its offset and the epoch.

        Args:
            batch: of `parse_produced`, in a buffer that may be written to, or as `validator` has
                checked it.
            leader_epoch: of the leader, at least that of the last batch.
            wall_ms: wall clock.
            source: batches of a coordinator are not validated.

        Raises:
            RejectedError: the batch is refused; nothing was appended.
            ProducerStateError: its producer may not write it; nothing was appended.
            OutOfSpaceError: the disk is full; the log is as before.
        """
        assert source.origin is not Origin.REPLICATION
        log = self._log
        assert leader_epoch >= log.last_epoch, f"{leader_epoch=} {log.last_epoch=}"
        if source.origin is Origin.CLIENT:
            batch = self.validator.validated(batch, wall_ms)
        assert isinstance(batch, Batch), f"{source=} is not checked"
        header = stamp(batch, log.end_offset, leader_epoch)
        self.validator.check_segment(header, log.config.segment_bytes)
        batch, producers = Batch(header, batch.buffer, batch.position), self.producers
        needed = self.validator.rules.verifies_transactions
        prepared = prepare_append(producers, batch, source, requires_verification=needed)
        if isinstance(prepared, BatchMetadata):
            return LeaderAppend(
                prepared.first_offset,
                prepared.last_offset + 1,
                prepared.timestamp_ms,
                log.log_start_offset,
                is_duplicate=True,
            )
        self._write(batch.buffer, [batch.frame()], wall_ms)
        self.tail.keep(batch)
        self._take_over(prepared.appends, prepared.completed)
        producers.verifications.end_with(header)
        append_time_ms = self.validator.append_time_ms(wall_ms)
        return LeaderAppend(
            header.base_offset, header.end_offset, append_time_ms, log.log_start_offset
        )

    def begin_verification(
        self, header: BatchHeader, wall_ms: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """The guard with which a transactional batch is to be appended; None if it needs none.

        Raises:
            ProducerStateError: INVALID_PRODUCER_EPOCH.
        """
        if not (supports_epoch_bump or self.validator.rules.verifies_transactions):
            return None  # with a bump the coordinator adds the partition, whatever the rules
        return begin_verification(
            self.producers, header, wall_ms, supports_epoch_bump=supports_epoch_bump
        )

    def has_late_transaction(self, wall_ms: int, timeout_ms_max: int) -> bool:
        """As `ProducerStates.has_late_transaction`."""
        return self.producers.has_late_transaction(wall_ms, timeout_ms_max)

    def append_as_follower(self, data: memoryview, epoch_max: int, wall_ms: int) -> FollowerAppend:
        """Append fetched batches unchanged, up to the first that cannot follow.

        Args:
            data: `records` of the response; a batch that is cut at its end is left out.
            epoch_max: of the leader that was asked; a batch above it is left out (KAFKA-18723).
            wall_ms: wall clock.

        Raises:
            UnexpectedOffsetError: they begin below the end of the log; nothing was appended.
            ProducerStateError: records without a transaction inside an open one; what is before
                the segment that they go to was appended.
            CorruptBatchError: a marker that cannot be read; as before.
            OutOfSpaceError: the disk is full; as before.
        """
        first = next(iterate_log_frames(data), None)
        if first is not None and first.base_offset < self._log.end_offset:
            raise UnexpectedOffsetError(first.base_offset, first.last_offset, self._log.end_offset)
        groups, stopped = self._log.fetched_groups(data, epoch_max)
        for group in groups:
            view = data[group[0].position : group[-1].end_position]
            appends: dict[int, ProducerAppend] = {}
            completed: list[CompletedTransaction] = []
            for batch in iterate_any(view):
                if isinstance(batch, LegacyBatch) or batch.header.producer_id < 0:
                    continue
                producer_id = batch.header.producer_id
                if producer_id not in appends:
                    appends[producer_id] = self.producers.prepare(producer_id, Origin.REPLICATION)
                ended = take(appends[producer_id], batch)
                completed += () if ended is None else (ended,)
                self.producers.verifications.end_with(batch.header)
            self._write(view, group, wall_ms)
            self._take_over(appends.values(), completed)
        return FollowerAppend(self._log.end_offset, stopped)

    def _write(self, data: memoryview, frames: list[BatchFrame], wall_ms: int) -> None:
        """Append to the log; if it rolls, the producers before these batches get a snapshot."""
        self._replay()  # up to here: batches without a producer come before anyone asked for it
        before = self._log.segments[-1].base_offset
        self._log.append_frames(data, frames, wall_ms)
        base_offset = self._log.segments[-1].base_offset
        assert base_offset >= before, f"{base_offset=} {before=}"
        if base_offset != before:
            self._rolled(base_offset)

    def _rolled(self, base_offset: int) -> None:
        assert base_offset >= self.producers.end_offset, f"{base_offset=}"
        self.producers.note_end(base_offset)
        self.has_rolled = True
        self._producers.write_snapshot()

    def _take_over(
        self, appends: Iterable[ProducerAppend], completed: Iterable[CompletedTransaction]
    ) -> None:
        """Take over what appended batches did to their producers."""
        producers = self._producers.states  # whom `_write` has replayed to the end
        producers.update(*appends)
        for transaction in completed:
            self._producers.note_aborted(transaction, producers.complete(transaction))
        producers.note_end(self._log.end_offset)
        assert self.high_watermark <= self._log.end_offset, f"INV-UL-1 {self.high_watermark=}"

    # -- read -----------------------------------------------------------------------------------

    def slice(
        self, offset: int, max_bytes: int, isolation: FetchIsolation, *, at_least_one: bool
    ) -> FileSlice | None:
        """Whole batches from the one that holds `offset`, at most `max_bytes`; None without any.

        A first batch above `max_bytes` is left out unless `at_least_one`. A slice ends at the end
        of its segment.

        Raises:
            OffsetOutOfRangeError: below the log start or above the log end.
        """
        bound = self.bound(isolation)
        return self._log.slice(offset, max_bytes, bound, at_least_one=at_least_one)

    def bound(self, isolation: FetchIsolation) -> int:
        """First offset that a reader with this isolation may not see."""
        if isolation is FetchIsolation.LOG_END:
            return self._log.end_offset
        if isolation is FetchIsolation.HIGH_WATERMARK:
            return self.high_watermark
        return self.last_stable_offset

    @property
    def has_unwritten_aborts(self) -> bool:
        """True while a full disk keeps aborted transactions out of their files."""
        return self._producers.has_unwritten_aborts

    def aborted_transactions(self, offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions that concern `offset` to `upper_offset`, exclusive."""
        return self._producers.aborted_transactions(offset, upper_offset)

    def earliest(self) -> TimestampAndOffset:
        """The log start; its epoch is -1 where it is not known."""
        first, start = next(iter(self._log.epoch_entries), None), self._log.log_start_offset
        epoch = -1 if first is None or first.start_offset > start else first.epoch
        return TimestampAndOffset(NO_TIMESTAMP_MS, start, epoch)

    def latest(self, isolation: FetchIsolation) -> TimestampAndOffset:
        """The end that a reader with this isolation may read up to, with the newest epoch."""
        return TimestampAndOffset(NO_TIMESTAMP_MS, self.bound(isolation), self._log.last_epoch)

    def with_max_timestamp(self, spend: Spend = spend_nothing) -> TimestampAndOffset | None:
        """The first record with the largest timestamp, which may be -1; None without records."""
        found = with_max_timestamp(self._log.segments, spend)
        self._log.close_unused()
        return found

    def at_timestamp(
        self, timestamp_ms: int, spend: Spend = spend_nothing
    ) -> TimestampAndOffset | None:
        """The first record at or after the timestamp; None if there is none."""
        start_offset = self._log.log_start_offset
        found = first_at_or_after(self._log.segments, timestamp_ms, start_offset, spend)
        self._log.close_unused()
        return found

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch not above `epoch`; (-1, -1) if unknown."""
        return self._log.end_offset_for_epoch(epoch)

    @property
    def epoch_entries(self) -> tuple[EpochEntry, ...]:
        """The leader epochs and their first offsets, oldest first."""
        return self._log.epoch_entries

    @property
    def last_epoch(self) -> int | None:
        """The epoch of the newest entry, None without entries."""
        last_epoch = self._log.last_epoch
        return None if last_epoch < 0 else last_epoch

    def assign_epoch(self, epoch: int) -> None:
        """Let an epoch begin at the end of the log, before it has a record.

        A follower with records of a later epoch than any record here finds by it what to truncate.
        """
        assert epoch >= self._log.last_epoch, f"{epoch=} {self._log.last_epoch=}"
        self._log.assign_epoch(epoch, self._log.end_offset)

    def place_of(self, offset: int) -> tuple[int, int]:
        """Base offset of the segment that an offset lies on, and bytes of the segment before it.

        Raises:
            CorruptLogError: a header on the way to it is damaged.
        """
        assert self._log.log_start_offset <= offset <= self._log.end_offset, f"{offset=}"
        segment = self._log.segments[floor_index(self._log.segments, offset)]
        assert segment.base_offset <= offset, f"{offset=} is below the first segment"
        if offset == self._log.end_offset:
            return segment.base_offset, segment.size_bytes
        position = segment.find(offset)
        self._log.close_unused()
        return segment.base_offset, position

    # -- offsets --------------------------------------------------------------------------------

    def set_high_watermark(self, offset: int) -> None:
        """Set it, within log start and log end; transactions that ended below it are stable."""
        end_offset = self._log.end_offset
        self.high_watermark = min(max(offset, self._log.log_start_offset), end_offset)
        if self.is_replaying:
            return  # at its end, as what is unstable is not known before
        self.producers.forget_replicated(self.high_watermark)
        stable = self.last_stable_offset
        assert self._log.log_start_offset <= stable, f"INV-UL-1 {stable=}"
        assert stable <= self.high_watermark <= end_offset, f"INV-UL-1 {stable=} {end_offset=}"

    def raise_log_start_to(self, offset: int) -> bool:
        """Raise the log start; True if it was lower. Segments stay until `delete_first`.

        Raises:
            OffsetOutOfRangeError: above the high watermark.
        """
        start = self._log.log_start_offset
        if offset > self.high_watermark:
            raise OffsetOutOfRangeError(offset, start, self.high_watermark)
        if offset <= start:
            return False
        self._log.raise_log_start_only_to(offset)
        return True

    def delete_first(self, count: int) -> tuple[str, ...]:
        """Delete the first segments; the paths of their renamed files, to be unlinked later.

        The log start rises to their end, which must not be above the high watermark.
        """
        assert 0 <= count < len(self._log.segments), f"{count=}"
        base_offset = self._log.segments[count].base_offset
        assert base_offset <= self.high_watermark, f"{base_offset=} {self.high_watermark=}"
        self.raise_log_start_to(base_offset)
        return self._log.release_first(count)

    def delete_old_segments(
        self, rules: RetentionRules, wall_ms: int, *, segments_max: int = SEGMENTS_MAX
    ) -> tuple[str, ...]:
        """Delete the first segments that the rules ask for; the paths of their renamed files.

        A segment without timestamps is as old as the last change of its file, as in Kafka.
        """
        log, segments = self._log, self._log.segments
        count = deletable_count(
            extents(segments, log.end_offset),
            rules,
            lambda number: segments[number].largest_timestamp_ms,
            log_start_offset=log.log_start_offset,
            high_watermark=self.high_watermark,
            wall_ms=wall_ms,
        )
        log.close_unused()
        count = min(count, segments_max)
        if count == len(segments):
            log.roll(log.end_offset, wall_ms)
            self._rolled(log.end_offset)
        return self.delete_first(count)

    def truncate_to(self, offset: int, wall_ms: int) -> bool:
        """Drop records at or above the offset, with the whole batch that spans it.

        Then `is_replaying`, where producers have written. False if there are none to drop; an epoch
        without a record at the end goes all the same: others had another one before.
        """
        before = self._log.end_offset
        self._log.truncate_to(offset)
        if offset >= before:
            return False
        self._truncated(wall_ms)
        return True

    def truncate_fully_and_start_at(self, offset: int, wall_ms: int) -> None:
        """Drop everything and start an empty log at the offset; durable."""
        self._log.truncate_fully_and_start_at(offset, wall_ms)
        self._truncated(wall_ms)

    def _truncated(self, wall_ms: int) -> None:
        self._truncated_to = min(self._truncated_to, self._log.end_offset)
        self._producers.reload(wall_ms)
        self.set_high_watermark(self.high_watermark)

    def take_truncation(self) -> int:
        """The lowest end of a truncation since the last call; `OFFSET_MAX` without one."""
        lowest, self._truncated_to = self._truncated_to, OFFSET_MAX
        return lowest

    def configure(self, config: LogConfig, rules: AppendRules) -> None:
        """Take other settings, which hold for what is appended from now on."""
        assert not config.contiguous, "records of a partition may have gaps"
        assert not config.syncs_at_open, "its followers have what a power failure takes"
        self._log.configure(config)
        self.validator = msgspec.structs.replace(self.validator, rules=rules)

    # -- durability -----------------------------------------------------------------------------

    def flush_plan(self) -> FlushPlan:
        """Return the syncs for everything written so far; run it, then give it to the log."""
        self.has_rolled = False
        return self._log.flush_plan()

    @property
    def log(self) -> Log:
        """Its segments: flush plans, flushed end, sizes."""
        return self._log

    def renamed_to(self, directory: str) -> None:
        """Go on in a directory that was renamed, while no flush plan is under way."""
        self._producers.renamed_to(directory)
        self._log.renamed_to(directory)

    def close(self) -> None:
        """Write the producers, flush and close; durable.

        Raises:
            FsyncError: the content of the disk is unknown.
        """
        self._replay()
        self._producers.write_snapshot()
        self._log.close()
