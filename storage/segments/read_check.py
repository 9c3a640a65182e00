"""Check that bytes read from a log are still those that were written.

A disk may change them silently: batches are checked before they are sent to a follower or applied,
as at start (storage/logs/recovery.py), and damage stops the node.
"""

import struct
from typing import Final

from wire.batches.batch import CRC_START, HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC, why_no_batch
from wire.batches.old_messages import is_old_format, is_old_message, old_bytes_at
from wire.checksum import crc32c

_unpack_begin: Final = struct.Struct(">qiibIhi").unpack_from  # base offset to last offset delta
_checksum: Final = crc32c
_LENGTH_MIN: Final = HEADER_BYTES - LOG_OVERHEAD_BYTES
assert struct.calcsize(">qiibI") == CRC_START, "the checksum covers what follows it"
assert struct.calcsize(">qiibIhi") <= HEADER_BYTES, "one header holds all that is looked at"


def first_damage(
    data: bytes | memoryview, offset: int, *, contiguous: bool, reads_old_formats: bool = False
) -> tuple[int, str] | None:
    """Position in `data` of the first damaged batch, and the damage; None if there is none.

    The leader epoch is not covered: it is before the checksum, as in Kafka.

    Args:
        data: whole batches, the first of which must hold `offset`.
        offset: first offset to be read.
        contiguous: False if offsets may be missing (a compacted log).
        reads_old_formats: True if messages of magic 0 and 1 may be among them.
    """
    assert offset >= 0, f"{offset=}"
    view, size = memoryview(data), len(data)
    position, expected = 0, offset
    while position < size:
        if reads_old_formats and (old_bytes := _sound_old_bytes(view, position)) > 0:
            position += old_bytes
            continue
        if size - position < HEADER_BYTES:
            return position, f"batch header is cut: {size - position} bytes are left"
        base_offset, length, _, magic, crc, _, delta = _unpack_begin(data, position)
        end = position + LOG_OVERHEAD_BYTES + length
        if magic != MAGIC or length < _LENGTH_MIN:
            is_read = reads_old_formats and is_old_format(length, magic)
            what = "is cut or has a wrong CRC" if is_read else why_no_batch(length, magic)
            return position, f"batch at offset {base_offset} {what}"
        if end > size:
            return position, f"no batch: length {length} where {size - position} bytes are left"
        if _checksum(view[position + CRC_START : end]) != crc:
            return position, f"CRC of the batch at offset {base_offset} is wrong"
        last_offset = base_offset + delta
        if contiguous and not base_offset <= expected <= last_offset:
            return position, f"base offset {base_offset} where offset {expected} has to be"
        position, expected = end, last_offset + 1
    return None


def _sound_old_bytes(view: memoryview, position: int) -> int:
    """Bytes of the message of magic 0 or 1 at the position; 0 if there is none with a valid CRC."""
    assert 0 <= position < len(view), f"{position=} {len(view)=}"
    size = old_bytes_at(view, position) or 0
    return size if is_old_message(view[position : position + size]) else 0
