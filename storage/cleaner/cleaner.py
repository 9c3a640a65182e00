"""One round of cleaning: the keys of the dirty part, then a copy of each group of segments.

A round is an iterator, so that whoever runs it can wait between two reads, end it (`close`), and
swap a group in before the next one is written: the disk holds one cleaned segment beside the log.

    INV-CL-3  a round changes no file of the log; what it writes ends with `.cleaned`

apache/kafka: storage/.../log/Cleaner.java (`doClean`, `buildOffsetMap`, `cleanSegments`)
"""

import contextlib
from collections.abc import Generator, Iterator, Sequence

from storage.cleaner.batch_filter import (
    WRONG_CRC,
    BatchFilter,
    FilterRules,
    Kept,
    plain_section,
)
from storage.cleaner.clean_job import (
    CleanEvent,
    CleanJob,
    CleanStats,
    GroupCleaned,
    Progress,
    RoundEnded,
)
from storage.cleaner.cleaned_segment import CleanedSegment
from storage.cleaner.grouping import SourceSegment, grouped
from storage.cleaner.offset_map import OffsetMap
from storage.cleaner.segment_reader import read_segment
from storage.cleaner.transactions import CleanedTransactions
from storage.errors import CorruptLogError
from storage.segments.aborted_transactions import aborted_in
from storage.segments.segment import (
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
    segment_base_offset,
    segment_name,
)
from storage.segments.transaction_index import TRANSACTION_INDEX_SUFFIX, AbortedTransaction
from storage.vfs import Vfs, join
from wire.batches.batch import Batch
from wire.batches.legacy_batch import LegacyBatch
from wire.batches.record_fields import record_fields
from wire.errors import CorruptBatchError


def clean(vfs: Vfs, job: CleanJob) -> Iterator[CleanEvent]:
    """The events of a round; the last one is `RoundEnded`.

    Raises:
        CorruptLogError: a batch cannot be read; the group that it is in stays as it is.
        OutOfSpaceError: as before. So for `OSError` and `FsyncError`.
    """
    return _Round(vfs, job).events()


class _Round:
    """The state of a round."""

    def __init__(self, vfs: Vfs, job: CleanJob) -> None:
        self._vfs = vfs
        self._job = job
        self._stats = CleanStats()
        self._offsets = OffsetMap(job.keys_max)
        self._indexed = self._with_transaction_index()
        self._producers = {each.producer_id: each for each in job.producers}

    def _with_transaction_index(self) -> list[int]:
        """Base offsets of the segments that have one, ascending: most logs have few or none."""
        names = self._vfs.list(self._job.directory)
        found = [segment_base_offset(name, TRANSACTION_INDEX_SUFFIX) for name in names]
        known = {*self._job.segments, *self._job.later_segments}
        return sorted(known.intersection(found))

    def events(self) -> Iterator[CleanEvent]:
        job, offsets = self._job, self._offsets
        yield from self._build_map()
        assert job.first_dirty_offset < offsets.end_offset, f"{offsets.end_offset=}"
        assert offsets.end_offset <= job.first_uncleanable_offset, f"{offsets.end_offset=}"
        segments = [
            self._source(base_offset)
            for base_offset in job.segments
            if base_offset < offsets.end_offset
        ]
        clean = [each for each in segments if each.base_offset < job.first_dirty_offset]
        horizon_ms = clean[-1].modified_ms - job.rules.delete_retention_ms if clean else 0
        transactions = CleanedTransactions()
        rules = job.rules
        for group in grouped(
            segments, rules.segment_bytes, rules.segment_index_bytes, job.first_uncleanable_offset
        ):
            yield from self._clean_group(group, transactions, horizon_ms)
        self._stats.buffer_utilization = len(offsets.offsets) / job.slots
        yield RoundEnded(offsets.end_offset, self._stats)

    def _source(self, base_offset: int) -> SourceSegment:
        path = self._path(base_offset)
        return SourceSegment(
            base_offset,
            self._vfs.size(path),
            self._index_bytes(base_offset, INDEX_SUFFIX),
            self._index_bytes(base_offset, TIME_INDEX_SUFFIX),
            self._vfs.modified_ms(path),
        )

    def _index_bytes(self, base_offset: int, suffix: str) -> int:
        path = join(self._job.directory, segment_name(base_offset, suffix))
        return self._vfs.size(path) if self._vfs.exists(path) else 0

    def _path(self, base_offset: int) -> str:
        return join(self._job.directory, segment_name(base_offset))

    def _aborted(self, offset: int, upper_offset: int) -> list[AbortedTransaction]:
        before = [each for each in self._indexed if each <= offset][-1:]
        bases = [*before, *(each for each in self._indexed if each > offset)]
        return aborted_in(self._vfs, self._job.directory, bases, offset, upper_offset)[0]

    # -- keys -----------------------------------------------------------------------------------

    def _build_map(self) -> Iterator[CleanEvent]:
        """Read the dirty part until its end, or until the map is full."""
        job, segments = self._job, self._job.segments
        start, end = job.first_dirty_offset, job.first_uncleanable_offset
        transactions = CleanedTransactions()
        transactions.add_aborted(self._aborted(start, end))
        first = max(0, sum(base_offset <= start for base_offset in segments) - 1)
        for number in range(first, len(segments)):
            is_last = number == len(segments) - 1
            end_offset = end if is_last else segments[number + 1]
            is_full = yield from self._map_segment(segments[number], transactions)
            if is_full:
                return
            self._offsets.latest_offset = end_offset - 1  # offsets may be missing at its end

    def _map_segment(
        self, base_offset: int, transactions: CleanedTransactions
    ) -> Generator[CleanEvent, None, bool]:
        job = self._job
        segment = Segment(self._vfs, job.directory, base_offset, job.rules.index_interval_bytes)
        position = 0
        try:
            if base_offset < job.first_dirty_offset:
                position = segment.find(job.first_dirty_offset)
            reads = read_segment(segment.file, segment.path, position, job.read_bytes)
            for start, size_bytes, batches in reads:
                yield Progress(size_bytes)
                for batch in batches:
                    with _damage_of(segment.path, start + batch.position):
                        if not self._map_batch(batch, transactions):
                            return True
                self._stats.map_bytes_read += size_bytes
        finally:
            segment.close()
        return False

    def _map_batch(self, batch: Batch | LegacyBatch, transactions: CleanedTransactions) -> bool:
        """Put the keys of a batch; False if the map is full.

        Raises:
            CorruptBatchError: its checksum is wrong, or its records cannot be read.
        """
        if not batch.crc_is_valid:
            raise CorruptBatchError(WRONG_CRC)
        offsets, start = self._offsets, self._job.first_dirty_offset
        if isinstance(batch, LegacyBatch):
            transactions.is_aborted(batch.last_offset, None)
            base_offset, last_offset = 0, batch.last_offset
            records = batch.records()
            self._stats.map_messages_read += len(records)
            keys: list[tuple[int, bytes]] = [
                (each.offset, each.key)
                for each in records
                if each.key is not None and each.offset >= start
            ]
        else:
            header = batch.header
            base_offset, last_offset = header.base_offset, header.last_offset
            self._stats.map_messages_read += header.records_count
            if header.is_control:
                transactions.is_needless(batch)
                keys = []
            elif transactions.is_aborted(last_offset, header) or not header.records_count:
                keys = []
            else:
                least = start - base_offset
                fields = record_fields(plain_section(batch), header.records_count)
                keys = [(each[4], key) for each in fields if (key := each[5]) is not None]
                if least > 0:
                    keys = [each for each in keys if each[0] >= least]
        if not offsets.put_all(base_offset, keys):
            return False
        if last_offset >= start:
            offsets.latest_offset = last_offset
        return True

    # -- copies ---------------------------------------------------------------------------------

    def _clean_group(
        self,
        group: Sequence[SourceSegment],
        transactions: CleanedTransactions,
        horizon_ms: int,
    ) -> Iterator[CleanEvent]:
        """Copy the segments of a group into one.

        Args:
            group: its segments, in order.
            transactions: at its beginning.
            horizon_ms: tombstones of magic 0 and 1 go if they were written up to then.
        """
        job = self._job
        base_offset = group[0].base_offset
        cleaned = CleanedSegment(
            self._vfs, job.directory, base_offset, job.rules.index_interval_bytes
        )
        is_whole = False
        try:
            cleaned.create()
            for number, source in enumerate(group):
                upper = group[number + 1].base_offset if number + 1 < len(group) else None
                yield from self._clean_segment(source, upper, cleaned, transactions, horizon_ms)
            cleaned.finish(transactions.take_retained(), group[-1].modified_ms)
            is_whole = True
        finally:
            if not is_whole:
                cleaned.discard()
        yield GroupCleaned(base_offset, tuple(each.base_offset for each in group))

    def _clean_segment(
        self,
        source: SourceSegment,
        upper_offset: int | None,
        cleaned: CleanedSegment,
        transactions: CleanedTransactions,
        horizon_ms: int,
    ) -> Iterator[CleanEvent]:
        job, stats, path = self._job, self._stats, self._path(source.base_offset)
        if upper_offset is None:
            later = [each for each in job.segments if each > source.base_offset]
            upper_offset = later[0] if later else job.first_uncleanable_offset
        transactions.add_aborted(self._aborted(source.base_offset, upper_offset))
        rules = FilterRules(
            now_ms=job.now_ms,
            delete_retention_ms=job.rules.delete_retention_ms,
            upper_bound_offset=job.first_uncleanable_offset,
            producers=self._producers,
            keeps_old_tombstones=source.modified_ms > horizon_ms,
        )
        batch_filter = BatchFilter(self._offsets, transactions, rules, stats)
        file = self._vfs.open(path)
        try:
            for start, size_bytes, batches in read_segment(file, path, 0, job.read_bytes):
                yield Progress(size_bytes)
                kept: list[tuple[bytes | memoryview, Kept]] = []
                for batch in batches:
                    with _damage_of(path, start + batch.position):
                        left = batch_filter.filtered(batch)
                    if left is not None:
                        content = batch.buffer if left.content is None else left.content
                        kept.append((content, left))
                with _damage_of(path, start):
                    written_bytes = cleaned.append(kept)
                stats.bytes_read += size_bytes
                stats.bytes_written += written_bytes
                yield Progress(written_bytes)
        finally:
            file.close()


@contextlib.contextmanager
def _damage_of(path: str, position: int) -> Iterator[None]:
    """Say of a damaged batch where it is."""
    try:
        yield
    except CorruptBatchError as error:
        raise CorruptLogError(path, position, str(error)) from error
