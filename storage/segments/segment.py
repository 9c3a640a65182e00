"""One segment: a `.log` file of record batches and the two indexes beside it.

apache/kafka: storage/.../log/LogSegment.java
"""

import contextlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from storage.errors import CorruptLogError, OutOfSpaceError
from storage.segments.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from storage.segments.index_loading import cut_indexes, load_indexes, rebuilt_indexes
from storage.segments.rolling import RELATIVE_OFFSET_MAX, SegmentFill
from storage.segments.segment_indexes import SegmentIndexes
from storage.vfs import Vfs, VfsFile, join
from wire.batches.batch import HEADER_BYTES, BatchFrame, BatchHeader
from wire.batches.log_batches import iterate_log_frames, parse_log_header
from wire.errors import CorruptBatchError

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, ".txnindex", ".snapshot")
DELETED_SUFFIX: Final = ".deleted"
_LOOKUP_BYTES: Final = 16 * 1024  # bytes of one read while looking for a batch
RECENT_MAX: Final = 512  # cached batch positions, so that a reader at the tail needs no lookup
OFFSET_MAX: Final = (1 << 63) - 1
_ENTRIES_BEHIND: Final = 64  # entries that a growing index file may lack
assert _LOOKUP_BYTES >= HEADER_BYTES, "a look-up reads whole headers"
assert RECENT_MAX > 0, f"{RECENT_MAX=}"


def segment_name(base_offset: int, suffix: str = LOG_SUFFIX) -> str:
    """The name: 20 digits of base offset and a suffix."""
    return f"{base_offset:020d}{suffix}"


def segment_base_offset(name: str, suffix: str = LOG_SUFFIX) -> int | None:
    """The offset in the name of a segment file; None if it is another kind of file.

    20 digits can exceed `OFFSET_MAX`; opening a log refuses such a name.
    """
    digits = name[: -len(suffix)]
    if name.endswith(suffix) and len(digits) == 20 and digits.isascii() and digits.isdigit():
        return int(digits)
    return None


def floor_index(segments: Sequence["Segment"], offset: int) -> int:
    """Index of the last segment that starts at or below the offset; 0 if none does."""
    if segments[-1].base_offset <= offset:  # most readers are at the end
        return len(segments) - 1
    return max(0, bisect_right(segments, offset, key=lambda each: each.base_offset) - 1)


class Segment:
    """A segment of a log; the file is opened and the indexes are read at first use."""

    def __init__(
        self,
        vfs: Vfs,
        directory: str,
        base_offset: int,
        interval_bytes: int,
        *,
        grows_index_files: bool = False,
        created_ms: int = 0,
        jitter_ms: int = 0,
        suffix: str = "",
    ) -> None:
        """Name a segment, created or not.

        Args:
            vfs: of the log.
            directory: of the partition.
            base_offset: a lower bound of its offsets.
            interval_bytes: `index.interval.bytes`.
            grows_index_files: True if they are written with the segment, not only at its roll.
            created_ms: wall clock.
            jitter_ms: time by which it rolls earlier than after `segment.ms`.
            suffix: behind the names of its files, until `give_suffix`.
        """
        assert base_offset >= 0, f"{base_offset=}"
        self._vfs = vfs
        self._directory = directory
        self._interval_bytes = interval_bytes
        self._file: VfsFile | None = None
        self._indexes: SegmentIndexes | None = None
        self._grows_index_files = grows_index_files
        self._entries_written: tuple[int, int] | None = None
        """Entries of both index files; None if their content is unknown."""
        self._created_ms = created_ms
        self._modified_ms: int | None = None
        """Wall clock of the last append; None before one, where the file tells."""
        self._jitter_ms = jitter_ms
        self._recent: dict[int, int] = {}
        self.lacks_aborted = False
        """True if its `.txnindex` is known to have no entry; `AbortedTransactions` keeps it."""
        self.base_offset = base_offset
        self._suffix = suffix
        self.path = join(directory, segment_name(base_offset) + suffix)
        self.size_bytes = vfs.size(self.path) if vfs.exists(self.path) else 0

    @property
    def file(self) -> VfsFile:
        """The file, opened if it is not."""
        return self._file or self._open()

    def _open(self) -> VfsFile:
        self._file = self._vfs.open(self.path)
        return self._file

    @property
    def is_open(self) -> bool:
        """True if the file is open."""
        return self._file is not None

    @property
    def indexes(self) -> SegmentIndexes:
        """The indexes, read or rebuilt at first use; rebuilt ones are in their files again."""
        if self._indexes is None:
            self._indexes = load_indexes(self, self._vfs, self._interval_bytes)
            if self._grows_index_files and not self._indexes.is_loaded:
                self.write_indexes()
        return self._indexes

    @property
    def fill(self) -> SegmentFill:
        """Fill of the segment, by which the rules of rolling decide."""
        indexes = self.indexes
        return SegmentFill(
            base_offset=self.base_offset,
            size_bytes=self.size_bytes,
            first_timestamp_ms=indexes.first_timestamp_ms,
            created_ms=self._created_ms,
            jitter_ms=self._jitter_ms,
            offset_entries=len(indexes.offsets),
            time_entries=len(indexes.times),
        )

    @property
    def largest_timestamp_ms(self) -> int:
        """Of its records; without one the time of the last change of the file."""
        largest_ms = self.indexes.max_timestamp_ms
        if largest_ms >= 0:
            return largest_ms
        if self._modified_ms is None:
            self._modified_ms = self._vfs.modified_ms(self.path)
        return self._modified_ms

    @property
    def known_largest_timestamp_ms(self) -> int | None:
        """As `largest_timestamp_ms`; None while the indexes have not been read."""
        return None if self._indexes is None else self.largest_timestamp_ms

    def adopt(self, indexes: SegmentIndexes) -> None:
        """Use the indexes that a scan of the whole segment made."""
        assert indexes.offsets.base_offset == self.base_offset, f"{self.base_offset=}"
        self._indexes, self._entries_written = indexes, None

    def create(self) -> None:
        """Create the empty file."""
        assert not self.is_open, f"{self.path} is in use"
        self._file = self._vfs.open(self.path, create=True)
        self._file.truncate(0)
        self.size_bytes, self._modified_ms = 0, self._created_ms
        self._indexes = SegmentIndexes(self.base_offset, self._interval_bytes)
        self._entries_written = (0, 0)
        self.create_index_files()

    def create_index_files(self) -> None:
        """Create those that are missing, if they grow with the segment.

        Kafka's exist with the segment: it logs an error where one is missing below the recovery
        point. On a full disk they stay away, as they can be rebuilt.
        """
        if self._grows_index_files:
            with contextlib.suppress(OutOfSpaceError):
                for path in self.index_paths:
                    self._vfs.open(path, create=True).close()

    def append(self, data: bytes | memoryview, frames: list[BatchFrame], wall_ms: int) -> None:
        """Write whole batches at the end; on any error the file is as before.

        Args:
            data: the batches.
            frames: those of `data`; their positions may refer to a larger buffer.
            wall_ms: wall clock.
        """
        assert frames
        assert frames[0].base_offset >= self.base_offset, f"{frames[0]=} {self.base_offset=}"
        assert frames[-1].last_offset >= frames[0].base_offset, f"{frames[0]=} {frames[-1]=}"
        assert frames[-1].last_offset - self.base_offset <= RELATIVE_OFFSET_MAX
        start, file = self.size_bytes, self._file or self._open()
        try:
            file.pwrite(data, start)
        except (OSError, OutOfSpaceError):
            file.truncate(start)
            raise
        indexes, recent = self.indexes, self._recent
        if len(recent) + len(frames) > RECENT_MAX:
            recent.clear()
        position = start
        for frame in frames:
            size_bytes = frame.end_position - frame.position
            indexes.add(position, size_bytes, frame.last_offset, frame.max_timestamp_ms)
            recent[frame.base_offset] = position
            position += size_bytes
        assert position == start + len(data)
        self.size_bytes, self._modified_ms = position, wall_ms
        if self._grows_index_files:
            written = self._entries_written or (0, 0)
            if len(indexes.offsets) - written[0] >= _ENTRIES_BEHIND:
                self._write_entries()

    def find(self, offset: int) -> int:
        """Return the position of the first batch whose last offset is at or above `offset`.

        The size of the segment if there is none.

        Raises:
            CorruptLogError: a batch before it has an invalid header.
        """
        recent = self._recent.get(offset)
        if recent is not None:
            assert recent < self.size_bytes, f"{recent=} {self.size_bytes=}"
            return recent
        indexes = self.indexes
        start = indexes.offsets.lookup(offset)
        try:
            position = self.walk(start, offset)
            is_at_start = indexes.is_loaded and position == start
            if not (is_at_start and self._begins_after(start, offset)):
                return position
        except CorruptBatchError:
            pass
        self._indexes = indexes = rebuilt_indexes(
            self, self._interval_bytes
        )  # it pointed into a batch, or too far
        return self.walk(indexes.offsets.lookup(offset), offset)

    def _begins_after(self, position: int, offset: int) -> bool:
        return 0 < position < self.size_bytes and self.header_at(position).base_offset > offset

    def header_at(self, position: int) -> BatchHeader:
        """Return the header of the batch at a position.

        Raises:
            CorruptLogError: there is no valid one.
        """
        try:
            return parse_log_header(self.file.pread(HEADER_BYTES, position))
        except CorruptBatchError as error:
            raise CorruptLogError(self.path, position, str(error)) from error

    def read_batches(self, position: int, end_position: int, max_bytes: int) -> bytes:
        """Return whole batches from a position, at most `max_bytes` but at least one batch.

        Raises:
            CorruptLogError: there is no valid batch.
        """
        assert 0 <= position < end_position, f"{position=} {end_position=}"
        assert end_position <= self.size_bytes, f"{end_position=} {self.size_bytes=}"
        assert max_bytes >= 0, f"{max_bytes=}"
        file = self._file or self._open()
        if end_position - position <= max_bytes:
            return file.pread(end_position - position, position)
        data = file.pread(max(max_bytes, HEADER_BYTES), position)
        whole = 0
        try:
            for frame in iterate_log_frames(data):
                whole = frame.end_position
        except CorruptBatchError as error:
            raise CorruptLogError(self.path, position + whole, str(error)) from error
        if whole == 0:
            return file.pread(self.header_at(position).size_bytes, position)
        return data[:whole]

    def whole_batches_bytes(
        self, position: int, end_position: int, max_bytes: int, *, at_least_one: bool
    ) -> int:
        """Size of the whole batches from a position, at most `max_bytes`, or of the first one.

        Raises:
            CorruptLogError: there is no valid header.
        """
        assert 0 <= position < end_position <= self.size_bytes, f"{position=} {end_position=}"
        assert max_bytes >= 0, f"{max_bytes=}"
        if end_position - position <= max_bytes:
            return end_position - position
        try:
            whole = self._boundary(position, position + max_bytes)
        except CorruptBatchError:
            self._indexes = rebuilt_indexes(
                self, self._interval_bytes
            )  # the index pointed into a batch
            whole = self._boundary(position, position + max_bytes)
        if whole > position or not at_least_one:
            return whole - position
        return self.header_at(position).size_bytes

    def _boundary(self, position: int, limit: int) -> int:
        """The end of the last batch from a position on that ends at or before `limit`."""
        start = max(position, self.indexes.offsets.position_at_or_before(limit))
        for whole, header in self.headers_from(start):
            if whole + header.size_bytes > limit:
                return whole
        return self.size_bytes

    def truncate(self, size_bytes: int, end_offset: int) -> None:
        """Truncate the file and its indexes; the caller syncs.

        Costs a search, and a look at the batches between two entries of the index.

        Args:
            size_bytes: start of the first batch that goes.
            end_offset: at or below which the batches before it end, and it does not.
        """
        assert 0 <= size_bytes <= self.size_bytes, f"{size_bytes=} {self.size_bytes=}"
        indexes = self.indexes  # of the files, which are read against the length before
        self.file.truncate(size_bytes)
        self.size_bytes, self._modified_ms = size_bytes, None
        self._recent.clear()
        self._indexes = cut_indexes(self, indexes, end_offset, self._interval_bytes)
        self._cut_index_files()

    def _cut_index_files(self) -> None:
        """Leave no entry in the files that the indexes lack."""
        written, indexes, paths = self._entries_written, self._indexes, self.index_paths
        assert indexes is not None, "they were cut"
        if written is None:  # nobody knows what is in them
            for path in paths:
                self._unlink(path)
            self._entries_written = (0, 0)
            self.create_index_files()
            return
        offsets, times = min(written[0], len(indexes.offsets)), min(written[1], len(indexes.times))
        if offsets < written[0]:
            self._write_tail(paths[0], b"", offsets * OFFSET_ENTRY_BYTES)
        if times < written[1]:
            self._write_tail(paths[1], b"", times * TIME_ENTRY_BYTES)
        self._entries_written = (offsets, times)

    def write_indexes(self) -> None:
        """Write both index files; a full disk drops them, as they can be rebuilt."""
        self.indexes.finish()
        count = (len(self.indexes.offsets), len(self.indexes.times))
        if self._entries_written is None and self._index_files_are_whole():
            self._entries_written = count
        elif self._entries_written != count or count == (0, 0):
            self._write_entries()

    def _index_files_are_whole(self) -> bool:
        contents = (self.indexes.offsets.encode(), self.indexes.times.encode())
        return all(
            self._vfs.exists(path) and self._vfs.read(path) == content
            for path, content in zip(self.index_paths, contents, strict=True)
        )

    def _write_entries(self) -> None:
        """Append to both index files what they lack."""
        indexes, written = self.indexes, self._entries_written or (0, 0)
        paths = self.index_paths
        try:
            # The times first: what follows the last indexed offset is taken up at the next load.
            times, offsets = indexes.times.encode(written[1]), indexes.offsets.encode(written[0])
            self._write_tail(paths[1], times, written[1] * TIME_ENTRY_BYTES)
            self._write_tail(paths[0], offsets, written[0] * OFFSET_ENTRY_BYTES)
        except OutOfSpaceError:
            for path in paths:
                self._unlink(path)
            self._entries_written = None
        else:
            self._entries_written = (len(indexes.offsets), len(indexes.times))

    def _write_tail(self, path: str, content: bytes, position: int) -> None:
        file = self._vfs.open(path, create=True)
        try:
            file.truncate(position)
            if content:
                file.pwrite(content, position)
        finally:
            file.close()

    def share_index_files(self) -> Iterator[tuple[str, VfsFile]]:
        """The paths of the index files with a handle of each, to be synced."""
        for path in self.index_paths:
            if self._vfs.exists(path):
                yield path, self._vfs.open(path)

    @property
    def index_paths(self) -> tuple[str, str]:
        """The paths of `.index` and `.timeindex`."""
        base = self.base_offset
        return (
            join(self._directory, segment_name(base, INDEX_SUFFIX) + self._suffix),
            join(self._directory, segment_name(base, TIME_INDEX_SUFFIX) + self._suffix),
        )

    def remove_index_files(self) -> None:
        """Remove all files of the segment beside the `.log`."""
        for suffix in SEGMENT_SUFFIXES[1:]:
            self._unlink(join(self._directory, segment_name(self.base_offset, suffix)))

    def remove(self) -> None:
        """Remove the segment with its indexes."""
        self.close()
        self._unlink(self.path)
        self.remove_index_files()

    def mark_deleted(self, suffixes: Sequence[str] = SEGMENT_SUFFIXES) -> list[str]:
        """Close it, rename its files `.deleted` and return the new paths."""
        assert not self._suffix, f"{self.path} is being swapped in"
        self.close()
        renamed: list[str] = []
        for suffix in suffixes:
            path = join(self._directory, segment_name(self.base_offset, suffix))
            if self._vfs.exists(path):
                self._vfs.rename(path, path + DELETED_SUFFIX)
                renamed.append(path + DELETED_SUFFIX)
        return renamed

    def renamed_to(self, directory: str) -> None:
        """Go on in a directory that was renamed."""
        assert not self._suffix, f"{self.path} is being swapped in"
        self._directory = directory
        self.path = join(directory, segment_name(self.base_offset))

    def give_suffix(self, suffix: str) -> None:
        """Go on with files that were renamed."""
        self._suffix = suffix
        self.path = join(self._directory, segment_name(self.base_offset) + suffix)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _unlink(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._vfs.unlink(path)

    def walk(self, position: int, offset: int) -> int:
        """As `find`, from the start of a batch on.

        Raises:
            CorruptBatchError: a header on the way is invalid.
        """
        assert position <= self.size_bytes, f"{position=} {self.size_bytes=}"
        data, data_position = b"", position
        while position < self.size_bytes:
            if position + HEADER_BYTES > data_position + len(data):
                data, data_position = self.file.pread(_LOOKUP_BYTES, position), position
            header = parse_log_header(data, position - data_position)
            if header.last_offset >= offset:
                return position
            position += header.size_bytes
        return self.size_bytes

    def headers_from(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """The headers of the batches from a position on, each with its position."""
        data, data_position = b"", position
        while position < self.size_bytes:
            if position + HEADER_BYTES > data_position + len(data):
                data, data_position = self.file.pread(_LOOKUP_BYTES, position), position
            header = parse_log_header(data, position - data_position)
            yield position, header
            position += header.size_bytes
