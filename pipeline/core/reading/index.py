"""Index files beside a segment, read leniently: a missing or damaged one is None.

`storage.segments.index` and `storage.segments.transaction_index` define the formats. No result
depends on an index: the segment itself gives the same answer, only slower.
"""

from pathlib import Path

from pipeline.core.reading.discovery import SegmentFile
from storage.segments.index import IndexDamageError, OffsetIndex, TimeIndex
from storage.segments.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from storage.segments.transaction_index import (
    TRANSACTION_INDEX_SUFFIX,
    AbortedTransaction,
    decode_transaction_index,
)


def offset_entries(file: SegmentFile) -> list[tuple[int, int]] | None:
    """(last offset of an append, position of a batch start) of the `.index` file."""
    content = _read(file.beside(INDEX_SUFFIX))
    if content is None:
        return None
    try:
        return OffsetIndex.decode(content, file.base_offset, file.size).entries()
    except IndexDamageError:
        return None


def time_entries(file: SegmentFile) -> list[tuple[int, int]] | None:
    """(largest timestamp so far in ms, offset that reached it) of the `.timeindex` file."""
    content = _read(file.beside(TIME_INDEX_SUFFIX))
    if content is None:
        return None
    try:
        return TimeIndex.decode(content, file.base_offset).entries()
    except IndexDamageError:
        return None


def aborted_entries(file: SegmentFile) -> list[AbortedTransaction]:
    """Aborted transactions that end in the segment by its `.txnindex`; empty without one."""
    content = _read(file.beside(TRANSACTION_INDEX_SUFFIX))
    return [] if content is None else decode_transaction_index(content)


def _read(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except OSError:
        return None
