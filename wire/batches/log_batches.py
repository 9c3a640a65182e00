"""Batches of a partition's log, in which messages of magic 0 and 1 may be, as frames and headers.

An entry of magic 0 or 1, a message or a wrapper of several, counts as a batch without epoch and
producer. Its base offset is given as its last one, since that of a wrapper is known only after
decompression. apache/kafka: clients/.../common/record/AbstractLegacyRecordBatch.java
"""

import struct
from collections.abc import Iterator
from typing import Final

import crc32c

from wire.batches.batch import (
    CRC_START,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    BatchFrame,
    BatchHeader,
    iterate_frames,
    parse_batch_header,
)
from wire.batches.old_messages import HOP_BYTES, is_old_message, old_message_bytes
from wire.errors import CorruptBatchError
from wire.primitives import Buffer
from wire.types import LeaderEpoch, Offset

NO_EPOCH: Final = LeaderEpoch(-1)
NO_TIMESTAMP_MS: Final = -1
OLD_HEADER_BYTES: Final = 26
"""Bytes up to and with the timestamp of magic 1."""
_MAGIC_POSITION: Final = 16
_START: Final = struct.Struct(">qiIbb")  # offset, length, CRC, magic, attributes
_TIMESTAMP: Final = struct.Struct(">q")
_CODEC_MASK: Final = 0x07
_SIZE_MIN: Final = (26, 34)
"""Bytes of a message with null key and null value, by its magic."""
assert _START.size + _TIMESTAMP.size == OLD_HEADER_BYTES


def iterate_log_frames(buffer: Buffer) -> Iterator[BatchFrame]:
    """The frames of the whole batches of a log; stops silently at one that is cut.

    Raises:
        CorruptBatchError: a length or magic is impossible.
    """
    view, position = memoryview(buffer), 0
    while True:
        try:
            for frame in iterate_frames(view, position):
                position = frame.end_position
                yield frame
        except CorruptBatchError:
            if not _is_old(view, position):
                raise
        else:
            return
        while _is_old(view, position):
            if len(view) - position < OLD_HEADER_BYTES:
                return
            header = _old_header(view, position)
            end = position + header.size_bytes
            if end > len(view):
                return
            offset, timestamp_ms = header.base_offset, header.max_timestamp_ms
            yield BatchFrame(position, end, offset, offset, NO_EPOCH, header.crc, timestamp_ms)
            position = end


def parse_log_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header of the batch at the position; the bytes after it are not checked.

    Raises:
        CorruptBatchError: too few bytes are left, or length or magic are impossible.
    """
    if len(buffer) - position >= HOP_BYTES and buffer[position + _MAGIC_POSITION] < MAGIC:
        view = memoryview(buffer)
        if _is_old(view, position):
            return _old_header(view, position)
    return parse_batch_header(buffer, position)


def is_sound(view: memoryview, frame: BatchFrame) -> bool:
    """True if the checksum of the batch of a frame in the buffer is that of its bytes."""
    content = view[frame.position : frame.end_position]
    if content[_MAGIC_POSITION] < MAGIC:
        return is_old_message(content)
    return bool(crc32c.crc32c(content[CRC_START:]) == frame.crc)


def _is_old(view: memoryview, position: int) -> bool:
    start = view[position : position + HOP_BYTES]
    return len(start) == HOP_BYTES and old_message_bytes(start) is not None


def _old_header(view: memoryview, position: int) -> BatchHeader:
    """The header at a position where a message of magic 0 or 1 can start."""
    size_bytes = old_message_bytes(view[position : position + HOP_BYTES])
    magic = view[position + _MAGIC_POSITION]
    assert size_bytes is not None, f"{position=}"
    if size_bytes < _SIZE_MIN[magic]:
        raise CorruptBatchError(f"message at position {position} cannot be {size_bytes} bytes long")
    if len(view) - position < OLD_HEADER_BYTES:
        raise CorruptBatchError(f"message header at position {position} is cut")
    offset, length, crc, _, attributes = _START.unpack_from(view, position)
    timestamp_ms, kept = NO_TIMESTAMP_MS, _CODEC_MASK
    if magic > 0:
        (timestamp_ms,) = _TIMESTAMP.unpack_from(view, position + _START.size)
        kept |= LOG_APPEND_TIME_BIT
    return BatchHeader(
        base_offset=Offset(offset),
        batch_length=length,
        leader_epoch=NO_EPOCH,
        magic=magic,
        crc=crc,
        attributes=attributes & kept,
        last_offset_delta=0,
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        records_count=1,
    )
