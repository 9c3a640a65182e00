"""Reading a segment from its start as if nobody had promised anything about it."""

from collections.abc import Callable

import msgspec

from storage.segment import SegmentIndexes
from storage.vfs import VfsFile
from wire.batch import HEADER_BYTES, Batch, BatchHeader, iterate_batches, parse_batch_header
from wire.errors import CorruptBatchError

_WINDOW_BYTES = 1 << 20


class TailCut(msgspec.Struct, frozen=True):
    """Unflushed bytes were damaged and are gone: a warning."""

    path: str
    position: int
    removed_bytes: int
    end_offset: int
    reason: str


class SegmentsDropped(msgspec.Struct, frozen=True):
    """Segments after a cut are gone: a warning."""

    paths: tuple[str, ...]
    end_offset: int
    reason: str


class FileRebuilt(msgspec.Struct, frozen=True):
    """A small file was damaged and made again from the log: a warning."""

    path: str
    reason: str


RecoveryEvent = TailCut | SegmentsDropped | FileRebuilt


class SegmentScan(msgspec.Struct):
    """What a segment holds up to its end or to the first damage (`reason`)."""

    indexes: SegmentIndexes
    valid_bytes: int
    end_offset: int
    last_epoch: int
    reason: str | None


class BatchRules:
    """What a log demands of the next batch."""

    def __init__(self, end_offset: int, last_epoch: int, *, contiguous: bool) -> None:
        self.end_offset = end_offset
        self.last_epoch = last_epoch
        self._contiguous = contiguous

    def objection(self, batch: Batch) -> str | None:
        """Why a batch can not be the next one; None if it can."""
        header = batch.header
        if header.base_offset < self.end_offset or (
            self._contiguous and header.base_offset != self.end_offset
        ):
            return f"base offset {header.base_offset} follows end offset {self.end_offset}"
        if header.last_offset_delta < 0:
            return f"last offset delta {header.last_offset_delta} is negative"
        if not batch.crc_is_valid:
            return f"CRC of the batch at offset {header.base_offset} is wrong"
        if header.leader_epoch < self.last_epoch:
            return (
                f"leader epoch {header.leader_epoch} of the batch at offset {header.base_offset} "
                f"is lower than {self.last_epoch} before it"
            )
        return None

    def accept(self, header: BatchHeader) -> None:
        """The batch is now the last one."""
        self.end_offset = header.end_offset
        self.last_epoch = max(self.last_epoch, header.leader_epoch)


def scan_segment(
    file: VfsFile,
    size_bytes: int,
    indexes: SegmentIndexes,
    rules: BatchRules,
    on_epoch: Callable[[BatchHeader], None],
) -> SegmentScan:
    """Check every batch and index it; stop at the first that is damaged or cut.

    `on_epoch` gets the first batch, and each whose epoch is not that of the batch before.
    """
    position = 0
    window_bytes = _WINDOW_BYTES
    reason: str | None = None
    epoch: int | None = None
    while position < size_bytes and reason is None:
        window = file.pread(min(window_bytes, size_bytes - position), position)
        used = 0
        try:
            for batch in iterate_batches(window):
                reason = rules.objection(batch)
                if reason is not None:
                    break
                header = batch.header
                indexes.add(header, position + used)
                rules.accept(header)
                if header.leader_epoch != epoch:
                    epoch = header.leader_epoch
                    on_epoch(header)
                used += header.size_bytes
        except CorruptBatchError as error:
            reason = str(error)
        position += used
        window_bytes = _WINDOW_BYTES
        if used == 0 and reason is None:
            window_bytes, reason = _next_window(window, size_bytes - position)
    return SegmentScan(indexes, position, rules.end_offset, rules.last_epoch, reason)


def _next_window(window: bytes, left_bytes: int) -> tuple[int, str | None]:
    """How much to read for a batch that is larger than the window, or why it is cut."""
    if left_bytes < HEADER_BYTES:
        return 0, f"batch header is cut: {left_bytes} bytes are left"
    needed = parse_batch_header(window).size_bytes
    if needed > left_bytes:
        return 0, f"batch is cut: {left_bytes} of {needed} bytes are left"
    return needed, None
