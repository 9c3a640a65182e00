"""The aborted transactions of a partition, in a `.txnindex` beside the segment of each marker.

apache/kafka: storage/.../log/{TransactionIndex,LogSegment,LocalLog}.java
(`collectAbortedTransactions`)
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from storage.errors import OutOfSpaceError
from storage.segments.segment import Segment, floor_index, segment_name
from storage.segments.transaction_index import (
    TRANSACTION_INDEX_SUFFIX,
    AbortedTransaction,
    decode_transaction_index,
    encode_aborted,
)
from storage.vfs import Vfs, VfsFile, join


class AbortedTransactions:
    """The `.txnindex` files of one log directory; a file exists from the first entry on.

    Args:
        vfs: the disk.
        directory: of the log.
        wrote: told the path and the open file of each write, which the next flush syncs.
    """

    def __init__(self, vfs: Vfs, directory: str, wrote: Callable[[str, VfsFile], None]) -> None:
        self._vfs = vfs
        self.directory = directory
        self._wrote = wrote
        self._unwritten: list[AbortedTransaction] = []

    @property
    def has_unwritten(self) -> bool:
        """True while a full disk keeps entries out of their files."""
        return bool(self._unwritten)

    def add(self, segments: Sequence[Segment], entry: AbortedTransaction) -> None:
        """Add a transaction to the file of the segment with its marker, unless it is there.

        On a full disk it is kept in memory, and written before the next one.
        """
        self._unwritten.append(entry)
        with suppress(OutOfSpaceError):
            while self._unwritten:
                self._write(segments, self._unwritten[0])
                del self._unwritten[0]

    def _write(self, segments: Sequence[Segment], entry: AbortedTransaction) -> None:
        assert entry.first_offset <= entry.last_offset, f"{entry=}"
        segment = segments[floor_index(segments, entry.last_offset)]
        base_offset, segment.lacks_aborted = segment.base_offset, False
        if base_offset > entry.last_offset:  # its segment was deleted meanwhile
            return
        known = self._read(base_offset)
        if known and known[-1].last_offset >= entry.last_offset:
            return
        content = encode_aborted(entry)
        path = self._path(base_offset)
        file = self._vfs.open(path, create=True)
        try:
            file.pwrite(content, len(known) * len(content))
            self._wrote(path, file)
        finally:
            file.close()

    def truncate_to(self, segments: Sequence[Segment], end_offset: int) -> None:
        """Drop the entries whose marker is at or above the end of a log that was cut there."""
        start = segments[0].base_offset
        self._unwritten = [e for e in self._unwritten if start <= e.last_offset < end_offset]
        base_offset = segments[-1].base_offset
        assert base_offset <= end_offset, f"{base_offset=} {end_offset=}"
        known = self._read(base_offset)
        kept = [entry for entry in known if entry.last_offset < end_offset]
        if len(kept) == len(known):
            return
        path = self._path(base_offset)
        file = self._vfs.open(path)
        try:
            file.truncate(sum(len(encode_aborted(entry)) for entry in kept))
            self._wrote(path, file)
        finally:
            file.close()

    def collect(
        self, segments: Sequence[Segment], offset: int, upper_offset: int
    ) -> list[AbortedTransaction]:
        """Aborted transactions that concern `offset` to `upper_offset`, exclusive."""
        assert 0 <= offset <= upper_offset, f"{offset=} {upper_offset=}"
        entries = self._entries(segments[floor_index(segments, offset) :])
        found, is_whole = _concerning(entries, offset, upper_offset)
        if is_whole:
            return found
        return found + [
            entry
            for entry in self._unwritten
            if entry.last_offset >= offset and entry.first_offset < upper_offset
        ]

    def _entries(self, segments: Iterable[Segment]) -> Iterator[list[AbortedTransaction]]:
        """Those of each segment; a file without any is looked for once."""
        for segment in segments:
            if not segment.lacks_aborted:
                entries = self._read(segment.base_offset)
                segment.lacks_aborted = not entries
                yield entries

    def _read(self, base_offset: int) -> list[AbortedTransaction]:
        return _read(self._vfs, self._path(base_offset))

    def _path(self, base_offset: int) -> str:
        return join(self.directory, segment_name(base_offset, TRANSACTION_INDEX_SUFFIX))


def aborted_in(
    vfs: Vfs, directory: str, bases: Iterable[int], offset: int, upper_offset: int
) -> tuple[list[AbortedTransaction], bool]:
    """Entries of the files that concern `offset` to `upper_offset`; True if no other can.

    Args:
        vfs: the disk.
        directory: of the log.
        bases: base offsets of segments, ascending; the first is the one with `offset`.
        offset: first one of interest.
        upper_offset: exclusive.
    """
    assert 0 <= offset <= upper_offset, f"{offset=} {upper_offset=}"
    paths = (join(directory, segment_name(each, TRANSACTION_INDEX_SUFFIX)) for each in bases)
    return _concerning((_read(vfs, path) for path in paths), offset, upper_offset)


def _concerning(
    entries: Iterable[list[AbortedTransaction]], offset: int, upper_offset: int
) -> tuple[list[AbortedTransaction], bool]:
    found: list[AbortedTransaction] = []
    for of_segment in entries:
        for entry in of_segment:
            if entry.last_offset >= offset and entry.first_offset < upper_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_offset:
                return found, True
    return found, False


def _read(vfs: Vfs, path: str) -> list[AbortedTransaction]:
    try:
        return decode_transaction_index(vfs.read(path))
    except FileNotFoundError:
        return []
