"""Recognition of messages of magic 0 and 1, the formats before Kafka 0.11.

The metadata log never has them; in logs of records they are read (`wire.batches.log_batches`).

    INT64 offset, INT32 length of what follows, UINT32 CRC-32 of what follows, INT8 magic,
    INT8 attributes, [INT64 timestamp: magic 1], INT32 key length, key, INT32 value length, value

Offset, length and magic are at the positions of those of a batch, so a reader of batches finds
them. (apache/kafka: clients/.../common/record/LegacyRecord.java)
"""

import struct
import zlib
from typing import Final

from wire.primitives import Buffer

HOP_BYTES: Final = 17
"""Bytes up to and with the magic: enough to recognize the format."""
MAGIC_MAX: Final = 1
LENGTH_MIN: Final = 14
"""Length of CRC, magic, attributes, and the lengths of key and value, which may be null."""
_OVERHEAD_BYTES: Final = 12  # offset and length
_CHECKED_START: Final = 16  # the magic is the first byte that the checksum covers
_HOP: Final = struct.Struct(">8xiIb")


def is_old_format(length: int, magic: int) -> bool:
    """True if a message can have this length and magic."""
    return 0 <= magic <= MAGIC_MAX and length >= LENGTH_MIN


def old_format(magic: int) -> str:
    """The error text for a message of this magic."""
    return f"is of the old message format (magic {magic}, before Kafka 0.11), which is not read"


def old_message_bytes(start: Buffer) -> int | None:
    """The size of the message that may start here; None if none can. Needs `HOP_BYTES`."""
    assert len(start) >= HOP_BYTES, f"{len(start)=}"
    length, _, magic = _HOP.unpack_from(start)
    return _OVERHEAD_BYTES + int(length) if is_old_format(length, magic) else None


def is_old_message(content: Buffer) -> bool:
    """True if the bytes, exactly as many as their length field claims, have a valid checksum."""
    assert old_message_bytes(content) == len(content), f"{len(content)=}"
    _, crc, _ = _HOP.unpack_from(content)
    return zlib.crc32(memoryview(content)[_CHECKED_START:]) == int(crc)
