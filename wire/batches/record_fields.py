"""Key, offset and place of every record of a batch, in one pass that decodes nothing else.

A cleaner looks at all records of a log and keeps most as they are: to decode them whole
(`Batch.records`) would cost it several times as much. A record:

    VARINT length of what follows, INT8 attributes, VARLONG timestamp delta, VARINT offset delta,
    VARINT key length, key, VARINT value length, value, VARINT number of headers, headers

apache/kafka: clients/.../common/record/DefaultRecord.java
"""

from collections.abc import Sequence
from typing import Final

from wire.errors import CorruptBatchError
from wire.primitives import encode_varint, encode_varlong, read_unsigned_varint, read_varlong

_ATTRIBUTES_BYTES: Final = 1


RecordFields = tuple[int, int, int, int, int, bytes | None, bool]
"""One record of a plain section: position of its length, of its timestamp delta, of its offset
delta, and its end; then its offset delta, its key, and True if it has a value.

A plain tuple: there is one for each record of a log, and a named one costs five times as much.
"""
_NULL: Final = 1
"""The length -1, zigzag encoded."""


def record_fields(section: bytes, count: int) -> list[RecordFields]:
    """The records of a section, in order.

    Args:
        section: plain, as of a batch without compression.
        count: number of records that the header says.

    Raises:
        CorruptBatchError: the records do not fill the section exactly.
    """
    found: list[RecordFields] = []
    add = found.append
    position, size = 0, len(section)
    try:
        for _ in range(count):
            start = position
            length, position = _varint(section, position)
            end = position + (length >> 1)
            at_time = position = position + _ATTRIBUTES_BYTES
            while section[position] > 0x7F:
                position += 1
            at_offset = position = position + 1
            delta = section[position]
            if delta < 0x80:
                position += 1
            elif section[position + 1] < 0x80:
                delta, position = delta & 0x7F | section[position + 1] << 7, position + 2
            else:
                delta, position = _varint(section, position)
            key_length = section[position]
            if key_length < 0x80:
                position += 1
            else:
                key_length, position = _varint(section, position)
            key = None
            if key_length != _NULL:
                key_end = position + (key_length >> 1)
                key, position = section[position:key_end], key_end
            if (length | delta | (key is not None and key_length)) & 1 or position >= end:
                raise CorruptBatchError(f"record of {length >> 1} bytes has no such fields")
            add((start, at_time, at_offset, end, delta >> 1, key, section[position] != _NULL))
            position = end
    except (IndexError, ValueError) as error:
        raise CorruptBatchError(f"records cannot be read: {error}") from error
    if position != size:
        raise CorruptBatchError(f"{size - position} bytes are left behind {count} records")
    return found


def _varint(section: bytes, position: int) -> tuple[int, int]:
    """A number that is still zigzag encoded: twice what it says, odd if that is negative."""
    first = section[position]
    if first < 0x80:
        return first, position + 1
    second = section[position + 1]
    if second < 0x80:
        return first & 0x7F | second << 7, position + 2
    return read_unsigned_varint(section, position)


def timestamp_delta_ms(section: bytes, fields: RecordFields) -> int:
    """The timestamp of a record less that of its batch."""
    delta_ms, _ = read_varlong(section, fields[1])
    return delta_ms


def section_of(
    section: bytes, kept: Sequence[RecordFields], deltas_ms: Sequence[int] | None
) -> bytes:
    """The section of these records alone, unchanged but for their timestamp deltas.

    Args:
        section: that they are in.
        kept: some of its records, in order.
        deltas_ms: timestamp delta of each; None for those that they have.
    """
    assert kept, "a batch without records has no section"
    if deltas_ms is None:
        return b"".join([section[start:end] for start, end in _runs(kept)])
    parts: list[bytes] = []
    for fields, delta_ms in zip(kept, deltas_ms, strict=True):
        delta, at = encode_varlong(delta_ms), fields[1]
        rest = section[fields[2] : fields[3]]
        length = encode_varint(_ATTRIBUTES_BYTES + len(delta) + len(rest))
        parts += (length, section[at - _ATTRIBUTES_BYTES : at], delta, rest)
    return b"".join(parts)


def _runs(kept: Sequence[RecordFields]) -> list[tuple[int, int]]:
    """The parts of the section that hold the records, joined where they touch."""
    runs: list[tuple[int, int]] = []
    start = end = kept[0][0]
    for next_start, _, _, next_end, _, _, _ in kept:
        if next_start > end:
            runs.append((start, end))
            start = next_start
        end = next_end
    runs.append((start, end))
    return runs
