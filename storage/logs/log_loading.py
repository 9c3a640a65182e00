"""Loading of a log directory: its segments, their epochs, and the treatment of damage.

Damage below the recorded flushed end stops the node; above it the tail is cut and reported.
Kafka cuts in both cases (docs/formats/damage.md). Where offsets may be missing, a gap between two
segments above it is only reported: the process may have been killed behind a compacted log, whose
page cache is whole. Kafka takes no notice of it.
"""

import contextlib
from typing import Final

import msgspec

from storage.checkpoints.epoch_checkpoint import (
    EPOCH_CHECKPOINT_NAME,
    EpochCache,
    EpochEntry,
    decode_epochs,
)
from storage.errors import CorruptFileError, CorruptLogError
from storage.logs.interrupted_swaps import settle_swaps
from storage.logs.recovery import (
    BatchRules,
    FileRebuilt,
    RecoveryEvent,
    RecoveryProgress,
    SegmentsApart,
    SegmentsDropped,
    TailCut,
    scan_segment,
)
from storage.segments.index_loading import index_objection
from storage.segments.read_check import first_damage
from storage.segments.rolling import RollRules, drawn_jitter_ms
from storage.segments.segment import (
    OFFSET_MAX,
    SEGMENT_SUFFIXES,
    Segment,
    segment_base_offset,
    segment_name,
)
from storage.segments.segment_indexes import SegmentIndexes
from storage.vfs import Vfs, join
from wire.types import Rng


class LogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a log, with Kafka's defaults."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    batch_bytes_max: int = 8 << 20  # of one fetched batch; Kafka's limit for the metadata log
    recovery_point_bytes: int = 4 << 20  # flushed log between two records of the flushed end
    open_segments_max: int = 4  # files kept open beside that of the active segment
    verify_from_start: bool = True  # check all segments at open, not only the unflushed ones
    contiguous: bool = True  # no offset may be missing (compacted logs have gaps)
    reads_old_formats: bool = False  # messages of magic 0 and 1 may be in it
    syncs_at_open: bool = True  # what is not recorded as flushed is written again and synced
    grows_index_files: bool = False  # they are written with the segment, not only at its roll
    records_alone: bool = True  # else epochs and flushed end are recorded with those of other logs
    cuts_flushed_damage: bool = False  # also below the recovery point: another replica has it
    syncs_cuts: bool = True
    """A cut of the last segment is durable on return, not only with the next flush.

    Else a power failure may bring back what was cut, unless something was written over it. Then the
    log is as it was before: no recovery point is above the cut, so that a start checks the segment,
    where a batch of an older epoch cannot follow one of a newer; and by its last epoch the leader
    tells the follower again where to truncate. Kafka syncs no cut either. What is durable in any
    case is what a start could not see: a recovery point that was above the cut is lowered, as
    Kafka's LogManager does; and names of segments that went, before the one that is cut, as one
    that came back would leave a gap.
    """

    def __post_init__(self) -> None:
        """Assert the range of each setting."""
        assert self.segment_bytes > 0, f"{self.segment_bytes=}"
        assert self.segment_ms >= 0, f"{self.segment_ms=}"
        assert self.segment_jitter_ms >= 0, f"{self.segment_jitter_ms=}"
        assert self.segment_index_bytes > 0, f"{self.segment_index_bytes=}"
        assert self.index_interval_bytes >= 0, f"{self.index_interval_bytes=}"
        assert self.batch_bytes_max > 0, f"{self.batch_bytes_max=}"
        assert self.recovery_point_bytes >= 0, f"{self.recovery_point_bytes=}"
        assert self.open_segments_max >= 0, f"{self.open_segments_max=}"

    def batch_rules(self, end_offset: int, last_epoch: int) -> BatchRules:
        """Requirements that the batch at `end_offset` must meet."""
        return BatchRules(
            end_offset,
            last_epoch,
            contiguous=self.contiguous,
            reads_old_formats=self.reads_old_formats,
        )

    def damage_in(self, data: bytes, offset: int) -> tuple[int, str] | None:
        """Position and damage of the first damaged batch of what was read at `offset`, or None."""
        return first_damage(
            data, offset, contiguous=self.contiguous, reads_old_formats=self.reads_old_formats
        )

    @property
    def roll_rules(self) -> RollRules:
        """Settings by which a log begins a new segment."""
        return RollRules(
            segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            index_bytes=self.segment_index_bytes,
        )


class SegmentMaker:
    """The segments of one log, as its settings ask for; `rng` draws their jitter."""

    def __init__(
        self,
        vfs: Vfs,
        directory: str,
        config: LogConfig,
        rng: Rng | None = None,
        opened_ms: int = 0,
    ) -> None:
        self.vfs = vfs
        self.directory = directory
        self.config = config
        self.opened_ms = opened_ms
        """Wall clock; an opened segment counts as created then."""
        self._rng = rng

    def make(self, base_offset: int, wall_ms: int, suffix: str = "") -> Segment:
        """The segment of a base offset, whether its file exists or not."""
        config = self.config
        return Segment(
            self.vfs,
            self.directory,
            base_offset,
            config.index_interval_bytes,
            grows_index_files=config.grows_index_files,
            created_ms=wall_ms,
            jitter_ms=drawn_jitter_ms(self._rng, config.segment_jitter_ms, config.segment_ms),
            suffix=suffix,
        )


class LoadedLog(msgspec.Struct):
    """The result of `load_log`."""

    segments: list[Segment]
    epochs: EpochCache
    end_offset: int
    last_epoch: int
    report: list[RecoveryEvent]
    flushed_end_offset: int
    """End of the part that needs no sync: the recorded flushed end, or the end of a clean log."""
    is_durable: bool = False
    """True of a clean log: its files and their names need no sync before the next append."""


_COPY_BYTES: Final = 1 << 20


def load_log(
    maker: SegmentMaker,
    recovery_point: int,
    log_start_offset: int,
    *,
    is_clean: bool = False,
    progress: RecoveryProgress | None = None,
) -> LoadedLog:
    """Check the directory; cut or refuse damaged segments. Of a clean log only the end is read.

    `progress` tells another thread how far the check is.

    Raises:
        CorruptLogError: damage below the recovery point.
    """
    loader = _Loader(maker, recovery_point, progress or RecoveryProgress())
    return loader.load(log_start_offset, is_clean=is_clean)


def write_again(segments: list[Segment], flushed_end: int) -> None:
    """Rewrite the bytes from the recorded flushed end on in place, unchanged.

    After a failed fsync the page cache may hold pages, marked clean, that the disk lacks: a new
    process reads them, and its own fsync would write nothing. (Rebello et al., "Can applications
    recover from fsync failures?", 2020)

    Args:
        segments: the last ones, from that which holds the flushed end.
        flushed_end: below the log end.
    """
    assert segments, "a log keeps its first segment"
    for segment in segments:
        position = segment.find(max(flushed_end, segment.base_offset))
        assert 0 <= position <= segment.size_bytes, f"{position=} {segment.size_bytes=}"
        while content := segment.file.pread(_COPY_BYTES, position):
            segment.file.pwrite(content, position)
            position += len(content)


class _Loader:
    """One load of a log: its segments, its epochs and the events of its recovery."""

    def __init__(
        self, maker: SegmentMaker, recovery_point: int, progress: RecoveryProgress
    ) -> None:
        assert recovery_point >= 0, f"{recovery_point=}"
        self._vfs = maker.vfs
        self._directory = maker.directory
        self._config = maker.config
        self._maker = maker
        self._progress = progress
        self._recovery_point = recovery_point
        self._required_end = 0 if maker.config.cuts_flushed_damage else recovery_point
        """A log that ends below it is refused."""
        self._report: list[RecoveryEvent] = []
        self._epochs = EpochCache()
        self._claimed: tuple[EpochEntry, ...] = ()
        """Epochs of the file that begin where batches are checked: true of those without epoch."""

    def load(self, log_start_offset: int, *, is_clean: bool) -> LoadedLog:
        segments = self._list_segments()
        if not segments:
            if self._required_end > log_start_offset:
                raise CorruptLogError(
                    self._directory, 0, f"no segment; {self._recovery_point} offsets were flushed"
                )
            return self._loaded([], log_start_offset, -1, log_start_offset)
        verified = self._read_epochs()
        first = self._first_to_scan(segments) if verified and not is_clean else 0
        if verified and self._config.grows_index_files:
            self._rebuild_indexes(segments if is_clean else segments[:first])
        if verified and is_clean:
            self._epochs.note_recorded(self._epochs.version)
            end_offset = segments[-1].indexes.end_offset
            self._epochs.truncate_from_end(end_offset)
            loaded = self._loaded(segments, end_offset, self._last_epoch, end_offset)
            loaded.is_durable = True
            return loaded
        if verified:
            entries, base_offset = self._epochs.entries, segments[first].base_offset
            self._claimed = tuple(each for each in entries if each.start_offset >= base_offset)
            self._epochs.truncate_from_end(base_offset)
        end_offset, last_epoch = self._scan(segments, first, log_start_offset)
        self._take_claimed(end_offset)
        last_epoch = max(last_epoch, self._last_epoch)
        assert segments, "a log keeps its first segment"
        assert end_offset >= segments[-1].base_offset, f"{end_offset=}"
        assert (self._epochs.last_epoch or 0) <= max(last_epoch, 0), f"{last_epoch=}"
        if end_offset < self._required_end:
            raise CorruptLogError(
                segments[-1].path,
                segments[-1].size_bytes,
                f"the log ends at offset {end_offset}, flushed up to {self._required_end}",
            )
        flushed_end = min(self._recovery_point, end_offset)
        return self._loaded(segments, end_offset, last_epoch, flushed_end)

    def _loaded(
        self, segments: list[Segment], end_offset: int, last_epoch: int, flushed_end_offset: int
    ) -> LoadedLog:
        assert flushed_end_offset <= end_offset, f"{flushed_end_offset=} {end_offset=}"
        return LoadedLog(
            segments, self._epochs, end_offset, last_epoch, self._report, flushed_end_offset
        )

    def _list_segments(self) -> list[Segment]:
        settle_swaps(self._vfs, self._directory)
        names = self._vfs.list(self._directory)
        bases = {base for name in names if (base := segment_base_offset(name)) is not None}
        if max(bases, default=0) > OFFSET_MAX:
            path = join(self._directory, segment_name(max(bases)))
            raise CorruptLogError(path, 0, f"its name is more than the last offset, {OFFSET_MAX}")
        for name in names:
            for suffix in SEGMENT_SUFFIXES[1:4]:
                base = segment_base_offset(name, suffix)
                if base is not None and base not in bases:
                    self._vfs.unlink(join(self._directory, name))  # an index without its segment
        return [self._maker.make(base, self._maker.opened_ms) for base in sorted(bases)]

    def _read_epochs(self) -> bool:
        """Read the epoch file; True if the epochs below the recovery point are taken from it."""
        path = join(self._directory, EPOCH_CHECKPOINT_NAME)
        if not self._vfs.exists(path):
            return False
        try:
            epochs = decode_epochs(self._vfs.read(path), path)
        except CorruptFileError as error:
            self._report.append(FileRebuilt(path, error.reason))
            return False
        if self._config.verify_from_start:
            return False
        self._epochs = epochs
        return True

    def _first_to_scan(self, segments: list[Segment]) -> int:
        for number in range(len(segments) - 1, -1, -1):
            if segments[number].base_offset <= self._recovery_point:
                return number
        return 0

    def _rebuild_indexes(self, segments: list[Segment]) -> None:
        """Rebuild index files that are missing or wrong, of segments that are not checked.

        Kafka does so before it recovers the others; on the thread that loads the log. A damaged
        segment is left to its readers.
        """
        for segment in segments:
            found = index_objection(segment, self._vfs)
            if found is None:
                continue
            with contextlib.suppress(CorruptLogError):
                indexes = segment.indexes
                assert not indexes.is_loaded, f"{found=}"
                self._report.append(FileRebuilt(*found))
            segment.close()

    def _scan(self, segments: list[Segment], first: int, log_start_offset: int) -> tuple[int, int]:
        config = self._config
        rules = config.batch_rules(segments[first].base_offset, self._last_epoch)
        number = first
        self._progress.begin(len(segments) - first)
        while number < len(segments):
            segment = segments[number]
            gap = segment.base_offset - rules.end_offset
            if gap != 0:
                reason = f"starts at offset {segment.base_offset}, not at {rules.end_offset}"
                if gap < 0 or config.contiguous:
                    self._drop(segments, number, rules.end_offset, segment.path, reason)
                    break
                if segment.base_offset > max(self._recovery_point, log_start_offset):
                    end_offset = max(rules.end_offset, log_start_offset)
                    self._report.append(SegmentsApart(segment.path, end_offset, reason))
            rules.end_offset = segment.base_offset
            if not self._scan_one(segments, number, rules):
                break
            number += 1
            self._progress.recovered()
        self._progress.end()
        return rules.end_offset, rules.last_epoch

    def _scan_one(self, segments: list[Segment], number: int, rules: BatchRules) -> bool:
        """Check a segment; False if the log ends in it because of damage."""
        config = self._config
        segment = segments[number]
        indexes = SegmentIndexes(segment.base_offset, config.index_interval_bytes)
        scan = scan_segment(segment.file, segment.size_bytes, indexes, rules, self._note_epoch)
        if scan.reason is not None:
            if scan.is_old_format or scan.end_offset < self._required_end:
                raise CorruptLogError(segment.path, scan.valid_bytes, scan.reason)
            removed = segment.size_bytes - scan.valid_bytes
            assert removed > 0, f"{removed=} {scan.reason=}"
            self._report.append(
                TailCut(segment.path, scan.valid_bytes, removed, scan.end_offset, scan.reason)
            )
            reason = f"the segment before ends at offset {scan.end_offset}"
            self._drop(segments, number + 1, scan.end_offset, segment.path, reason)
            segment.adopt(indexes)
            segment.truncate(scan.valid_bytes, scan.end_offset)
            segment.file.sync()
            self._vfs.sync_directory(self._directory)
            return False
        segment.adopt(indexes)
        if number < len(segments) - 1:
            segment.write_indexes()
            segment.close()
        return True

    def _drop(
        self, segments: list[Segment], first: int, end_offset: int, path: str, reason: str
    ) -> None:
        """Remove the segments from index `first` on."""
        assert first > 0, "a log keeps its first segment"
        if first >= len(segments):
            return
        if end_offset < self._required_end:
            raise CorruptLogError(path, 0, reason)
        dropped = segments[first:]
        for segment in reversed(dropped):
            with contextlib.suppress(FileNotFoundError):
                segment.remove()
            self._vfs.sync_directory(self._directory)
        self._report.append(SegmentsDropped(tuple(s.path for s in dropped), end_offset, reason))
        del segments[first:]

    @property
    def _last_epoch(self) -> int:
        last_epoch = self._epochs.last_epoch
        return -1 if last_epoch is None else last_epoch

    def _note_epoch(self, epoch: int, start_offset: int) -> None:
        if epoch >= 0:
            self._take_claimed(start_offset)
            self._epochs.assign(epoch, start_offset)

    def _take_claimed(self, end_offset: int) -> None:
        """Keep the epochs that begin before the first batch that has one, as Kafka does."""
        assert end_offset >= 0, f"{end_offset=}"
        for entry in self._claimed:
            if entry.start_offset < end_offset:
                self._epochs.assign(entry.epoch, entry.start_offset)
        self._claimed = ()
