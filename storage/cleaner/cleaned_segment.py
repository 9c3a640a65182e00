"""The segment that a cleaner writes: its files end with `.cleaned` until they are swapped in.

apache/kafka: storage/.../log/{UnifiedLog,LogSegment}.java (`createNewCleanedSegment`)
"""

import contextlib
from collections.abc import Sequence
from typing import Final

from storage.cleaner.batch_filter import Kept
from storage.logs.interrupted_swaps import CLEANED_SUFFIX
from storage.segments.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    segment_name,
)
from storage.segments.segment_indexes import SegmentIndexes
from storage.segments.transaction_index import (
    TRANSACTION_INDEX_SUFFIX,
    AbortedTransaction,
    encode_aborted,
)
from storage.vfs import Vfs, VfsFile, join
from wire.errors import CorruptBatchError

DATA_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
"""Files of a segment that are replaced with it; that of its producers stays."""


class CleanedSegment:
    """A new cleaned segment of a log.

    Args:
        vfs: the disk.
        directory: of the log.
        base_offset: of the segment.
        interval_bytes: `index.interval.bytes`.
    """

    def __init__(self, vfs: Vfs, directory: str, base_offset: int, interval_bytes: int) -> None:
        self._vfs = vfs
        self._directory = directory
        self._base_offset = base_offset
        self._indexes = SegmentIndexes(base_offset, interval_bytes)
        self._file: VfsFile | None = None
        self.size_bytes = 0

    def create(self) -> None:
        """Create its file; what an earlier cleaner left goes."""
        assert self._file is None, "it is created once"
        for suffix in DATA_SUFFIXES:
            self._unlink(suffix)
        self._file = self._vfs.open(self._path(LOG_SUFFIX), create=True)

    def append(self, kept: Sequence[tuple[bytes | memoryview, Kept]]) -> int:
        """Write batches at the end; the number of their bytes.

        Raises:
            CorruptBatchError: their offsets do not follow those before.
        """
        assert self._file is not None, "it is created first"
        position = start = self.size_bytes
        for content, batch in kept:
            last_offset = batch.last_offset
            objection = self._indexes.objection(last_offset, last_offset)
            if objection is not None:
                raise CorruptBatchError(objection)
            self._indexes.add(position, len(content), last_offset, batch.max_timestamp_ms)
            position += len(content)
        assert position >= start, f"{position=} {start=}"
        if position > start:
            self._file.pwrite(b"".join([content for content, _ in kept]), start)
        self.size_bytes = position
        return position - start

    def finish(self, aborted: Sequence[AbortedTransaction], modified_ms: int) -> None:
        """Write the indexes and make all files durable, names included.

        Args:
            aborted: of its transaction index.
            modified_ms: wall clock of the last append to the segments that it replaces.
        """
        assert self._file is not None, "it is created first"
        assert self._file.size() == self.size_bytes, f"{self.size_bytes=}"
        self._indexes.finish()
        self._file.sync()
        self._file.close()
        self._write(INDEX_SUFFIX, self._indexes.offsets.encode())
        self._write(TIME_INDEX_SUFFIX, self._indexes.times.encode())
        if aborted:
            self._write(TRANSACTION_INDEX_SUFFIX, b"".join(map(encode_aborted, aborted)))
        self._vfs.set_modified_ms(self._path(LOG_SUFFIX), modified_ms)
        self._vfs.sync_directory(self._directory)

    def _write(self, suffix: str, content: bytes) -> None:
        file = self._vfs.open(self._path(suffix), create=True)
        try:
            file.pwrite(content, 0)
            file.sync()
        finally:
            file.close()

    def discard(self) -> None:
        """Remove it; a disk that fails leaves it to the next start."""
        if self._file is not None:
            self._file.close()
        discard_cleaned(self._vfs, self._directory, self._base_offset)

    def _unlink(self, suffix: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._vfs.unlink(self._path(suffix))

    def _path(self, suffix: str) -> str:
        return join(self._directory, segment_name(self._base_offset, suffix) + CLEANED_SUFFIX)


def discard_cleaned(vfs: Vfs, directory: str, base_offset: int) -> None:
    """Remove the files of a cleaned segment; a disk that fails leaves them to the next start."""
    with contextlib.suppress(OSError):
        for suffix in reversed(DATA_SUFFIXES):
            with contextlib.suppress(FileNotFoundError):
                vfs.unlink(join(directory, segment_name(base_offset, suffix) + CLEANED_SUFFIX))
