"""Check of one segment and its indexes: checksums, offsets, epochs, records, entries."""

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import msgspec

from cli.offline.findings import Finding, error, warning
from metadata import record_codec
from metadata.schema import MetadataRecordError
from storage.segments.index import IndexDamageError, OffsetIndex, TimeIndex
from storage.segments.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from wire.batches.batch import Batch, BatchHeader, iterate_batches
from wire.errors import CorruptBatchError


class SegmentResult(msgspec.Struct):
    """Batches of a segment, as far as it could be read."""

    path: Path
    base_offset: int
    headers: list[BatchHeader]
    positions: list[int]
    contents: list[memoryview]
    """Bytes of each batch."""
    is_whole: bool = True
    """True if the file was read to its end."""

    def add(self, batch: Batch) -> None:
        """Add the next batch."""
        self.headers.append(batch.header)
        self.positions.append(batch.position)
        self.contents.append(batch.buffer)

    @property
    def end_offset(self) -> int:
        """End offset of the last batch."""
        return self.headers[-1].end_offset if self.headers else self.base_offset


class SegmentCheck:
    """Check of one segment file."""

    def __init__(self, path: Path, base_offset: int, *, is_last: bool, is_metadata: bool) -> None:
        """Store the options; nothing is read yet.

        Args:
            path: The `.log` file.
            base_offset: The offset in its name.
            is_last: True for the last segment, whose end may be torn.
            is_metadata: True if offsets have no gaps and records are metadata records.
        """
        self.path = path
        self.is_last = is_last
        self.is_metadata = is_metadata
        self.result = SegmentResult(path, base_offset, [], [], [])

    def findings(self) -> Iterator[Finding]:
        """Yield every finding in the segment and its indexes.

        Raises:
            OSError: a file cannot be read.
        """
        content = self.path.read_bytes()
        end = 0
        try:
            for batch in iterate_batches(content):
                yield from self._batch_findings(batch)
                self.result.add(batch)
                end = batch.position + batch.header.size_bytes
        except CorruptBatchError as problem:
            self.result.is_whole = False
            yield error(self.path, end, "header", str(problem))
        else:
            if end < len(content):
                self.result.is_whole = False
                text = f"{len(content) - end} bytes are no whole batch"
                make = warning if self.is_last else error
                yield make(self.path, end, "tail", text)
        yield from self._offset_index_findings(end)
        yield from self._time_index_findings()

    def _batch_findings(self, batch: Batch) -> Iterator[Finding]:
        header, at = batch.header, batch.position
        if not batch.crc_is_valid:
            text = f"the checksum of the batch at offset {header.base_offset} does not match"
            yield error(self.path, at, "crc", text)
            return
        expected = self.result.end_offset
        if header.base_offset < expected or (self.is_metadata and header.base_offset > expected):
            text = f"the batch begins at offset {header.base_offset}, expected is {expected}"
            yield error(self.path, at, "offset", text)
        if self.result.headers and header.leader_epoch < self.result.headers[-1].leader_epoch:
            before = self.result.headers[-1].leader_epoch
            text = f"the leader epoch falls from {before} to {header.leader_epoch}"
            yield error(self.path, at, "epoch", text)
        yield from self._record_findings(batch)

    def _record_findings(self, batch: Batch) -> Iterator[Finding]:
        try:
            records = batch.records()
        except (CorruptBatchError, ValueError) as problem:
            yield error(self.path, batch.position, "records", str(problem))
            return
        header = batch.header
        if not self.is_metadata:
            return
        offsets = [record.offset for record in records]
        if offsets != list(range(header.base_offset, header.end_offset)):
            text = f"{len(records)} records do not fill offsets {header.base_offset} to "
            yield error(self.path, batch.position, "records", f"{text}{header.last_offset}")
        for record in () if header.is_control else records:
            try:
                record_codec.decode(record.value or b"")
            except MetadataRecordError as problem:
                text = f"offset {record.offset}: {problem}"
                yield error(self.path, batch.position, "records", text)

    def _offset_index_findings(self, size_bytes: int) -> Iterator[Finding]:
        path = self.path.with_suffix(INDEX_SUFFIX)
        if not path.exists():
            return
        base = self.result.base_offset
        try:
            entries = OffsetIndex.decode(path.read_bytes(), base, max(size_bytes, 1)).entries()
        except IndexDamageError as problem:
            yield error(path, 0, "index", str(problem))
            return
        starts = dict(zip(self.result.positions, self.result.headers, strict=True))
        for slot, (offset, position) in enumerate(entries):
            header = starts.get(position)
            if header is None:
                text = f"entry {slot}: no batch begins at position {position}"
                yield error(path, slot * 8, "index", text)
            elif not header.base_offset <= offset < self.result.end_offset:
                text = f"entry {slot}: offset {offset} is not at position {position} or behind it"
                yield error(path, slot * 8, "index", text)

    def _time_index_findings(self) -> Iterator[Finding]:
        path = self.path.with_suffix(TIME_INDEX_SUFFIX)
        if not path.exists():
            return
        try:
            entries = TimeIndex.decode(path.read_bytes(), self.result.base_offset).entries()
        except IndexDamageError as problem:
            yield error(path, 0, "time-index", str(problem))
            return
        bases = [header.base_offset for header in self.result.headers]
        for slot, (timestamp_ms, offset) in enumerate(entries):
            found = bisect_right(bases, offset) - 1
            header = self.result.headers[found] if found >= 0 else None
            if header is None or offset > header.last_offset:
                text = f"entry {slot}: no batch has offset {offset}"
                yield error(path, slot * 12, "time-index", text)
            elif timestamp_ms != header.max_timestamp_ms:
                text = (
                    f"entry {slot}: the batch of offset {offset} has time "
                    f"{header.max_timestamp_ms}, not {timestamp_ms}"
                )
                yield error(path, slot * 12, "time-index", text)
