"""A log directory of a broker: the open logs of its partitions, and the offsets recorded of them.

apache/kafka: core/.../log/LogManager.scala (`loadLog`, `checkpoint...InDir`)
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, suppress
from typing import Final

import msgspec

from storage.checkpoints.checkpoint_files import (
    HIGH_WATERMARK_NAME,
    LOG_START_NAME,
    OffsetCheckpoint,
)
from storage.checkpoints.recovery_points import KeptRecoveryPoint, RecoveryPoints, TopicAndPartition
from storage.cleaner.compaction_rules import CompactionRules
from storage.errors import OutOfSpaceError
from storage.log_dir.partition_directories import partition_directory_name
from storage.logs.log import Log, LogConfig
from storage.logs.log_validator import AppendRules
from storage.logs.offsets_record import OffsetsRecord
from storage.logs.recovery import RecoveryProgress
from storage.logs.retention import RetentionRules
from storage.logs.unified_log import UnifiedLog
from storage.producers.producer_state import ProducerStates
from storage.vfs import Vfs, join
from wire.types import Rng

NEVER_MS: Final = (1 << 63) - 1


class TopicSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the logs of a topic; times in ms."""

    log: LogConfig = LogConfig(
        verify_from_start=False,
        contiguous=False,
        reads_old_formats=True,
        syncs_at_open=False,
        records_alone=False,
        grows_index_files=True,
        cuts_flushed_damage=True,
        syncs_cuts=False,
        batch_bytes_max=(1 << 31) - 1,  # its leader has judged it
    )
    append: AppendRules = AppendRules()
    compaction: CompactionRules = CompactionRules()
    retention: RetentionRules = RetentionRules()
    flush_messages: int = NEVER_MS
    """`flush.messages`: records that may be above the flushed end."""
    flush_ms: int = NEVER_MS
    """`flush.ms`: time until a record is flushed."""
    file_delete_delay_ms: int = 60_000
    """`file.delete.delay.ms`: time that a deleted segment stays for its readers."""


SettingsOf = Callable[[str], TopicSettings]
"""The settings of a topic by its name."""


class LogDirectory:
    """Log directory of a broker; its logs are opened by the `LogManager`.

    Args:
        vfs: the disk.
        path: of the directory.
        is_clean: it was left by a clean shutdown: no log is checked.
        producer_expiration_ms: `producer.id.expiration.ms`.
        guard: held while `recovery-point-offset-checkpoint` is written, which has a line of the
            metadata log; None if no other thread writes it.

    Raises:
        CorruptFileError: a file of offsets is damaged.
    """

    def __init__(
        self,
        vfs: Vfs,
        path: str,
        *,
        is_clean: bool,
        producer_expiration_ms: int,
        guard: AbstractContextManager[object] | None = None,
    ) -> None:
        self._vfs = vfs
        self.path = path
        self.is_clean = is_clean
        self._producer_expiration_ms = producer_expiration_ms
        self.recovery_points = RecoveryPoints(OffsetCheckpoint(vfs, path, guard=guard))
        self._log_starts = OffsetCheckpoint(vfs, path, LOG_START_NAME)
        self._high_watermarks = OffsetCheckpoint(vfs, path, HIGH_WATERMARK_NAME)
        self._records: dict[str, OffsetsRecord] = {}
        """The last that was begun, by file."""
        self.logs: dict[TopicAndPartition, UnifiedLog] = {}
        self.futures: dict[TopicAndPartition, UnifiedLog] = {}
        """The logs of replicas that move here; work in lanes changes them."""
        self._future_ends: dict[TopicAndPartition, tuple[int | None, int]] = {}
        """Recorded offsets of them: log start if it is inside a segment, high watermark."""
        self.opening: set[TopicAndPartition] = set()
        """Logs that are not open yet."""
        self.creating: set[TopicAndPartition] = set()
        """Those of them that are new: of the others what is recorded stays."""

    @property
    def log_count(self) -> int:
        """Number of its logs, those included that are not open yet."""
        return len(self.logs) + len(self.futures) + len(self.opening)

    @property
    def open_logs(self) -> tuple[UnifiedLog, ...]:
        """Its logs, with those of replicas that move here."""
        return (*self.logs.values(), *self.futures.values())

    def forget_all_but(self, keys: AbstractSet[TopicAndPartition]) -> None:
        """Leave out what is recorded of logs that are gone, as a crash behind a deletion leaves it.

        A full disk keeps it in the files: `forget_recorded` looks again before a name comes back.
        """
        has_others = self.recovery_points.keep(keys)
        with suppress(OutOfSpaceError):
            if has_others:
                self.recovery_points.record()
            for checkpoint in (self._log_starts, self._high_watermarks):
                recorded = checkpoint.offsets
                kept = {key: recorded[key] for key in recorded if key in keys}
                if len(kept) < len(recorded):
                    checkpoint.replace(kept)

    def begin_anew(self, key: TopicAndPartition) -> None:
        """Note a log that is created; `forget_recorded` follows, on any thread."""
        assert key not in self.logs, f"{key=} is open"
        self.recovery_points.forget(key)
        self.creating.add(key)

    def forget_recorded(self, key: TopicAndPartition) -> None:
        """Leave out what is recorded of a log that is gone, before another gets its name; durable.

        Raises:
            OutOfSpaceError: some of it may be there still.
        """
        if self.recovery_points.is_recorded(key):
            self.recovery_points.record()
        self._log_starts.forget(*key)
        self._high_watermarks.forget(*key)

    def open_log(
        self,
        key: TopicAndPartition,
        settings: TopicSettings,
        wall_ms: int,
        rng: Rng | None,
        directory_name: str | None = None,
        progress: RecoveryProgress | None = None,
    ) -> UnifiedLog:
        """Open the log of a partition, whose directory exists; any thread, one at a time for a log.

        An unclean one is checked from its recovery point on, and what is damaged is cut.

        Raises:
            CorruptLogError: batches of an old format, or a compaction that was not finished.
        """
        name = partition_directory_name(*key)
        log = Log.open(
            self._vfs,
            join(self.path, directory_name or name),
            settings.log,
            KeptRecoveryPoint(self.recovery_points, key),
            self._log_starts.offsets.get(key, 0),
            rng=rng,
            wall_ms=wall_ms,
            is_clean=self.is_clean,
            progress=progress,
        )
        producers = ProducerStates(name, self._producer_expiration_ms, log.log_start_offset)
        high_watermark = self._high_watermarks.offsets.get(key, 0)
        return UnifiedLog(
            self._vfs,
            name,
            log,
            producers,
            settings.append,
            wall_ms=wall_ms,
            high_watermark=high_watermark,
        )

    def expire_producers_after(self, expiration_ms: int) -> None:
        """Forget producers that write nothing for a time, in each open log."""
        for log in self.logs.values():  # a copy takes its settings when it takes over
            log.known_producers.expiration_ms = expiration_ms

    def opened(
        self, key: TopicAndPartition, log: UnifiedLog, wall_ms: int, *, is_future: bool = False
    ) -> None:
        """Take in a log that was opened; one that ends below its recorded start begins anew there.

        Raises:
            OutOfSpaceError: the log is not taken in.
        """
        assert key not in self.logs, f"{key=} is open"
        is_new = key in self.creating
        start = 0 if is_new else self._log_starts.offsets.get(key, 0)
        if log.end_offset < start:
            log.truncate_fully_and_start_at(start, wall_ms)
        assert log.log_start_offset >= start, f"{key=} {start=}"
        log.set_high_watermark(0 if is_new else self._high_watermarks.offsets.get(key, 0))
        self.opening.remove(key)
        self.creating.discard(key)
        if is_future:
            self.futures[key] = log
            self.note_future(key)
        else:
            self.logs[key] = log

    def note_future(self, key: TopicAndPartition) -> None:
        """Take what is to be recorded of the log of a moving replica, on which no lane works."""
        log = self.futures[key]
        assert log.high_watermark <= log.end_offset, f"INV-UL-1 {key=}"
        start = log.log_start_offset if _is_inside(log) else None
        self._future_ends[key] = (start, log.high_watermark)
        self.recovery_points.set(key, log.log.flushed_end_offset)

    def promote(self, key: TopicAndPartition) -> None:
        """Let the log of a replica that has moved here be that of its partition."""
        assert key not in self.logs, f"{key=}"
        assert key in self.futures, f"{key=} does not move here"
        self.logs[key] = self.futures.pop(key)
        del self._future_ends[key]

    def forget_future(self, key: TopicAndPartition) -> UnifiedLog:
        """As `forget`, of a replica that was to move here."""
        self._leave_out(key)
        del self._future_ends[key]
        return self.futures.pop(key)

    def _leave_out(self, key: TopicAndPartition) -> None:
        self.recovery_points.forget(key)
        for record in self._records.values():
            record.forget(key)

    def sync(self) -> None:
        """Make the names in the directory durable; any thread."""
        self._vfs.sync_directory(self.path)

    def forget(self, key: TopicAndPartition) -> UnifiedLog:
        """Take a log out of the directory; its offsets go with the next records."""
        self._leave_out(key)
        return self.logs.pop(key)

    def close(self) -> None:
        """Close its logs, and record their offsets; durable. Nobody may use them meanwhile.

        Raises:
            FsyncError: nothing is recorded as flushed. So for `OutOfSpaceError` and `OSError`.
        """
        for log in self.open_logs:
            log.close()
        self.record_offsets()

    def record_offsets(self) -> None:
        """Record all offsets of its logs; durable.

        Raises:
            OutOfSpaceError: some may be as before. So for `OSError`.
        """
        self.record_recovery_points()
        self.record_log_starts()
        self.record_high_watermarks()

    def record_recovery_points(self) -> None:
        """Record the flushed end of every log; durable, and its epochs before it.

        A start takes the epochs below the recovery point from their file.

        Raises:
            OutOfSpaceError: the record is as before. So for the others.
        """
        for log in self.logs.values():
            log.log.record_epochs()
        _at_once(self.recovery_points_record())

    def record_log_starts(self) -> None:
        """Record the log starts that no segment begins at, as Kafka does; durable."""
        _at_once(self.log_starts_record())

    def record_high_watermarks(self) -> None:
        """Record the high watermark of every log; durable."""
        _at_once(self.high_watermarks_record())

    def recovery_points_record(self) -> OffsetsRecord:
        """The record of the flushed ends, taken some logs at a time.

        A start takes the epochs below a recovery point from their file: that of a log whose epochs
        are not recorded stays as it is.
        """
        return OffsetsRecord(
            self.logs, self._take_recovery_point, {}, lambda _: self.recovery_points.record()
        )

    def _take_recovery_point(self, key: TopicAndPartition) -> None:
        log = self.logs.get(key)
        if log is not None and not log.log.epoch_cache.is_changed:
            assert log.log.flushed_end_offset <= log.end_offset, f"INV-RP-1 {key=}"
            self.recovery_points.take(key, log.log.flushed_end_offset)

    def log_starts_record(self) -> OffsetsRecord:
        """As `record_log_starts`, taken some logs at a time."""
        return self._record(self._log_starts, self._log_start_to_record)

    def high_watermarks_record(self) -> OffsetsRecord:
        """As `record_high_watermarks`, taken some logs at a time."""
        return self._record(self._high_watermarks, self._high_watermark_to_record)

    def _record(
        self, checkpoint: OffsetCheckpoint, offset_of: Callable[[TopicAndPartition], int | None]
    ) -> OffsetsRecord:
        keys, opening = (*self.logs, *self.futures), self._of_opening(checkpoint)
        record = OffsetsRecord(keys, offset_of, opening, checkpoint.replace)
        self._records[checkpoint.path] = record
        return record

    def _log_start_to_record(self, key: TopicAndPartition) -> int | None:
        log = self.logs.get(key)
        if log is not None:
            return log.log_start_offset if _is_inside(log) else None
        ends = self._future_ends.get(key)
        return None if ends is None else ends[0]

    def _high_watermark_to_record(self, key: TopicAndPartition) -> int | None:
        log = self.logs.get(key)
        if log is not None:
            assert log.high_watermark <= log.end_offset, f"INV-UL-1 {key=}"
            return log.high_watermark
        ends = self._future_ends.get(key)
        return None if ends is None else ends[1]

    def _of_opening(self, checkpoint: OffsetCheckpoint) -> dict[TopicAndPartition, int]:
        recorded = checkpoint.offsets
        return {key: recorded[key] for key in self.opening - self.creating if key in recorded}


def _is_inside(log: UnifiedLog) -> bool:
    """True if the log starts inside its first segment."""
    return log.log_start_offset > log.log.segments[0].base_offset


def _at_once(record: OffsetsRecord) -> None:
    record.take(record.left_count)
    record.run()
