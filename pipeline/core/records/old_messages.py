"""Messages of magic 0 and 1 in a segment: their positions, their headers, their records.

A reader of columns takes them as batches of magic 2: each entry, a message or a wrapper of several,
has a header with its true base offset and count, and its records are encoded again.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from pipeline.core.records.varints import Int64Array
from wire.batches.batch import (
    HEADER_BYTES,
    BatchHeader,
    RecordView,
    encode_records,
)
from wire.batches.legacy_batch import LegacyBatch, iterate_any
from wire.batches.log_batches import parse_log_header
from wire.batches.old_messages import CODEC_MASK, is_old_message, old_bytes_at
from wire.errors import CorruptBatchError


def hop_old(buffer: bytes, position: int, end: int) -> tuple[list[int], int, str]:
    """Starts of whole messages, position of the stop, reason (cut: end of the buffer; "": done)."""
    positions: list[int] = []
    while position < end and (size := old_bytes_at(buffer, position)) is not None:
        if position + size > len(buffer):
            return positions, position, "cut"
        positions.append(position)
        position += size
    return positions, position, ""


def is_old_sound(buffer: bytes, position: int) -> bool:
    """True if a whole message with a valid checksum is at the position."""
    return is_old_message(_whole(buffer, position))


def old_headers(buffer: bytes, positions: Sequence[int]) -> list[BatchHeader]:
    """The header of each message; of wrappers with the offset of the first message inside.

    Those of a wrapper that cannot be read are left as they are: who reads its records finds out.
    """
    found = []
    for position in positions:
        header = parse_log_header(buffer, position)
        if header.attributes & CODEC_MASK:
            try:
                records = _entry(buffer, position).records()
            except CorruptBatchError:
                records = []
            if records:
                base_offset = min(header.base_offset, records[0].offset)
                header = msgspec.structs.replace(
                    header,
                    base_offset=base_offset,
                    last_offset_delta=header.base_offset - base_offset,
                    records_count=len(records),
                )
        found.append(header)
    return found


def old_records(buffer: bytes, position: int) -> list[RecordView]:
    """The records of the message or wrapper at a position.

    Raises:
        CorruptBatchError: they cannot be read.
    """
    return [
        RecordView(record.offset, record.timestamp_ms, record.key, record.value)
        for record in _entry(buffer, position).records()
    ]


def old_sections(buffer: bytes, positions: Sequence[int]) -> tuple[bytes, Int64Array, Int64Array]:
    """The records of each entry as a plain section of magic 2; start and end of each section.

    Raises:
        CorruptBatchError: some cannot be read.
    """
    sections = []
    for position, header in zip(positions, old_headers(buffer, positions), strict=True):
        plain = msgspec.structs.replace(header, attributes=header.attributes & ~CODEC_MASK)
        section = encode_records(plain, old_records(buffer, position))[HEADER_BYTES:]
        sections.append(section)
    ends = np.cumsum([len(section) for section in sections], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    return b"".join(sections), starts, ends


def _entry(buffer: bytes, position: int) -> LegacyBatch:
    (entry,) = iterate_any(_whole(buffer, position))
    assert isinstance(entry, LegacyBatch), f"{position=}"
    return entry


def _whole(buffer: bytes, position: int) -> memoryview:
    size = old_bytes_at(buffer, position)
    assert size is not None, f"{position=}"
    return memoryview(buffer)[position : position + size]
