"""Check that bytes read from a log are still those that were written.

A disk may change them silently: batches are checked before they are sent to a follower or applied,
as at start (storage/logs/recovery.py), and damage stops the node.
"""

import struct
from typing import Final

import crc32c

from wire.batches.batch import CRC_START, HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC, why_no_batch

_unpack_begin: Final = struct.Struct(">qiibIhi").unpack_from  # base offset to last offset delta
_checksum: Final = crc32c.crc32c
_LENGTH_MIN: Final = HEADER_BYTES - LOG_OVERHEAD_BYTES
assert struct.calcsize(">qiibI") == CRC_START, "the checksum covers what follows it"
assert struct.calcsize(">qiibIhi") <= HEADER_BYTES, "one header holds all that is looked at"


def first_damage(
    data: bytes | memoryview, offset: int, *, contiguous: bool
) -> tuple[int, str] | None:
    """Position in `data` of the first damaged batch, and the damage; None if there is none.

    The leader epoch is not covered: it is before the checksum, as in Kafka.

    Args:
        data: whole batches, the first of which must hold `offset`.
        offset: first offset to be read.
        contiguous: False if offsets may be missing (a compacted log).
    """
    assert offset >= 0, f"{offset=}"
    view, size = memoryview(data), len(data)
    position, expected = 0, offset
    while position < size:
        if size - position < HEADER_BYTES:
            return position, f"batch header is cut: {size - position} bytes are left"
        base_offset, length, _, magic, crc, _, delta = _unpack_begin(data, position)
        end = position + LOG_OVERHEAD_BYTES + length
        if magic != MAGIC or length < _LENGTH_MIN:
            return position, f"batch at offset {base_offset} {why_no_batch(length, magic)}"
        if end > size:
            return position, f"no batch: length {length} where {size - position} bytes are left"
        if _checksum(view[position + CRC_START : end]) != crc:
            return position, f"CRC of the batch at offset {base_offset} is wrong"
        last_offset = base_offset + delta
        if contiguous and not base_offset <= expected <= last_offset:
            return position, f"base offset {base_offset} where offset {expected} has to be"
        position, expected = end, last_offset + 1
    return None
