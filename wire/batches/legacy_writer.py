"""Wrappers of magic 0 and 1 with fewer messages inside: what a cleaner leaves of a compressed one.

Nothing else writes these formats. The layout is in wire/batches/old_messages.py. Kafka writes a
wrapper as it does here: inner offsets count from the first message that is left (magic 1), the
wrapper has the offset of the last one and the largest timestamp.

apache/kafka: clients/.../common/record/{MemoryRecordsBuilder,LegacyRecord}.java
"""

import struct
import zlib
from collections.abc import Sequence
from typing import Final

from wire.batches.compression import Codec, compress
from wire.batches.legacy_batch import LegacyBatch, LegacyRecord
from wire.batches.lz4_header import with_old_checksum

_HEAD: Final = struct.Struct(">qiI")  # offset, length, CRC
_PREFIX: Final = (struct.Struct(">bb"), struct.Struct(">bbq"))  # magic, attributes, timestamp
_LENGTH: Final = struct.Struct(">i")
_NULL: Final = _LENGTH.pack(-1)
_CRC_BYTES: Final = 4
_TIME_TYPE_BIT: Final = 0x08


def encode_wrapper(wrapper: LegacyBatch, kept: Sequence[LegacyRecord]) -> bytes:
    """The wrapper with these of its messages alone, in order; compressed with its codec.

    Raises:
        CorruptBatchError: the codec of the wrapper is unknown.
    """
    assert kept, "a wrapper without messages cannot be written"
    assert wrapper.codec is not Codec.NONE, "a single message is kept or dropped as a whole"
    magic = wrapper.magic
    base_offset = kept[0].offset if magic > 0 else 0
    time_type = wrapper.attributes & _TIME_TYPE_BIT if magic > 0 else 0
    inner = b"".join(
        _message(
            record.offset - base_offset,
            _fields(magic, time_type, record.timestamp_ms),
            _nullable(record.key),
            _nullable(record.value),
        )
        for record in kept
    )
    compressed = compress(wrapper.codec, inner)
    if magic == 0 and wrapper.codec is Codec.LZ4:
        compressed = with_old_checksum(compressed)
    newest_ms = wrapper.timestamp_ms if time_type else max(each.timestamp_ms for each in kept)
    fields = _fields(magic, time_type | wrapper.codec, newest_ms)
    return _message(kept[-1].offset, fields, _NULL, _nullable(compressed))


def _fields(magic: int, attributes: int, timestamp_ms: int) -> bytes:
    if magic == 0:
        return _PREFIX[0].pack(magic, attributes)
    return _PREFIX[1].pack(magic, attributes, timestamp_ms)


def _message(offset: int, *parts: bytes) -> bytes:
    checked = b"".join(parts)
    return _HEAD.pack(offset, _CRC_BYTES + len(checked), zlib.crc32(checked)) + checked


def _nullable(content: bytes | None) -> bytes:
    return _NULL if content is None else _LENGTH.pack(len(content)) + content
