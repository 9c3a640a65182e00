"""A replica that moves to another log directory of its broker: it follows the one that is there.

The next step is decided where both logs stand still; it is work for any thread, which has the copy
alone meanwhile.

    INV-MV-1  a copy has no records that its replica has not, once it was reconciled

apache/kafka: core/.../server/{ReplicaAlterLogDirsThread,LocalLeaderEndPoint}.scala
"""

from contextlib import suppress

import msgspec

from replication.follower.following import FetchedFromLeader, append_fetched, begins_anew_with
from storage.logs.append_info import UnexpectedOffsetError
from storage.logs.recovery import first_gap
from storage.logs.retention import RetentionRules
from storage.logs.tail import HeldBatch
from storage.logs.unified_log import FetchIsolation, UnifiedLog
from storage.segments.file_slice import FileSlice
from storage.vfs import Vfs
from wire.types import LeaderEpoch, Offset

_KEEPS_ALL = RetentionRules(retention_ms=-1, retention_bytes=-1)
"""Only what lies below the log start goes."""


def common_end(log: UnifiedLog, copy: UnifiedLog) -> int:
    """End of the records of a copy that its log has too, by the leader epochs of both.

    The records of an epoch are those of one leader: what both have of their largest common epoch,
    and all below it, is the same. (KIP-101, KIP-279)
    """
    entries = copy.epoch_entries
    if not entries:
        return min(copy.end_offset, log.end_offset)
    ends = [*(entry.start_offset for entry in entries[1:]), copy.end_offset]
    for entry, end in zip(reversed(entries), reversed(ends), strict=True):
        epoch, known_end = log.end_offset_for_epoch(entry.epoch)
        if epoch == entry.epoch:
            return min(end, known_end)
    return min(copy.log_start_offset, log.log_start_offset)


class CopyStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of copying; `run` on any thread while nobody else has the copy."""

    vfs: Vfs
    copy: UnifiedLog
    leader_epoch: LeaderEpoch
    high_watermark: Offset
    log_start_offset: Offset
    wall_ms: int
    records: FileSlice | HeldBatch | None = None
    truncate_to: int | None = None
    start_at: int | None = None
    """Offset at which the copy begins anew."""
    flushes: bool = False

    def run(self) -> None:
        """Copy; then flush if it is asked for, or by a roll."""
        self.copy_records()
        if self.flushes or self.copy.has_rolled:
            flush(self.copy, self.wall_ms)

    def copy_records(self) -> None:
        """Truncate, append, raise both watermarks.

        Records that cannot follow are left out: the log was truncated meanwhile.
        """
        copy = self.copy
        if self.start_at is not None:
            copy.truncate_fully_and_start_at(self.start_at, self.wall_ms)
        elif self.truncate_to is not None:
            copy.truncate_to(self.truncate_to, self.wall_ms)
        data = b""
        if self.records is not None:
            data = self.records.read()
            self.records.close()
        self._append(memoryview(data))
        for path in copy.delete_old_segments(_KEEPS_ALL, self.wall_ms):
            with suppress(FileNotFoundError):
                self.vfs.unlink(path)

    def _append(self, data: memoryview) -> None:
        copy, fetched = (
            self.copy,
            FetchedFromLeader(
                records=data,
                high_watermark=self.high_watermark,
                log_start_offset=self.log_start_offset,
            ),
        )
        try:
            append_fetched(copy, fetched, self.leader_epoch, self.wall_ms)
        except UnexpectedOffsetError as error:
            if not begins_anew_with(copy, error):
                raise
            copy.truncate_fully_and_start_at(error.first_offset, self.wall_ms)
            append_fetched(copy, fetched, self.leader_epoch, self.wall_ms)


def next_step(
    vfs: Vfs,
    log: UnifiedLog,
    copy: UnifiedLog,
    leader_epoch: LeaderEpoch,
    wall_ms: int,
    *,
    max_bytes: int,
    reconciles: bool,
    gap_offset: int | None = None,
) -> CopyStep | None:
    """The next step of copying a log; None if the copy has all of it.

    Args:
        vfs: of both.
        log: of the partition.
        copy: in another log directory.
        leader_epoch: of the partition.
        wall_ms: wall clock.
        max_bytes: of records, though at least one batch.
        reconciles: True if the log may have been truncated since the last step.
        gap_offset: end of the records of the copy before a gap that a start found, None without:
            what is behind is copied again.
    """
    step = CopyStep(
        vfs=vfs,
        copy=copy,
        leader_epoch=LeaderEpoch(max(leader_epoch, log.last_epoch or 0)),
        high_watermark=Offset(log.high_watermark),
        log_start_offset=Offset(log.log_start_offset),
        wall_ms=wall_ms,
        flushes=copy.log.flushed_end_offset < log.log.flushed_end_offset,
    )
    end = common_end(log, copy) if reconciles else copy.end_offset
    end = end if gap_offset is None else min(end, gap_offset)
    outside = not copy.log_start_offset <= end or end < log.log_start_offset
    if outside or copy.log_start_offset > log.log_start_offset:
        return msgspec.structs.replace(step, start_at=log.log_start_offset)
    if end < copy.end_offset:
        return msgspec.structs.replace(step, truncate_to=end)
    records = log.slice(copy.end_offset, max_bytes, FetchIsolation.LOG_END, at_least_one=True)
    if records is None:
        is_behind = copy.log_start_offset < log.log_start_offset
        return step if step.flushes or is_behind else None
    return msgspec.structs.replace(step, records=records)


def is_last(step: CopyStep, log: UnifiedLog, max_bytes: int) -> bool:
    """True if a step appends to a copy all that it lacks of its log, within a number of bytes."""
    if step.start_at is not None or step.truncate_to is not None:
        return False
    size_bytes = 0 if step.records is None else step.records.size_bytes
    return size_bytes <= max_bytes and log.log.size_bytes_from(step.copy.end_offset) == size_bytes


def flush(copy: UnifiedLog, wall_ms: int) -> None:
    """Make a copy durable, with its leader epochs; producers that write no more are forgotten."""
    copy.producers.remove_expired(wall_ms)
    copy.has_rolled = False
    copy.log.flush()
    copy.log.record_epochs()


def is_ahead(log: UnifiedLog, copy: UnifiedLog) -> bool:
    """True if a copy has all of its log, or went on in its place before a crash."""
    if first_gap(copy.recovery_report) is not None:
        return False
    ends = (copy.last_epoch or 0, copy.end_offset), (log.last_epoch or 0, log.end_offset)
    return ends[0] >= ends[1]
