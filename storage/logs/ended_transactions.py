"""Transactions that ended at or above a high watermark and below a producer snapshot.

The snapshot does not tell of them, and yet they hold back the last stable offset until the high
watermark has passed their markers. Found by the headers of batches, records are not read: below the
recovery point nothing is checked when a log is opened, as in Kafka. docs/decisions/0023

apache/kafka: storage/.../log/ProducerStateManager.java (`unreplicatedTxns`, in memory alone)
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from storage.errors import CorruptLogError
from storage.producers.producer_entry import NONE
from storage.producers.producer_snapshot import ProducerSnapshotEntry
from storage.segments.segment import Segment, floor_index
from wire.batches.batch import BatchHeader
from wire.errors import CorruptBatchError


class EndedTransaction(msgspec.Struct, frozen=True, gc=False):
    """A transaction with a marker; both offsets are inclusive.

    Of no producer (-1): some that cannot be told apart, as what is between is damaged.
    """

    producer_id: int
    first_offset: int
    last_offset: int


def has_marker(segments: Sequence[Segment], start: int, end: int) -> bool:
    """True if a marker is at an offset of `[start, end)`, or may be, where a header is damaged."""
    assert start < end, f"{start=} {end=}"
    try:
        return any(_is_marker(header) for header in _headers(segments, start, end))
    except (CorruptBatchError, CorruptLogError):
        return True


def ended_transactions(
    segments: Sequence[Segment],
    before: Iterable[ProducerSnapshotEntry],
    start: int,
    end: int,
    high_watermark: int,
) -> list[EndedTransaction]:
    """The transactions with a marker at an offset of `[high_watermark, end)`.

    Behind a damaged header one of no producer stands for all: from the first offset that it may
    have to `end`.

    Args:
        segments: of the log, oldest first.
        before: the producers below `start`.
        start: at or below the high watermark.
        end: of a snapshot.
        high_watermark: where transactions that ended are to be known from.
    """
    assert start <= high_watermark < end, f"{start=} {high_watermark=} {end=}"
    opened = {
        each.producer_id: each.current_transaction_first_offset
        for each in before
        if each.current_transaction_first_offset != NONE
    }
    ended: list[EndedTransaction] = []
    known = start
    try:
        for header in _headers(segments, start, end):
            known = header.end_offset
            if header.is_control:
                first = opened.pop(header.producer_id, None)
                is_noted = _is_marker(header) and header.last_offset >= high_watermark
                if first is not None and is_noted:
                    assert first < header.last_offset, f"{header=} begins at {first}"
                    ended.append(EndedTransaction(header.producer_id, first, header.last_offset))
            elif header.is_transactional:
                opened.setdefault(header.producer_id, header.base_offset)
    except (CorruptBatchError, CorruptLogError):
        if known < end:
            ended.append(EndedTransaction(NONE, min([known, *opened.values()]), end - 1))
    return ended


def _is_marker(header: BatchHeader) -> bool:
    """True of a marker; what one ended whose record was cleaned is replicated long since."""
    return header.is_control and header.records_count > 0


def _headers(segments: Sequence[Segment], start: int, end: int) -> Iterator[BatchHeader]:
    """The headers of the batches with an offset of `[start, end)`.

    Raises:
        CorruptBatchError: there is no valid one, or it cannot follow the one before.
        CorruptLogError: so, on the way to `start`.
    """
    for segment in segments[floor_index(segments, start) :]:
        expected = segment.base_offset
        first = segment.find(start) if expected < start else 0
        for position, header in segment.headers_from(first):
            if header.base_offset >= end:
                return
            is_whole = position + header.size_bytes <= segment.size_bytes
            is_next = expected <= header.base_offset <= header.last_offset < end
            if not is_whole or not is_next:
                raise CorruptBatchError(f"{header=} follows {expected}")
            yield header
            expected = header.end_offset
