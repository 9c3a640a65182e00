"""Record batches of format version 2 ("magic 2"): the unit of the log and of replication.

A batch is a header of 61 bytes and its records, plain or as one compressed blob. The CRC-32C covers
everything from the attributes on, so that base offset and leader epoch can be stamped in place.
Offsets inside are deltas to the base offset; a batch owns the offsets up to its last delta even if
compaction removed records. apache/kafka: clients/.../common/record/DefaultRecordBatch.java
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from wire.batches.compression import Codec, compress, decompress
from wire.batches.old_messages import is_old_format, old_format
from wire.batches.records import RecordReader, RecordView, encode_record, encode_section
from wire.checksum import crc32c
from wire.errors import CorruptBatchError
from wire.primitives import Buffer, encode_varint
from wire.types import LeaderEpoch, Offset

__all__ = [
    "CODEC_MASK",
    "CONTROL_BIT",
    "CRC_START",
    "HEADER_BYTES",
    "HEADER_FORMAT",
    "LOG_APPEND_TIME_BIT",
    "LOG_OVERHEAD_BYTES",
    "MAGIC",
    "Batch",
    "BatchFrame",
    "BatchHeader",
    "RecordView",
    "encode_batch",
    "encode_control_batch",
    "encode_records",
    "iterate_batches",
    "iterate_frames",
    "parse_batch_header",
    "why_no_batch",
    "with_header",
]

HEADER_BYTES: Final = 61
LOG_OVERHEAD_BYTES: Final = 12  # base offset and batch length, not counted by the length
CRC_START: Final = 21  # first byte that the checksum covers
MAGIC: Final = 2

HEADER_FORMAT: Final = ">qiibIhiqqqhii"  # the fields of BatchHeader in order

_HEADER: Final = struct.Struct(HEADER_FORMAT)
_CHECKED_HEADER: Final = struct.Struct(">hiqqqhii")
_UNCHECKED_HEADER: Final = struct.Struct(">qiibI")
_SIZE: Final = struct.Struct(">qi")
_FRAME: Final = struct.Struct(">qiiBIhiqq")  # base offset to max timestamp
_MAGIC_POSITION: Final = 16
_INT32_MAX: Final = (1 << 31) - 1

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40


_CODECS: Final = tuple(Codec)
"""Codecs by the compression bits of the attributes."""


class BatchHeader(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The 61 bytes before the records, named as in Kafka; producer fields are -1 for none."""

    base_offset: Offset
    batch_length: int = 0
    leader_epoch: LeaderEpoch
    magic: int = MAGIC
    crc: int = 0
    attributes: int = 0
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    records_count: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole batch."""
        return LOG_OVERHEAD_BYTES + self.batch_length

    @property
    def last_offset(self) -> Offset:
        """Offset of the last record, also when compaction removed it."""
        return Offset(self.base_offset + self.last_offset_delta)

    @property
    def end_offset(self) -> Offset:
        """First offset after the batch."""
        return Offset(self.base_offset + self.last_offset_delta + 1)

    @property
    def is_control(self) -> bool:
        """True if the records are control records, hidden from applications."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def is_transactional(self) -> bool:
        """True if the batch belongs to a producer's transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_log_append_time(self) -> bool:
        """True if the broker's time (max timestamp) replaces that of every record."""
        return bool(self.attributes & LOG_APPEND_TIME_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time from which tombstones of this cleaned batch may be removed; None without one."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def codec(self) -> Codec:
        """The compression codec of the records.

        Raises:
            CorruptBatchError: the bits name no codec.
        """
        bits = self.attributes & CODEC_MASK
        if bits >= len(_CODECS):
            raise CorruptBatchError(f"batch at offset {self.base_offset}: codec {bits} is unknown")
        return _CODECS[bits]

    @property
    def last_sequence(self) -> int:
        """Producer sequence of the last record; wraps from 2^31-1 to 0; -1 for none."""
        if self.base_sequence == -1:
            return -1
        return (self.base_sequence + self.last_offset_delta) & _INT32_MAX


class Batch(msgspec.Struct, frozen=True, gc=False):
    """One whole batch inside a buffer: its header, its bytes, and their position in the buffer."""

    header: BatchHeader
    buffer: memoryview
    position: int

    @property
    def end_position(self) -> int:
        """Position in the buffer behind it."""
        return self.position + len(self.buffer)

    @property
    def crc_is_valid(self) -> bool:
        """True if the checksum in the header is that of the bytes."""
        return bool(crc32c(self.buffer[CRC_START:]) == self.header.crc)

    def records(self) -> list[RecordView]:
        """The records, decompressed.

        Raises:
            CorruptBatchError: the records do not fill their section exactly.
        """
        return RecordReader(self.header, self.section()).rest()

    def frame(self) -> "BatchFrame":
        """Its frame at the begin of a buffer."""
        header = self.header
        return BatchFrame(
            0,
            header.size_bytes,
            header.base_offset,
            header.last_offset,
            header.leader_epoch,
            header.crc,
            header.max_timestamp_ms,
        )

    def section(self) -> bytes:
        """The records as bytes, decompressed.

        Raises:
            CorruptBatchError: they are no stream of the codec, or unfold to too much.
        """
        codec = self.header.codec
        section = bytes(self.buffer[HEADER_BYTES:])
        return section if codec is Codec.NONE else decompress(codec, section)


def encode_batch(
    values: Sequence[bytes], base_offset: int, leader_epoch: int, timestamp_ms: int
) -> bytes:
    """A data batch as KRaft writes it: null keys, one timestamp, no compression."""
    assert values
    parts = []
    for delta, value in enumerate(values):
        value_length = encode_varint(len(value))
        offset_delta = encode_varint(delta)
        # attributes, timestamp delta, key length and header count take one byte each
        length = encode_varint(4 + len(offset_delta) + len(value_length) + len(value))
        parts.append(b"%b\0\0%b\1%b%b\0" % (length, offset_delta, value_length, value))
    section = b"".join(parts)
    return _assemble(section, len(values), 0, base_offset, leader_epoch, timestamp_ms)


def encode_control_batch(
    records: Sequence[tuple[int, bytes]], base_offset: int, leader_epoch: int, timestamp_ms: int
) -> bytes:
    """A KRaft control batch of (control record type, value) pairs."""
    assert records
    section = b"".join(
        encode_record(0, delta, struct.pack(">hh", 0, kind), value, ())
        for delta, (kind, value) in enumerate(records)
    )
    return _assemble(section, len(records), CONTROL_BIT, base_offset, leader_epoch, timestamp_ms)


def encode_records(
    header: BatchHeader, records: Sequence[RecordView], level: int | None = None
) -> bytes:
    """A batch with the fields of the header, of which length, CRC and record count are computed.

    The level is that of the codec, None for its default.
    """
    section = encode_section(header, records)
    return with_header(
        header, compress(header.codec, section, level) if records else b"", len(records)
    )


def with_header(header: BatchHeader, compressed: bytes, records_count: int) -> bytes:
    """A batch of records that are compressed; as `encode_records`."""
    checked = (
        _CHECKED_HEADER.pack(
            header.attributes,
            header.last_offset_delta,
            header.base_timestamp_ms,
            header.max_timestamp_ms,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            records_count,
        )
        + compressed
    )
    return _with_unchecked_header(checked, header.base_offset, header.leader_epoch)


def parse_batch_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at the position; the bytes after it are not checked.

    Raises:
        CorruptBatchError: fewer than 61 bytes are left, or length or magic are impossible.
    """
    if len(buffer) - position < HEADER_BYTES:
        if len(buffer) - position > _MAGIC_POSITION:
            next(iterate_batches(buffer, position), None)  # may raise a more exact error
        raise CorruptBatchError(
            f"batch header at position {position} is cut: {len(buffer) - position} bytes"
        )
    header = _header(_HEADER.unpack_from(buffer, position))
    if header.batch_length < _LENGTH_MIN or header.magic != MAGIC:
        raise _impossible(header.base_offset, header.batch_length, header.magic, position)
    return header


def _header(fields: tuple[Any, ...]) -> BatchHeader:
    (
        base_offset, batch_length, leader_epoch, magic, crc, attributes, last_offset_delta,
        base_timestamp_ms, max_timestamp_ms, producer_id, producer_epoch, base_sequence, count,
    ) = fields  # fmt: skip
    return BatchHeader(
        base_offset=base_offset,
        batch_length=batch_length,
        leader_epoch=leader_epoch,
        magic=magic,
        crc=crc,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max_timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=count,
    )


def iterate_batches(buffer: Buffer, position: int = 0) -> Iterator[Batch]:
    """The whole batches from a position on, in order; stops silently at a batch that is cut.

    The checksum is not verified: readers check `Batch.crc_is_valid`.

    Raises:
        CorruptBatchError: a length or magic is impossible.
    """
    view = memoryview(buffer)
    size = len(view)
    while size - position > _MAGIC_POSITION:
        base_offset, length = _SIZE.unpack_from(view, position)
        magic = view[position + _MAGIC_POSITION]
        if length < _LENGTH_MIN or magic != MAGIC:
            raise _impossible(base_offset, length, magic, position)
        end = position + LOG_OVERHEAD_BYTES + length
        if end > size:
            return
        yield Batch(_header(_HEADER.unpack_from(view, position)), view[position:end], position)
        position = end


class BatchFrame(msgspec.Struct, frozen=True, gc=False):
    """Position of a batch in a buffer, and the fields of its header that a log needs.

    [`position`, `end_position`) in bytes; `last_offset` is inclusive; timestamp in ms, -1 = none.
    """

    position: int
    end_position: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    max_timestamp_ms: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.end_position - self.position


def iterate_frames(buffer: Buffer, position: int = 0) -> Iterator[BatchFrame]:
    """The frames of the batches of `iterate_batches`, with its errors, at a lower cost.

    Raises:
        CorruptBatchError: a length or magic is impossible.
    """
    size, unpack = len(buffer), _FRAME.unpack_from
    while size - position >= HEADER_BYTES:
        base_offset, length, epoch, magic, crc, _, delta, _, newest_ms = unpack(buffer, position)
        if length < _LENGTH_MIN or magic != MAGIC:
            raise _impossible(base_offset, length, magic, position)
        end = position + LOG_OVERHEAD_BYTES + length
        if end > size:
            return
        yield BatchFrame(position, end, base_offset, base_offset + delta, epoch, crc, newest_ms)
        position = end
    if position < size:
        cut = next(iterate_batches(buffer, position), None)
        assert cut is None, f"{position=} {size=}"


_LENGTH_MIN: Final = HEADER_BYTES - LOG_OVERHEAD_BYTES


def _impossible(base_offset: int, length: int, magic: int, position: int) -> CorruptBatchError:
    what = why_no_batch(length, magic)
    return CorruptBatchError(f"batch at position {position} (offset {base_offset}) {what}")


def why_no_batch(length: int, magic: int) -> str:
    """The fault of a header with this length or magic; the old format is recognized first."""
    if is_old_format(length, magic):
        return old_format(magic)
    if length < _LENGTH_MIN:
        return f"cannot be {length} bytes long"
    return f"has magic {magic}, not {MAGIC}"


def _assemble(
    section: bytes,
    count: int,
    attributes: int,
    base_offset: int,
    leader_epoch: int,
    timestamp_ms: int,
) -> bytes:
    """A batch without producer whose records all carry one timestamp."""
    checked = _CHECKED_HEADER.pack(
        attributes, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count
    )
    return _with_unchecked_header(checked + section, base_offset, leader_epoch)


def _with_unchecked_header(checked: bytes, base_offset: int, leader_epoch: int) -> bytes:
    length = CRC_START - LOG_OVERHEAD_BYTES + len(checked)
    crc = crc32c(checked)
    return _UNCHECKED_HEADER.pack(base_offset, length, leader_epoch, MAGIC, crc) + checked
