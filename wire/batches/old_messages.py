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
LENGTH_MIN: Final = (14, 22)
"""By magic: CRC, magic, attributes, timestamp, and the lengths of key and value, which are null."""
NO_TIMESTAMP_MS: Final = -1
CODEC_MASK: Final = 0x07
_OVERHEAD_BYTES: Final = 12  # offset and length
_CHECKED_START: Final = 16  # the magic is the first byte that the checksum covers
_HOP: Final = struct.Struct(">8xiIb")
_FIELDS: Final = struct.Struct(">qiIbb")
_TIMESTAMP: Final = struct.Struct(">q")
assert _HOP.size == HOP_BYTES
KEY_POSITION: Final = (_FIELDS.size, _FIELDS.size + _TIMESTAMP.size)
"""By magic: where the length of the key is."""


def is_old_format(length: int, magic: int) -> bool:
    """True if a message can have this length and magic."""
    return 0 <= magic < len(LENGTH_MIN) and length >= LENGTH_MIN[magic]


def old_format(magic: int) -> str:
    """The error text for a message of this magic."""
    return f"is of the old message format (magic {magic}, before Kafka 0.11), which is not read"


def old_bytes_at(buffer: Buffer, position: int = 0) -> int | None:
    """The size of the message that may start at the position; None if none can, or too few bytes.

    `HOP_BYTES` are enough; the message itself may be cut.
    """
    if len(buffer) - position < HOP_BYTES:
        return None
    length, _, magic = _HOP.unpack_from(buffer, position)
    return _OVERHEAD_BYTES + int(length) if is_old_format(length, magic) else None


def is_old_message(content: Buffer) -> bool:
    """True if these are exactly the bytes of a message, and its checksum is valid."""
    if old_bytes_at(content) != len(content):
        return False
    _, crc, _ = _HOP.unpack_from(content)
    return zlib.crc32(memoryview(content)[_CHECKED_START:]) == int(crc)


def old_fields(buffer: Buffer, position: int = 0) -> tuple[int, int, int, int, int, int]:
    """Offset, length, CRC, magic, attributes and timestamp of the message at a position.

    Needs the bytes before the key; the timestamp is -1 in magic 0.
    """
    offset, length, crc, magic, attributes = _FIELDS.unpack_from(buffer, position)
    timestamp_ms = NO_TIMESTAMP_MS
    if magic > 0:
        (timestamp_ms,) = _TIMESTAMP.unpack_from(buffer, position + _FIELDS.size)
    return offset, length, crc, magic, attributes, timestamp_ms
