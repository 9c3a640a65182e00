"""The aborted transactions of a partition, in a `.txnindex` beside the segment of each marker.

apache/kafka: storage/.../log/{TransactionIndex,LogSegment,LocalLog}.java
(`collectAbortedTransactions`)
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence

from storage.segments.segment import Segment, segment_name
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
        self._directory = directory
        self._wrote = wrote

    def add(self, segments: Sequence[Segment], entry: AbortedTransaction) -> None:
        """Add a transaction to the file of the segment with its marker, unless it is there.

        Raises:
            OutOfSpaceError: the disk is full; the entry comes with the next replay of the log.
        """
        base_offset = segments[_floor(segments, entry.last_offset)].base_offset
        assert base_offset <= entry.last_offset, f"{base_offset=} {entry=}"
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

    def collect(
        self, segments: Sequence[Segment], offset: int, upper_offset: int
    ) -> list[AbortedTransaction]:
        """Aborted transactions that concern `offset` to `upper_offset`, exclusive."""
        assert 0 <= offset <= upper_offset, f"{offset=} {upper_offset=}"
        found: list[AbortedTransaction] = []
        for segment in segments[_floor(segments, offset) :]:
            for entry in self._read(segment.base_offset):
                if entry.last_offset >= offset and entry.first_offset < upper_offset:
                    found.append(entry)
                if entry.last_stable_offset >= upper_offset:
                    return found
        return found

    def _read(self, base_offset: int) -> list[AbortedTransaction]:
        try:
            return decode_transaction_index(self._vfs.read(self._path(base_offset)))
        except FileNotFoundError:
            return []

    def _path(self, base_offset: int) -> str:
        return join(self._directory, segment_name(base_offset, TRANSACTION_INDEX_SUFFIX))


def _floor(segments: Sequence[Segment], offset: int) -> int:
    return max(0, bisect_right(segments, offset, key=lambda each: each.base_offset) - 1)
