"""Check of a whole segment, batch by batch, without trust in indexes or checkpoints."""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from storage.segments.segment_indexes import SegmentIndexes
from storage.vfs import VfsFile
from wire.batches.batch import HEADER_BYTES, BatchFrame, iterate_frames
from wire.batches.log_batches import NO_EPOCH, is_sound, iterate_log_frames, parse_log_header
from wire.batches.old_messages import HOP_BYTES, is_old_message, old_bytes_at
from wire.errors import CorruptBatchError
from wire.primitives import Buffer

_WINDOW_BYTES = 1 << 20
assert _WINDOW_BYTES >= HEADER_BYTES, "a window holds the header of the batch that it cuts"


class TailCut(msgspec.Struct, frozen=True):
    """A warning: damaged unflushed bytes were removed from the end of a segment."""

    path: str
    position: int
    removed_bytes: int
    end_offset: int
    reason: str


class SegmentsDropped(msgspec.Struct, frozen=True):
    """A warning: the segments after a cut were removed."""

    paths: tuple[str, ...]
    end_offset: int
    reason: str


class SegmentsApart(msgspec.Struct, frozen=True):
    """A warning: offsets are missing between two segments above the recovery point.

    The log was compacted, or a power failure took the end of a segment and kept the name of the one
    behind it, if not its records: ext4 and XFS allocate late, and so commit the name of a file
    before the length of one that was written earlier.
    """

    path: str
    end_offset: int
    """End of the records before, or the log start if that is above."""
    reason: str


class FileRebuilt(msgspec.Struct, frozen=True):
    """A warning: a damaged small file was rebuilt from the log."""

    path: str
    reason: str


RecoveryEvent = TailCut | SegmentsDropped | SegmentsApart | FileRebuilt


def first_gap(report: Iterable[RecoveryEvent]) -> int | None:
    """End of the records before the first gap between segments that a start found; None without."""
    return next((each.end_offset for each in report if isinstance(each, SegmentsApart)), None)


class RecoveryProgress:
    """Progress of the recovery of a log: the thread that loads it writes, any other reads."""

    def __init__(self) -> None:
        self.segments = 0
        """Segments that are checked."""
        self.remaining = 0
        """Those of them that are not checked yet."""

    def begin(self, segments: int) -> None:
        """Begin to check so many segments."""
        assert segments >= 0, f"{segments=}"
        self.segments = self.remaining = segments

    def recovered(self) -> None:
        """Note the end of one."""
        assert self.remaining > 0, "they were all checked"
        self.remaining -= 1

    def end(self) -> None:
        """Note that no other is checked: the last one was, or the others go with a damaged one."""
        self.remaining = 0


class SegmentScan(msgspec.Struct):
    """The valid part of a segment: up to its end or to the first damage (`reason`)."""

    indexes: SegmentIndexes
    valid_bytes: int
    end_offset: int
    last_epoch: int
    reason: str | None
    is_old_format: bool = False
    """True if it ends not by damage but at a valid message of magic 0 or 1 that is not read."""


class BatchRules:
    """The requirements that the next batch of a log must meet."""

    def __init__(
        self,
        end_offset: int,
        last_epoch: int,
        *,
        contiguous: bool,
        reads_old_formats: bool = False,
    ) -> None:
        assert end_offset >= 0, f"{end_offset=}"
        assert last_epoch >= -1, f"{last_epoch=}"
        self.end_offset = end_offset
        self.last_epoch = last_epoch
        self._contiguous = contiguous
        self.reads_old_formats = reads_old_formats
        """True if messages of magic 0 and 1, which have no epoch, may be anywhere."""

    def objection(
        self, base_offset: int, last_offset: int, leader_epoch: int, *, crc_is_valid: bool
    ) -> str | None:
        """Return the reason why a batch cannot be the next one; None if it can."""
        if base_offset < self.end_offset or (self._contiguous and base_offset != self.end_offset):
            return f"base offset {base_offset} follows end offset {self.end_offset}"
        if last_offset < base_offset:
            return f"last offset delta {last_offset - base_offset} is negative"
        if not crc_is_valid:
            return f"CRC of the batch at offset {base_offset} is wrong"
        if leader_epoch < self.last_epoch and not self._may_lack_epoch(leader_epoch):
            return (
                f"leader epoch {leader_epoch} of the batch at offset {base_offset} "
                f"is lower than {self.last_epoch} before it"
            )
        return None

    def _may_lack_epoch(self, leader_epoch: int) -> bool:
        return self.reads_old_formats and leader_epoch == NO_EPOCH

    def frames(self, buffer: Buffer) -> Iterator[BatchFrame]:
        """The frames of the formats that the log may have; errors as of `iterate_frames`."""
        return iterate_log_frames(buffer) if self.reads_old_formats else iterate_frames(buffer)

    def accept(self, last_offset: int, leader_epoch: int) -> None:
        """Make a valid batch the last one."""
        if self._may_lack_epoch(leader_epoch):
            leader_epoch = self.last_epoch
        assert leader_epoch >= self.last_epoch, f"{leader_epoch=} {self.last_epoch=}"
        assert last_offset >= self.end_offset, f"{last_offset=} {self.end_offset=}"
        self.end_offset = last_offset + 1
        self.last_epoch = leader_epoch


def scan_segment(
    file: VfsFile,
    size_bytes: int,
    indexes: SegmentIndexes,
    rules: BatchRules,
    on_epoch: Callable[[int, int], None],
) -> SegmentScan:
    """Check every batch and index it; stop at the first that is damaged or cut.

    `on_epoch` is called with epoch and base offset of the first batch, and of each whose epoch
    differs from that of the batch before.
    """
    position = 0
    window_bytes = _WINDOW_BYTES
    reason: str | None = None
    is_old_format = False
    epoch: int | None = None
    while position < size_bytes and reason is None:
        window = memoryview(file.pread(min(window_bytes, size_bytes - position), position))
        used = 0
        try:
            for frame in rules.frames(window):
                first, last, end = frame.base_offset, frame.last_offset, frame.end_position
                crc_is_valid = is_sound(window, frame)
                reason = rules.objection(first, last, frame.leader_epoch, crc_is_valid=crc_is_valid)
                if reason is None:
                    reason = indexes.objection(first, last)
                if reason is not None:
                    break
                at = position + frame.position
                indexes.add(at, frame.size_bytes, last, frame.max_timestamp_ms)
                rules.accept(last, frame.leader_epoch)
                if frame.leader_epoch != epoch:
                    epoch = frame.leader_epoch
                    on_epoch(epoch, first)
                used = end
        except CorruptBatchError as error:
            reason = str(error)
            is_refused = not rules.reads_old_formats
            is_old_format = is_refused and _is_old_message(file, position + used, size_bytes)
        position += used
        window_bytes = _WINDOW_BYTES
        if used == 0 and reason is None:
            window_bytes, reason = _next_window(window, size_bytes - position)
    assert position <= size_bytes, f"{position=} {size_bytes=}"
    return SegmentScan(indexes, position, rules.end_offset, rules.last_epoch, reason, is_old_format)


def _is_old_message(file: VfsFile, position: int, size_bytes: int) -> bool:
    size = old_bytes_at(file.pread(HOP_BYTES, position))
    if size is None or size > size_bytes - position:
        return False
    return is_old_message(file.pread(size, position))


def _next_window(window: memoryview, left_bytes: int) -> tuple[int, str | None]:
    """Bytes to read for a batch larger than the window, or 0 and the reason why it is cut."""
    if left_bytes < HEADER_BYTES:
        return 0, f"batch header is cut: {left_bytes} bytes are left"
    needed = parse_log_header(window).size_bytes
    if needed > left_bytes:
        return 0, f"batch is cut: {left_bytes} of {needed} bytes are left"
    assert needed > len(window), f"{needed=}: the window held the batch and nothing was read"
    return needed, None
