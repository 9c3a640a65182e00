"""Are bytes that are read from a log still those that were written? Asked before they are used.

A disk may change them behind everybody's back: what a follower is sent or what is applied has its
checksums looked at, as at start (storage/recovery.py), and damage stops the node.
"""

import struct
from typing import Final

import crc32c

from wire.batch import CRC_START, HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC

_BEGIN: Final = struct.Struct(">qiibIhi")  # base offset to last offset delta


def first_damage(
    data: bytes | memoryview, offset: int, *, contiguous: bool
) -> tuple[int, str] | None:
    """Position in `data` of the first batch that is not what was written, and why; None if all is.

    The leader epoch is not covered: it lies before the checksum, as in Kafka.

    Args:
        data: whole batches, read from where `offset` has to be.
        offset: held by the first batch.
        contiguous: False: offsets may be missing (a compacted log).
    """
    view = memoryview(data)
    position, expected = 0, offset
    while position < len(view):
        if len(view) - position < HEADER_BYTES:
            return position, f"batch header is cut: {len(view) - position} bytes are left"
        base_offset, length, _, magic, crc, _, delta = _BEGIN.unpack_from(view, position)
        end = position + LOG_OVERHEAD_BYTES + length
        if magic != MAGIC or length < HEADER_BYTES - LOG_OVERHEAD_BYTES or end > len(view):
            return position, f"no batch: magic {magic}, length {length}"
        if crc32c.crc32c(view[position + CRC_START : end]) != crc:
            return position, f"CRC of the batch at offset {base_offset} is wrong"
        is_next = base_offset <= expected <= base_offset + delta
        if contiguous and not is_next:
            return position, f"base offset {base_offset} where offset {expected} has to be"
        position, expected = end, base_offset + delta + 1
    return None
