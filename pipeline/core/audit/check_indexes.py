"""Audit of the files beside a segment: offset, time and transaction index, producer snapshot.

`storage.segments.index` defines the formats and reads them leniently. Here every entry is compared
with the batches of the segment, so that a finding names the entry; the entries are read as numpy
rows.
"""

import os
from pathlib import Path
from typing import Any, Final

import crc32c
import numpy as np

from pipeline.core.audit.findings import ERROR, INFO, WARN, FileReport, Finding, in_file
from pipeline.core.reading.discovery import SegmentFile
from storage.segments.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from storage.segments.transaction_index import TRANSACTION_INDEX_SUFFIX, decode_transaction_index

OFFSET_ENTRY: Final = np.dtype([("relative", ">i4"), ("position", ">i4")])
TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("relative", ">i4")])
TRANSACTION_ENTRY_BYTES: Final = 34
INDEX_INTERVAL_BYTES: Final = 4096  # Kafka's default of index.interval.bytes
_SNAPSHOT_HEADER_BYTES: Final = 10  # version int16, crc uint32 of what follows, count int32
_SNAPSHOT_ENTRY_BYTES: Final = 46


def check_indexes(report: FileReport, *, is_cleaned: bool = False) -> list[Finding]:
    """Compare the index files of a segment with its batches.

    Args:
        report: report of the segment.
        is_cleaned: True if compaction may have removed markers.
    """
    file = report.file
    if file.is_snapshot:
        return []
    found = _check_offset_index(report) + _check_time_index(report)
    content = _read(file.beside(TRANSACTION_INDEX_SUFFIX))
    if content is not None:
        found += _check_transaction_index(report, content, is_cleaned=is_cleaned)
    return found


def check_producer_snapshot(path: str, file: SegmentFile) -> list[Finding]:
    """Audit one producer `.snapshot`: version, checksum, number of entries."""
    content = _read(path)
    if content is None:
        return []

    def bad(check: str, position: int, **more: Any) -> list[Finding]:
        return [in_file(file, ERROR, check, position, path=path, **more)]

    if len(content) < _SNAPSHOT_HEADER_BYTES:
        return bad("producer_snapshot_size", len(content), detail="shorter than its header")
    version = int.from_bytes(content[:2], "big", signed=True)
    if version not in (1, 2):
        return bad("producer_snapshot_version", 0, expected="1 or 2", actual=str(version))
    stored, actual = int.from_bytes(content[2:6], "big"), crc32c.crc32c(content[6:])
    if stored != actual:
        return bad("producer_snapshot_crc", 2, expected=str(stored), actual=str(actual),
                   detail="the checksum is not that of the bytes")  # fmt: skip
    count = int.from_bytes(content[6:10], "big", signed=True)
    size = _SNAPSHOT_HEADER_BYTES + count * _SNAPSHOT_ENTRY_BYTES
    if version == 1 and size != len(content):
        return bad("producer_snapshot_size", 6, expected=str(size), actual=str(len(content)),
                   detail=f"{count} entries")  # fmt: skip
    return []


def _check_offset_index(report: FileReport) -> list[Finding]:
    file = report.file
    path = file.beside(INDEX_SUFFIX)
    content = _read(path)
    if content is None:
        return [] if _is_gone(file) else [_missing(report, "index_missing", path)]
    found = _check_size(file, path, content, OFFSET_ENTRY.itemsize, "index_size")
    entries = _used(content, OFFSET_ENTRY)
    found += _check_padding(file, path, content, len(entries) * OFFSET_ENTRY.itemsize, found)
    positions = entries["position"].astype(np.int64)
    offsets = entries["relative"].astype(np.int64) + file.base_offset
    if not len(entries) and not file.is_last:
        return found + _check_empty(report, path)
    digest = report.digest
    wrong = (np.diff(offsets, prepend=-1) <= 0) | (np.diff(positions, prepend=-1) <= 0)
    batch = np.searchsorted(digest["position"], positions)
    next_batch = np.append(batch[1:], len(digest))
    for slot in range(len(entries)):
        position, offset = int(positions[slot]), int(offsets[slot])
        at: dict[str, Any] = {
            "path": path, "length": OFFSET_ENTRY.itemsize, "offset": offset,
            "actual": str(position),
        }  # fmt: skip
        place = slot * OFFSET_ENTRY.itemsize
        if slot and bool(wrong[slot]):
            found.append(in_file(file, ERROR, "index_not_increasing", place, **at,
                                 detail="not above the entry before"))  # fmt: skip
        elif position >= file.size:
            if not (file.is_last and position < _size_now(file)):
                found.append(in_file(file, ERROR, "index_beyond_end", place, **at,
                                     expected=f"below {file.size}"))  # fmt: skip
        elif not _is_damaged(report, position):
            index, after = int(batch[slot]), int(next_batch[slot])
            reason = _entry_fault(digest, index, after, position, offset)
            if reason is not None:
                found.append(in_file(file, ERROR, reason[0], place, **at, detail=reason[1]))
    return found


def _entry_fault(
    digest: Any, index: int, after: int, position: int, offset: int
) -> tuple[str, str] | None:
    """Return the check that an entry for the batch at `index` fails; `after` is the next one's."""
    if index >= len(digest) or int(digest["position"][index]) != position:
        return "index_position", f"no batch begins at {position}"
    base = int(digest["base"][index])
    last = int(digest["last"][max(index, after - 1)])
    if not base <= offset <= last:
        return "index_offset", f"the batches from {position} on hold {base} to {last}"
    return None


def _check_time_index(report: FileReport) -> list[Finding]:
    file = report.file
    path = file.beside(TIME_INDEX_SUFFIX)
    content = _read(path)
    if content is None:
        return [] if _is_gone(file) else [_missing(report, "timeindex_missing", path)]
    found = _check_size(file, path, content, TIME_ENTRY.itemsize, "timeindex_size")
    entries = _used(content, TIME_ENTRY)
    found += _check_padding(file, path, content, len(entries) * TIME_ENTRY.itemsize, found)
    digest = report.digest
    largest = np.maximum.accumulate(digest["max_ts"]) if len(digest) else digest["max_ts"]
    before: tuple[int, int] | None = None
    for slot, (timestamp, relative) in enumerate(entries.tolist()):
        offset, place = file.base_offset + relative, slot * TIME_ENTRY.itemsize
        at: dict[str, Any] = {
            "path": path, "length": TIME_ENTRY.itemsize, "offset": offset,
            "actual": str(timestamp),
        }  # fmt: skip
        if before is not None and (timestamp <= before[0] or relative < before[1]):
            found.append(in_file(file, ERROR, "timeindex_not_increasing", place, **at,
                                 detail="not above the entry before"))  # fmt: skip
            continue
        before = timestamp, relative
        index = int(np.searchsorted(digest["last"], offset))
        if report.damaged:
            continue  # the largest time may have been in the damaged part
        if index >= len(digest):
            if not (file.is_last and _size_now(file) > file.size) and timestamp >= 0:
                found.append(in_file(file, ERROR, "timeindex_beyond_end", place, **at,
                                     expected=f"below {report.end_offset}"))  # fmt: skip
        elif timestamp != int(largest[index]):
            found.append(in_file(file, ERROR, "timeindex_mismatch", place, **at,
                                 expected=str(int(largest[index])),
                                 detail="the largest time up to that offset"))  # fmt: skip
    return found


def _check_transaction_index(
    report: FileReport, content: bytes, *, is_cleaned: bool
) -> list[Finding]:
    file = report.file
    path = file.beside(TRANSACTION_INDEX_SUFFIX)
    found = _check_size(file, path, content, TRANSACTION_ENTRY_BYTES, "txnindex_size")
    aborts = {(step.producer_id, step.offset) for step in report.transactions
              if step.marker == "abort"}  # fmt: skip
    end, is_unsure = report.end_offset, is_cleaned or bool(report.damaged)
    for slot, entry in enumerate(decode_transaction_index(content)):
        place = slot * TRANSACTION_ENTRY_BYTES
        at: dict[str, Any] = {"path": path, "length": TRANSACTION_ENTRY_BYTES,
                              "offset": entry.last_offset}  # fmt: skip
        if entry.version != 0:
            found.append(in_file(file, ERROR, "txnindex_version", place, **at, expected="0",
                                 actual=str(entry.version)))  # fmt: skip
        elif entry.first_offset > entry.last_offset or entry.last_offset < file.base_offset:
            found.append(in_file(file, ERROR, "txnindex_range", place, **at,
                                 detail=f"first offset {entry.first_offset}"))  # fmt: skip
        elif entry.last_offset >= end and _size_now(file) > file.size:
            continue
        elif not is_unsure and (entry.producer_id, entry.last_offset) not in aborts:
            found.append(in_file(file, ERROR, "txnindex_marker", place, **at,
                                     detail=f"no abort of producer {entry.producer_id} stands"
                                     " there"))  # fmt: skip
    return found


def _used(content: bytes, entry: np.dtype[Any]) -> Any:
    """Return the entries without the zeros at the end; (0, 0) before other entries is one."""
    whole = len(content) // entry.itemsize
    rows = np.frombuffer(content, entry, whole)
    names = entry.names
    assert names is not None
    used = np.flatnonzero((rows[names[0]] != 0) | (rows[names[1]] != 0))
    return rows[: int(used[-1]) + 1] if len(used) else rows[:0]


def _check_size(
    file: SegmentFile, path: str, content: bytes, entry_bytes: int, check: str
) -> list[Finding]:
    left = len(content) % entry_bytes
    if not left:
        return []
    return [in_file(file, ERROR, check, len(content) - left, path=path, length=left,
                    expected=f"a multiple of {entry_bytes}", actual=str(len(content)))]  # fmt: skip


def _check_padding(
    file: SegmentFile, path: str, content: bytes, used: int, found: list[Finding]
) -> list[Finding]:
    """Check for zeros after the entries, which only the active segment may have."""
    unused = len(content) - used
    if not unused or file.is_last or found:
        return []
    return [in_file(file, WARN, "index_preallocated", used, path=path, length=unused,
                    detail="unused zeros, though the segment was rolled")]  # fmt: skip


def _check_empty(report: FileReport, path: str) -> list[Finding]:
    """Check for an index without entries beside a rolled segment long enough for some."""
    digest = report.digest
    if not len(digest) or report.damaged:
        return []
    reach = int(digest["position"][-1]) - int(digest["size"].max())
    if reach <= INDEX_INTERVAL_BYTES * 2:
        return []
    return [in_file(report.file, WARN, "index_empty", 0, path=path,
                    detail=f"no entry for {report.file.size} bytes")]  # fmt: skip


def _missing(report: FileReport, check: str, path: str) -> Finding:
    """A missing index: a warning for a rolled segment; the active one may not have it yet."""
    severity = INFO if report.file.is_last else WARN
    return in_file(report.file, severity, check, 0, path=path, detail="there is no such file")


def _is_damaged(report: FileReport, position: int) -> bool:
    return any(start <= position < end for start, end in report.damaged)


def _is_gone(file: SegmentFile) -> bool:
    return not Path(file.path).exists()


def _size_now(file: SegmentFile) -> int:
    try:
        return os.stat(file.path).st_size  # noqa: PTH116  # one call
    except OSError:
        return file.size


def _read(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except OSError:
        return None
