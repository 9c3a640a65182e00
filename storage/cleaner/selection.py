"""The part of a log that a round would clean, and whether the log is dirty enough for one.

apache/kafka: storage/.../log/{LogCleanerManager,LogToClean}.java (`cleanableOffsets`,
`calculateCleanableBytes`, `maxCompactionDelay`)
"""

from collections.abc import Sequence

import msgspec

from storage.cleaner.clean_job import CleanJob, CleanRules, LastRecord
from storage.cleaner.compaction_rules import CompactionRules
from storage.logs.unified_log import UnifiedLog
from storage.segments.segment import Segment, floor_index


class LogToClean(msgspec.Struct, frozen=True, kw_only=True):
    """A compacted log as the selection sees it."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    """Base offset of a segment; not above the first dirty offset if nothing may be cleaned."""
    is_reset: bool
    """True if the recorded first dirty offset was none of the log."""
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int
    """Time since `max.compaction.lag.ms` asks for a round, 0 if it does not."""

    @property
    def ratio(self) -> float:
        """Dirty part of the log; 0 of an empty one."""
        total_bytes = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total_bytes if total_bytes else 0.0

    def is_cleanable(self, rules: CompactionRules) -> bool:
        """True if a round is due: the log is dirty enough, or has been dirty for too long."""
        is_late = self.delay_ms > 0 and self.cleanable_bytes > 0
        return is_late or self.ratio > rules.dirty_ratio_min


class RoundLimits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Limits of one cleaner: that of its map in slots and keys, and bytes of a read."""

    slots: int
    keys_max: int
    read_bytes: int


def log_to_clean(
    log: UnifiedLog, recorded: int | None, rules: CompactionRules, wall_ms: int
) -> LogToClean:
    """The part of a log that a round would clean.

    Args:
        log: of the partition.
        recorded: first dirty offset of the checkpoint, None without one.
        rules: of the topic.
        wall_ms: wall clock.
    """
    segments, start = log.log.segments, log.log_start_offset
    *_, active = segments
    first_dirty = start if recorded is None else recorded
    is_reset = not start <= first_dirty <= log.end_offset
    if is_reset:
        first_dirty = start
    dirty: Sequence[Segment] = ()
    if first_dirty < active.base_offset:
        dirty = segments[floor_index(segments, first_dirty) : -1]
    bound = min(log.last_stable_offset, active.base_offset)
    if rules.lag_ms_min > 0:
        newest_ms = wall_ms - rules.lag_ms_min
        bound = min(
            [bound, *(each.base_offset for each in dirty if each.largest_timestamp_ms > newest_ms)]
        )
    bound = max(first_dirty, bound)
    end_offset = active.base_offset
    if bound < end_offset:
        end_offset = segments[floor_index(segments, bound)].base_offset
    assert end_offset <= active.base_offset, f"{end_offset=} {active.base_offset=}"
    found = LogToClean(
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=end_offset,
        is_reset=is_reset,
        clean_bytes=sum(each.size_bytes for each in segments if each.base_offset < first_dirty),
        cleanable_bytes=sum(each.size_bytes for each in dirty if each.base_offset < end_offset)
        if first_dirty < end_offset
        else 0,
        delay_ms=_delay_ms(dirty, rules, wall_ms),
    )
    log.log.close_unused()
    return found


def _delay_ms(dirty: Sequence[Segment], rules: CompactionRules, wall_ms: int) -> int:
    """Time since the oldest dirty closed segment should have been cleaned."""
    until_ms = wall_ms - rules.lag_ms_max
    if until_ms <= 0:  # as by default: no segment is looked into
        return 0
    times_ms = [each.indexes.first_timestamp_ms for each in dirty if each.size_bytes]
    oldest_ms = min((each for each in times_ms if each > 0), default=until_ms)
    return max(0, until_ms - oldest_ms)


def clean_job(
    partition: str,
    log: UnifiedLog,
    found: LogToClean,
    rules: CompactionRules,
    limits: RoundLimits,
    wall_ms: int,
) -> CleanJob:
    """The round of a log that `is_cleanable`."""
    end_offset = found.first_uncleanable_offset
    assert found.first_dirty_offset < end_offset <= log.last_stable_offset, f"{found=}"
    bases = [each.base_offset for each in log.log.segments]
    config = log.log.config
    return CleanJob(
        partition=partition,
        directory=log.log.directory,
        segments=tuple(each for each in bases if each < end_offset),
        later_segments=tuple(each for each in bases if each >= end_offset),
        first_dirty_offset=found.first_dirty_offset,
        first_uncleanable_offset=end_offset,
        producers=tuple(
            LastRecord(
                entry.producer_id,
                entry.batches[-1].last_offset if entry.batches else -1,
                entry.producer_epoch,
            )
            for entry in log.producers.entries()
        ),
        rules=CleanRules(
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            delete_retention_ms=rules.delete_retention_ms,
        ),
        slots=limits.slots,
        keys_max=limits.keys_max,
        read_bytes=limits.read_bytes,
        now_ms=wall_ms,
    )
