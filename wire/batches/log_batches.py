"""Batches of a partition's log, in which messages of magic 0 and 1 may be, as frames and headers.

An entry of magic 0 or 1, a message or a wrapper of several, counts as a batch without epoch and
producer. Its base offset is given as its last one, since that of a wrapper is known only after
decompression. apache/kafka: clients/.../common/record/AbstractLegacyRecordBatch.java
"""

from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeVar

from wire.batches.batch import (
    CRC_START,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    BatchFrame,
    BatchHeader,
    iterate_frames,
    parse_batch_header,
)
from wire.batches.old_messages import (
    CODEC_MASK,
    KEY_POSITION,
    is_old_message,
    old_bytes_at,
    old_fields,
)
from wire.checksum import crc32c
from wire.errors import CorruptBatchError
from wire.primitives import Buffer
from wire.types import LeaderEpoch, Offset

NO_EPOCH: Final = LeaderEpoch(-1)
_MAGIC_POSITION: Final = 16


class Positioned(Protocol):
    """A batch of magic 2 in a buffer."""

    @property
    def end_position(self) -> int:
        """Position in the buffer behind it."""


New = TypeVar("New", bound=Positioned)
Old = TypeVar("Old")


def iterate_formats(
    buffer: Buffer,
    new: Callable[[memoryview, int], Iterator[New]],
    old: Callable[[memoryview, int], Old],
) -> Iterator[New | Old]:
    """The whole batches of a log of several formats; stops silently at one that is cut.

    Args:
        buffer: what is read.
        new: iterates over the batches of magic 2 from a position on, `iterate_frames` for example.
        old: makes a value of the bytes of an entry of magic 0 or 1, and of their position.

    Raises:
        CorruptBatchError: a length or magic is impossible.
    """
    view, position = memoryview(buffer), 0
    while True:
        try:
            for batch in new(view, position):
                yield batch
                position = batch.end_position
        except CorruptBatchError:
            if old_bytes_at(view, position) is None:
                raise
        else:
            return
        while (size_bytes := old_bytes_at(view, position)) is not None:
            end = position + size_bytes
            if end > len(view):
                return
            yield old(view[position:end], position)
            position = end


def iterate_log_frames(buffer: Buffer) -> Iterator[BatchFrame]:
    """The frames of the whole batches of a log; as `iterate_formats`."""
    return iterate_formats(buffer, iterate_frames, _old_frame)


def parse_log_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header of the batch at the position; the bytes after it are not checked.

    Raises:
        CorruptBatchError: too few bytes are left, or length or magic are impossible.
    """
    left = len(buffer) - position
    is_old = left > _MAGIC_POSITION and buffer[position + _MAGIC_POSITION] < MAGIC
    if not is_old or old_bytes_at(buffer, position) is None:
        return parse_batch_header(buffer, position)
    if left < KEY_POSITION[-1]:
        raise CorruptBatchError(f"message header at position {position} is cut")
    return _old_header(buffer, position)


def is_sound(view: memoryview, frame: BatchFrame) -> bool:
    """True if the checksum of the batch of a frame in the buffer is that of its bytes."""
    content = view[frame.position : frame.end_position]
    if content[_MAGIC_POSITION] < MAGIC:
        return is_old_message(content)
    return bool(crc32c(content[CRC_START:]) == frame.crc)


def _old_frame(content: memoryview, position: int) -> BatchFrame:
    offset, _, crc, _, _, timestamp_ms = old_fields(content)
    end = position + len(content)
    return BatchFrame(position, end, offset, offset, NO_EPOCH, crc, timestamp_ms)


def _old_header(buffer: Buffer, position: int) -> BatchHeader:
    offset, length, crc, magic, attributes, timestamp_ms = old_fields(buffer, position)
    kept = CODEC_MASK | LOG_APPEND_TIME_BIT if magic > 0 else CODEC_MASK
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
