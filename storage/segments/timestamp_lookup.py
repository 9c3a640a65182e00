"""Offsets by time: the first record at or after a timestamp, and the one with the largest.

apache/kafka: storage/.../log/UnifiedLog.java (`fetchOffsetByTimestamp`), LogSegment.java
(`findOffsetByTimestamp`), clients/.../common/record/FileRecords.java (`searchForTimestamp`)
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from storage.errors import CorruptLogError
from storage.segments.segment import Segment
from wire.batches.batch import BatchHeader, RecordView
from wire.batches.legacy_batch import LegacyRecord, iterate_any
from wire.errors import CorruptBatchError

LOOKUP_UNITS: Final = 10
"""Cost of a look-up, in the units of a turn."""
BATCH_UNITS: Final = 2
"""Cost of a batch whose header is read."""
BYTES_PER_UNIT: Final = 2048
"""Of a batch that is read whole."""

Spend = Callable[[int], None]
"""Told what a look-up costs, in units."""


def spend_nothing(_units: int) -> None:
    """Ignore the cost."""


class TimestampAndOffset(msgspec.Struct, frozen=True, gc=False):
    """A record by time; -1 for what is not known."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


def first_at_or_after(
    segments: Sequence[Segment], timestamp_ms: int, log_start_offset: int, spend: Spend
) -> TimestampAndOffset | None:
    """The first record at or above the log start whose timestamp is not lower; None if none is.

    Only the first segment whose largest timestamp is not lower is looked at, as in Kafka: where all
    that fit in it lie below the log start, there is no answer.

    Raises:
        CorruptLogError: a batch on the way cannot be read.
    """
    assert timestamp_ms >= 0, f"{timestamp_ms=}"
    for segment in segments:
        indexes = segment.indexes
        if indexes.max_timestamp_ms >= timestamp_ms:
            _, offset = indexes.times.lookup(timestamp_ms)
            start = indexes.offsets.lookup(max(offset, log_start_offset))
            return _search(segment, start, timestamp_ms, log_start_offset, spend)
    return None


def with_max_timestamp(segments: Sequence[Segment], spend: Spend) -> TimestampAndOffset | None:
    """The first record with the largest timestamp of all, -1 if they have none.

    None without records, or if the first is of magic 0 and none has a timestamp.

    Raises:
        CorruptLogError: a batch on the way cannot be read.
    """
    assert segments, "a log has a segment"
    segment = max(segments, key=lambda each: each.indexes.max_timestamp_ms)
    indexes = segment.indexes
    start = indexes.offsets.lookup(indexes.offset_of_max_timestamp)
    return _search(segment, start, indexes.max_timestamp_ms, 0, spend)


def _search(
    segment: Segment, position: int, timestamp_ms: int, offset_min: int, spend: Spend
) -> TimestampAndOffset | None:
    spend(LOOKUP_UNITS)
    try:
        for at, header in segment.headers_from(position):
            position = at
            spend(BATCH_UNITS)
            if header.max_timestamp_ms < timestamp_ms:
                continue
            if header.magic == 0:  # no timestamp is sought, and it has none: Kafka finds nothing
                return None
            spend(header.records_count + header.size_bytes // BYTES_PER_UNIT)
            for record in _records(segment, at, header):
                if record.timestamp_ms >= timestamp_ms and record.offset >= offset_min:
                    return TimestampAndOffset(
                        record.timestamp_ms, record.offset, header.leader_epoch
                    )
    except CorruptBatchError as error:
        raise CorruptLogError(segment.path, position, str(error)) from error
    return None


def _records(
    segment: Segment, position: int, header: BatchHeader
) -> Sequence[RecordView | LegacyRecord]:
    content = segment.file.pread(header.size_bytes, position)
    batch = next(iterate_any(content), None)
    if batch is None or not batch.crc_is_valid:
        raise CorruptBatchError(f"CRC of the batch at offset {header.base_offset} is wrong")
    return batch.records()
