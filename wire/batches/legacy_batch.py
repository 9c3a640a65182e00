"""Message sets of magic 0 and 1, read only: the formats of logs and producers before Kafka 0.11.

An entry is a message with its offset (wire/batches/old_messages.py has the layout). A compressed
entry is a wrapper: null key, the value a compressed message set whose last message has the
wrapper's offset. Inner offsets are absolute in magic 0 and count from 0 in magic 1. Kafka 4 writes
neither and reads both (KIP-724). apache/kafka:
clients/.../record/{LegacyRecord,AbstractLegacyRecordBatch}.java
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Final

import msgspec

from wire.batches.batch import Batch, iterate_batches
from wire.batches.compression import Codec, decompress
from wire.batches.log_batches import iterate_formats
from wire.batches.lz4_header import with_standard_checksum
from wire.batches.old_messages import CODEC_MASK, KEY_POSITION, old_bytes_at, old_fields
from wire.errors import CorruptBatchError
from wire.primitives import Buffer
from wire.types import Offset

_LOG_APPEND_TIME_BIT: Final = 0x08
_CHECKED_START: Final = 16
_LENGTH: Final = struct.Struct(">i")
_CODECS: Final = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
"""By the compression bits; zstd came with magic 2."""


class LegacyRecord(msgspec.Struct, frozen=True, gc=False):
    """A message with its absolute offset and time; key or value None is Kafka's null."""

    offset: Offset
    timestamp_ms: int
    """-1 in magic 0."""
    key: bytes | None
    value: bytes | None
    crc: int
    crc_is_valid: bool


class LegacyBatch(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An entry of a message set: a message, or a wrapper of several."""

    last_offset: Offset
    """The offset in the entry: of the message, or of the last one inside."""
    magic: int
    crc: int
    attributes: int
    timestamp_ms: int
    """-1 in magic 0; of a wrapper the largest inside, or the time of the append."""
    buffer: memoryview
    """The whole entry."""
    position: int
    """Of the entry in what it was read from."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole entry."""
        return len(self.buffer)

    @property
    def crc_is_valid(self) -> bool:
        """True if the checksum (CRC-32) is that of the bytes behind it."""
        return zlib.crc32(self.buffer[_CHECKED_START:]) == self.crc

    @property
    def codec(self) -> Codec:
        """The compression codec of a wrapper.

        Raises:
            CorruptBatchError: the bits name no codec of this format.
        """
        bits = self.attributes & CODEC_MASK
        if bits >= len(_CODECS):
            raise CorruptBatchError(
                f"message at offset {self.last_offset}: codec {bits} is unknown"
            )
        return _CODECS[bits]

    @property
    def timestamp_type(self) -> str:
        """Kafka's word for the kind of the timestamps."""
        if self.magic == 0:
            return "NoTimestampType"
        is_append_time = self.attributes & _LOG_APPEND_TIME_BIT
        return "LogAppendTime" if is_append_time else "CreateTime"

    def records(self) -> list[LegacyRecord]:
        """The message, or the messages of the wrapper, decompressed.

        Raises:
            CorruptBatchError: the wrapper is empty or not what its codec says, its messages are
                cut, compressed again or of another magic, or their offsets do not fit.
        """
        key, value = _key_and_value(self)
        if self.codec is Codec.NONE:
            return [_record(self, self.last_offset, self.timestamp_ms, key, value)]
        if not value:
            raise self._unfit("is compressed and empty")
        if self.magic == 0 and self.codec is Codec.LZ4:
            value = with_standard_checksum(value)
        return self._inner(list(_entries(decompress(self.codec, value))))

    def _inner(self, entries: list["LegacyBatch"]) -> list[LegacyRecord]:
        if not entries:
            raise self._unfit("is compressed and has no message inside")
        base_offset = self._base_of(entries[-1].last_offset)
        is_append_time = self.magic > 0 and self.attributes & _LOG_APPEND_TIME_BIT
        records = []
        for entry in entries:
            if entry.magic != self.magic:
                raise self._unfit(f"of magic {self.magic} has one of magic {entry.magic} inside")
            if entry.codec is not Codec.NONE:
                raise self._unfit("has a compressed message inside")
            offset = Offset(base_offset + entry.last_offset)
            timestamp_ms = self.timestamp_ms if is_append_time else entry.timestamp_ms
            records.append(_record(entry, offset, timestamp_ms, *_key_and_value(entry)))
        return records

    def _base_of(self, last_inner_offset: int) -> int:
        """The offset that inner ones count from; 0 in magic 0, whose inner ones are absolute."""
        if self.magic == 0 or self.last_offset == 0:  # 0: an old producer left it out
            return 0
        base_offset = self.last_offset - last_inner_offset
        if base_offset < 0:
            raise self._unfit(f"has messages up to relative offset {last_inner_offset} inside")
        return base_offset

    def _unfit(self, what: str) -> CorruptBatchError:
        return CorruptBatchError(f"message at offset {self.last_offset} {what}")


def iterate_any(buffer: Buffer) -> Iterator[Batch | LegacyBatch]:
    """Batches and entries of a log whose format was raised; stops silently at one that is cut.

    The checksums are not verified.

    Raises:
        CorruptBatchError: a length or magic is impossible.
    """
    return iterate_formats(buffer, iterate_batches, _entry)


def _entries(section: bytes) -> Iterator[LegacyBatch]:
    """The messages inside a wrapper, which has to hold whole ones."""
    view, position = memoryview(section), 0
    while position < len(view):
        size_bytes = old_bytes_at(view, position)
        if size_bytes is None or position + size_bytes > len(view):
            raise CorruptBatchError(f"no whole message at position {position} of a wrapper")
        yield _entry(view[position : position + size_bytes], position)
        position += size_bytes


def _entry(content: memoryview, position: int) -> LegacyBatch:
    offset, _, crc, magic, attributes, timestamp_ms = old_fields(content)
    return LegacyBatch(
        last_offset=Offset(offset),
        magic=magic,
        crc=crc,
        attributes=attributes,
        timestamp_ms=timestamp_ms,
        buffer=content,
        position=position,
    )


def _key_and_value(entry: LegacyBatch) -> tuple[bytes | None, bytes | None]:
    key, position = _nullable(entry, KEY_POSITION[entry.magic])
    value, position = _nullable(entry, position)
    if position != entry.size_bytes:
        left = entry.size_bytes - position
        raise CorruptBatchError(f"message at offset {entry.last_offset} has {left} bytes left over")
    return key, value


def _nullable(entry: LegacyBatch, position: int) -> tuple[bytes | None, int]:
    start = position + _LENGTH.size
    if start > entry.size_bytes:
        raise CorruptBatchError(f"message at offset {entry.last_offset} ends inside a length")
    (length,) = _LENGTH.unpack_from(entry.buffer, position)
    if length == -1:
        return None, start
    if length < 0 or start + length > entry.size_bytes:
        raise CorruptBatchError(
            f"message at offset {entry.last_offset}: a field of {length} bytes does not fit"
        )
    return bytes(entry.buffer[start : start + length]), start + length


def _record(
    entry: LegacyBatch,
    offset: Offset,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
) -> LegacyRecord:
    return LegacyRecord(offset, timestamp_ms, key, value, entry.crc, entry.crc_is_valid)
