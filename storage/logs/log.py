"""The log of one partition: segments of record batches, their epochs, and its flushed end.

An append is durable once the plan of `flush_plan()` has run; `flush_done` then moves the flushed
end. So is a truncation unless `syncs_cuts`. apache/kafka: UnifiedLog, LocalLog
"""

from contextlib import suppress

from storage.checkpoints.epoch_checkpoint import EpochEntry
from storage.errors import CorruptLogError, OffsetOutOfRangeError, OutOfSpaceError
from storage.logs.append_info import AppendInfo
from storage.logs.fetched_batches import acceptable, groups_that_fit
from storage.logs.flush_plan import FlushPlan
from storage.logs.flushing import Flushing, RecordedEnd
from storage.logs.interrupted_swaps import SwapUnderWay
from storage.logs.log_loading import LoadedLog, LogConfig, SegmentMaker, load_log, write_again
from storage.logs.recovery import RecoveryEvent, RecoveryProgress
from storage.segments.file_slice import FileSlice
from storage.segments.locating import located
from storage.segments.open_segments import OpenSegments
from storage.segments.rolling import AppendExtent, roll_reason
from storage.segments.segment import Segment, floor_index
from storage.vfs import Vfs, VfsFile, parent
from wire.batches.batch import BatchFrame, iterate_frames
from wire.types import Rng

__all__ = ["AppendInfo", "FlushPlan", "Log", "LogConfig"]


class Log:
    """An open log. `recovery_report` lists the repairs that opening it made."""

    def __init__(
        self,
        maker: SegmentMaker,
        recovery_point: RecordedEnd | None,
        loaded: LoadedLog,
    ) -> None:
        vfs, directory, config = maker.vfs, maker.directory, maker.config
        self._vfs, self.directory = vfs, directory
        self.config, self._roll_rules = config, config.roll_rules
        self.maker = maker
        self._flushing = Flushing(vfs, recovery_point, config.recovery_point_bytes)
        self._segments = loaded.segments
        self.epoch_cache = loaded.epochs
        self.swap: SwapUnderWay | None = None
        self._open = OpenSegments(config.open_segments_max)
        self.end_offset, self.last_epoch = loaded.end_offset, loaded.last_epoch
        damage = None if recovery_point is None else recovery_point.damage
        self.recovery_report: tuple[RecoveryEvent, ...] = (*filter(None, [damage]), *loaded.report)
        self.log_start_offset = loaded.end_offset
        if self._segments:
            self.log_start_offset = self._segments[0].base_offset
            self._active.create_index_files()
            for segment in self._segments[floor_index(self._segments, loaded.flushed_end_offset) :]:
                if not loaded.is_durable:
                    self._flushing.wrote(segment.path, segment.file, 0)
                self._touch(segment)
        else:
            self._segments.append(self._create_segment(loaded.end_offset, maker.opened_ms))
        assert self.log_start_offset <= self.end_offset, f"{self.log_start_offset=}"
        if not loaded.is_durable:
            self._flushing.unsynced_directories |= {directory, parent(directory)}
        self._flushing.flushed_end_offset = self.log_start_offset

    @classmethod
    def open(  # noqa: PLR0913 - what a start knows, each by keyword
        cls,
        vfs: Vfs,
        directory: str,
        config: LogConfig,
        recovery_point: RecordedEnd | None = None,
        log_start_offset: int = 0,
        *,
        rng: Rng | None = None,
        wall_ms: int = 0,
        is_clean: bool = False,
        progress: RecoveryProgress | None = None,
    ) -> "Log":
        """Open or create the log of a directory; with `syncs_at_open` it is flushed on return.

        If the log directory was shut down cleanly (`is_clean`), no batch is checked.

        Raises:
            CorruptLogError: damage below the recovery point.
        """
        vfs.make_directory(directory)
        flushed = 0 if recovery_point is None else recovery_point.end_offset
        maker = SegmentMaker(vfs, directory, config, rng, wall_ms)
        loaded = load_log(maker, flushed, log_start_offset, is_clean=is_clean, progress=progress)
        log = cls(maker, recovery_point, loaded)
        log.log_start_offset = max(log.log_start_offset, min(log_start_offset, log.end_offset))
        log.epoch_cache.truncate_from_start(log.log_start_offset)
        if not config.syncs_at_open:
            log._flushing.flushed_end_offset = loaded.flushed_end_offset
            return log
        if flushed < log.end_offset:
            write_again(log._segments[floor_index(log._segments, flushed) :], flushed)
        log.flush()
        assert log.flushed_end_offset == log.end_offset, f"{log.flushed_end_offset=}"
        if recovery_point is not None:
            recovery_point.note(log.flushed_end_offset)
        return log

    @property
    def flushed_end_offset(self) -> int:
        """First offset that may be lost in a power failure."""
        return self._flushing.flushed_end_offset

    @property
    def generation(self) -> int:
        """Number of truncations."""
        return self._flushing.generation

    @property
    def epoch_entries(self) -> tuple[EpochEntry, ...]:
        """The leader epochs and their first offsets, oldest first."""
        return self.epoch_cache.entries

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size_bytes for segment in self._segments)

    def size_bytes_from(self, offset: int) -> int:
        """Bytes of the batches from the one that holds `offset`, or the log start, to the end."""
        number = floor_index(self._segments, max(offset, self.log_start_offset))
        segment = self._segments[number]
        below = segment.find(offset) if offset > segment.base_offset else 0
        return sum(later.size_bytes for later in self._segments[number:]) - below

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch not above `epoch`; (-1, -1) if unknown."""
        return self.epoch_cache.end_offset_for(epoch, self.end_offset)

    # -- append ---------------------------------------------------------------------------------

    def append(self, batches: bytes, base_offset: int, wall_ms: int = 0) -> AppendInfo:
        """Append batches that this node built.

        Raises:
            OutOfSpaceError: the disk is full; the log is as before.
        """
        frames = list(iterate_frames(batches))
        assert base_offset == self.end_offset, f"{base_offset=} {self.end_offset=}"
        assert base_offset == frames[0].base_offset, f"{base_offset=} {frames[0]=}"
        assert frames[-1].end_position == len(batches)
        new_epochs = self.append_frames(batches, frames, wall_ms)
        return AppendInfo(base_offset, self.end_offset, self.last_epoch, new_epochs)

    def append_fetched(self, batches: bytes, epoch_max: int, wall_ms: int = 0) -> AppendInfo:
        """Append batches from a leader unchanged, up to the first invalid one.

        Invalid: a cut, damaged or too large batch, one that does not continue the log, or one of an
        epoch above `epoch_max`. It and all after it are dropped (KAFKA-18723), `stopped` says why.

        Raises:
            OutOfSpaceError: the disk is full and nothing was written; the log is as before.
        """
        before = self.end_offset
        view = memoryview(batches)
        groups, stopped = self.fetched_groups(view, epoch_max)
        new_epochs: list[EpochEntry] = []
        for group in groups:
            start, end = group[0].position, group[-1].end_position
            data = batches if end - start == len(batches) else view[start:end]
            try:
                new_epochs += self.append_frames(data, group, wall_ms)
            except OutOfSpaceError:
                if self.end_offset == before:
                    raise
                stopped = "no space left on device"
                break
        return AppendInfo(before, self.end_offset, self.last_epoch, tuple(new_epochs), stopped)

    def fetched_groups(
        self, view: memoryview, epoch_max: int
    ) -> tuple[list[list[BatchFrame]], str | None]:
        """The batches that may be appended, in groups for `append_frames`; why others may not."""
        config = self.config
        rules = config.batch_rules(self.end_offset, self.last_epoch)
        taken, stopped = acceptable(view, rules, epoch_max, config.batch_bytes_max)
        room_bytes = config.segment_bytes - self._active.size_bytes
        return groups_that_fit(taken, room_bytes, config.segment_bytes), stopped

    def append_frames(
        self, data: bytes | memoryview, frames: list[BatchFrame], wall_ms: int
    ) -> tuple[EpochEntry, ...]:
        """Append valid batches, all to one segment; the epochs that begin in them are returned."""
        if self._must_roll(len(data), frames, wall_ms):
            self.roll(max(self.end_offset, frames[0].base_offset), wall_ms)
        assert frames[0].base_offset >= self.end_offset, f"{frames[0]=} {self.end_offset=}"
        segment = self._segments[-1]
        segment.append(data, frames, wall_ms)
        self._flushing.wrote(segment.path, segment.file, len(data))
        self.end_offset = frames[-1].last_offset + 1
        new_epochs: list[EpochEntry] = []
        for frame in frames:
            epoch = frame.leader_epoch
            if epoch > self.last_epoch and self.assign_epoch(epoch, frame.base_offset):
                new_epochs.append(EpochEntry(epoch, frame.base_offset))
        return tuple(new_epochs)

    def assign_epoch(self, epoch: int, start_offset: int) -> bool:
        """Note that an epoch begins at an offset; True if the epochs are others by that."""
        self.last_epoch = max(epoch, self.last_epoch)
        return self.epoch_cache.assign(epoch, start_offset)

    def _must_roll(self, added_bytes: int, frames: list[BatchFrame], wall_ms: int) -> bool:
        newest_ms = max([frame.max_timestamp_ms for frame in frames])
        append = AppendExtent(added_bytes, frames[-1].last_offset, newest_ms, wall_ms)
        return roll_reason(self._active.fill, append, self._roll_rules) is not None

    def roll(self, base_offset: int, wall_ms: int) -> None:
        """Begin a new segment, which the next batch goes to."""
        old = self._active
        assert base_offset >= self.end_offset, f"{base_offset=} {self.end_offset=}"
        assert base_offset > old.base_offset, f"{base_offset=} {old.base_offset=}"
        new = self._create_segment(base_offset, wall_ms)
        old.write_indexes()
        if self.config.grows_index_files:
            self._flushing.unsynced.update(old.share_index_files())
        self._segments = [*self._segments, new]
        self._touch(old)
        self._flushing.rolled()

    def _create_segment(self, base_offset: int, wall_ms: int) -> Segment:
        segment = self.maker.make(base_offset, wall_ms)
        segment.create()
        self._flushing.wrote(segment.path, segment.file, 0)
        self._flushing.unsynced_directories.add(self.directory)
        return segment

    def configure(self, config: LogConfig) -> None:
        """Take other settings, which hold for what is appended from now on."""
        self.config = self.maker.config = config
        self._roll_rules = config.roll_rules

    # -- read -----------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, end_offset: int | None = None) -> bytes:
        """Return whole batches from the one that holds `offset`, all below `end_offset`.

        At most `max_bytes`, but at least one batch if there is one; never across a segment's end.

        Raises:
            OffsetOutOfRangeError: below the log start or above the end.
            CorruptLogError: the bytes on the disk have changed since they were written.
        """
        located = self._locate(offset, end_offset)
        if located is None:
            return b""
        segment, position, end = located
        data = segment.read_batches(position, end, max_bytes)
        damage = self.config.damage_in(data, offset)
        if damage is not None:
            raise CorruptLogError(segment.path, position + damage[0], damage[1])
        return data

    def slice(
        self, offset: int, max_bytes: int, end_offset: int | None = None, *, at_least_one: bool
    ) -> FileSlice | None:
        """The batches that `read` returns, not read yet; None if there are none.

        A first batch above `max_bytes` is left out unless `at_least_one`.

        Raises:
            OffsetOutOfRangeError: below the log start or above the end.
            CorruptLogError: a header on the way to them is damaged.
        """
        located = self._locate(offset, end_offset)
        if located is None:
            return None
        segment, position, end = located
        size = segment.whole_batches_bytes(position, end, max_bytes, at_least_one=at_least_one)
        if size == 0:
            return None
        return FileSlice(segment.file.share(), position, size, self.generation, segment.base_offset)

    def _locate(self, offset: int, end_offset: int | None) -> tuple[Segment, int, int] | None:
        """Segment, position and end of the batches from `offset` on; None if there are none."""
        if not self.log_start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRangeError(offset, self.log_start_offset, self.end_offset)
        limit = self.end_offset if end_offset is None else min(end_offset, self.end_offset)
        if offset >= limit:
            return None
        bounds = offset, limit, self.end_offset
        return located(self._segments, bounds, self._touch, contiguous=self.config.contiguous)

    # -- truncation -----------------------------------------------------------------------------

    def truncate_to(self, end_offset: int) -> int:
        """Drop records at or above the offset, with the batch that spans it; see `syncs_cuts`.

        Returns the new end offset. An offset below the log start lowers that too, as in Kafka.

        Raises:
            OutOfSpaceError: partly done, as in `truncate_fully_and_start_at`.
        """
        assert end_offset >= 0
        self._end_swap()
        if end_offset >= self.end_offset:
            if self.epoch_cache.truncate_from_end(self.end_offset):  # one that has no record
                self._take_last_epoch()
            return self.end_offset
        number = floor_index(self._segments, end_offset)
        start_offset = min(end_offset, self.log_start_offset)
        segment = self._segments[number]
        position = segment.find(end_offset)
        if position < segment.size_bytes:
            end_offset = min(end_offset, segment.header_at(position).base_offset)
        if end_offset < self.log_start_offset:  # nothing above it is left
            self.truncate_fully_and_start_at(start_offset)
            return start_offset
        self._flushing.lower_record_to(end_offset)
        self._remove_segments(number + 1)
        segment.truncate(position, end_offset)
        if self.config.syncs_cuts:
            segment.file.sync()
            self._vfs.sync_directory(self.directory)
        self._flushing.wrote(segment.path, segment.file, 0)
        self._touch(segment)
        self._set_end(end_offset)
        return end_offset

    def truncate_fully_and_start_at(self, offset: int, wall_ms: int = 0) -> None:
        """Drop everything and start an empty log at the offset; durable.

        Raises:
            OutOfSpaceError: partly done: segments may be removed and there is none to append to.
                The same call completes it once there is space; otherwise the node must stop, as
                Kafka's log directory goes offline.
        """
        self._end_swap()
        self._flushing.lower_record_to(0)
        self._remove_segments(0)
        self._segments = [self._create_segment(offset, wall_ms)]
        self._vfs.sync_directory(self.directory)
        self.log_start_offset = offset
        self.epoch_cache.clear()
        self._set_end(offset)
        self._flushing.flushed_end_offset = offset

    def raise_log_start_to(self, offset: int) -> tuple[str, ...]:
        """Raise the log start to the offset, remove whole segments below it; return their paths."""
        assert offset <= self.end_offset
        if offset <= self.log_start_offset:
            return ()
        self.raise_log_start_only_to(offset)
        removed: list[str] = []
        while len(self._segments) > 1 and self._segments[1].base_offset <= offset:
            segment, *self._segments = self._segments
            self._forget(segment)
            segment.remove()
            self._vfs.sync_directory(self.directory)  # in order, or a crash could cause a gap
            removed.append(segment.path)
        assert self._segments[0].base_offset <= offset, f"{offset=} has no segment"
        return tuple(removed)

    def _set_end(self, end_offset: int) -> None:
        self.end_offset = end_offset
        self._flushing.truncated_to(end_offset)
        self.epoch_cache.truncate_from_end(end_offset)
        self._take_last_epoch()

    def _take_last_epoch(self) -> None:
        last_epoch = self.epoch_cache.last_epoch
        self.last_epoch = -1 if last_epoch is None else last_epoch

    def raise_log_start_only_to(self, offset: int) -> None:
        """Raise the log start to the offset; segments below it stay until `release_first`."""
        assert self.log_start_offset <= offset <= self.end_offset, f"{offset=}"
        self.log_start_offset = offset
        self.epoch_cache.truncate_from_start(offset)

    def release_first(self, count: int) -> tuple[str, ...]:
        """Rename the files of the first segments `.deleted`, and return the new paths.

        Whoever holds a slice of them reads on. The log start is at or above their end.
        """
        assert 0 <= count < len(self._segments), f"{count=} {len(self._segments)=}"
        assert self._segments[count].base_offset <= self.log_start_offset, f"{count=}"
        released, self._segments = self._segments[:count], self._segments[count:]
        renamed: list[str] = []
        for segment in released:
            self._forget(segment)
            renamed += segment.mark_deleted()
        return tuple(renamed)

    def _remove_segments(self, first: int) -> None:
        for segment in reversed(self._segments[first:]):
            self._forget(segment)
            segment.remove()
            self._vfs.sync_directory(self.directory)
        self._segments = self._segments[:first]

    # -- durability -----------------------------------------------------------------------------

    def wrote_beside(self, path: str, file: VfsFile) -> None:
        """Let the next flush sync another file of the directory, which was written to."""
        self._flushing.forget(path)  # an earlier file of this name may be gone
        self._flushing.wrote(path, file, 0)
        self._flushing.unsynced_directories.add(self.directory)

    def flush_plan(self) -> FlushPlan:
        """Return the syncs for everything written so far; run it, then give it to `flush_done`."""
        return self._flushing.plan(self.end_offset, self.last_epoch)

    def flush_done(self, plan: FlushPlan) -> None:
        """Advance the flushed end to that of a plan that has run, and record it periodically."""
        is_due = self._flushing.done(plan)
        assert self.flushed_end_offset <= self.end_offset, f"{self.flushed_end_offset=}"
        if is_due and self.config.records_alone:
            self._record_flushed_end()

    def flush(self) -> None:
        """Make a plan, run it and report it at once: for start, shutdown and tests."""
        plan = self.flush_plan()
        plan.run()
        self.flush_done(plan)

    def close(self) -> None:
        """Flush, write the indexes and checkpoints, close the files.

        Plans not yet given to `flush_done` are run first; no other thread may run them meanwhile.

        Raises:
            FsyncError: also if such a plan had failed; nothing is recorded as flushed then.
        """
        self._end_swap()
        for plan in [*self._flushing.outstanding, self.flush_plan()]:
            plan.run()
            self.flush_done(plan)
        self._active.write_indexes()
        self._record_flushed_end()
        self.close_files()

    def close_files(self) -> None:
        """Close the files without a flush: of a log that is deleted, or whose disk failed."""
        for segment in self._segments:
            segment.close()
        self._flushing.close()

    def record_epochs(self) -> bool:
        """Make the leader epochs durable, if they changed; OutOfSpaceError leaves their file."""
        return self.epoch_cache.record(self._vfs, self.directory)

    def _record_flushed_end(self) -> None:
        """Write the checkpoints; on a full disk the older ones remain until a later flush."""
        with suppress(OutOfSpaceError):
            self.record_epochs()
            self._flushing.record()

    # -- segments -------------------------------------------------------------------------------

    def renamed_to(self, directory: str) -> None:
        """Go on in a directory that was renamed, while no flush plan is under way."""
        self._end_swap()
        self._flushing.renamed(self.directory, directory)
        self.directory = self.maker.directory = directory
        for segment in self._segments:
            segment.renamed_to(directory)

    @property
    def segments(self) -> list[Segment]:
        """The segments, oldest first; this list is never changed, only replaced by another."""
        return self._segments

    def close_unused(self) -> None:
        """Close files that a look-up through `segments` opened, but for the last used ones."""
        self._open.touch_opened(self._segments[:-1])

    def swap_in(self, segment: Segment, old: list[Segment]) -> None:
        """Let a segment take the place of some that follow each other and are closed."""
        first = self._segments.index(old[0])
        assert self._segments[first : first + len(old)] == old, "they are not in the log"
        assert self._active not in old, f"{self._active.path} is written to"
        for each in old:
            self._forget(each)
        self._segments = [*self._segments[:first], segment, *self._segments[first + len(old) :]]

    def _end_swap(self) -> None:
        """Finish or undo a swap that is under way: what follows must not meet its files."""
        if self.swap is not None:
            self.swap.end_now()

    @property
    def _active(self) -> Segment:
        return self._segments[-1]

    def _touch(self, segment: Segment) -> None:
        """Keep few files open: that of the active segment and the last used ones."""
        if segment is not self._active:
            self._open.touch(segment)

    def _forget(self, segment: Segment) -> None:
        self._open.forget(segment)
        self._flushing.forget(segment.path)
        for path in segment.index_paths:
            self._flushing.forget(path)
