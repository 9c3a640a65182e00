"""The records of a batch: its section behind the header, read and written in slices.

Each record has its length, attributes, the deltas of its timestamp and offset to those of the
batch, a key, a value and headers. apache/kafka: clients/.../common/record/DefaultRecord.java
"""

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from wire.errors import CorruptBatchError
from wire.primitives import SMALL_VARINTS, encode_varint, encode_varlong, read_varint, read_varlong
from wire.types import Offset

if TYPE_CHECKING:
    from wire.batches.batch import BatchHeader

_PLAIN_MAX: Final = 4096
"""Number of records of a batch that may be read as plain ones: the size of `_PLAIN_BEGINS`."""
_PLAIN_BEGINS: Final = tuple(b"\0\0%b\1" % encode_varint(delta) for delta in range(_PLAIN_MAX))
"""Start of a plain record by its delta: attributes, timestamp delta 0, offset delta, no key."""
_PLAIN_BYTES_MAX: Final = 11
"""Bound of a plain record's bytes up to its value; only at the last records fewer are left."""
_KEYED_BYTES_MAX: Final = 8
"""Bound of a record's bytes up to its key, if its lengths and its delta have two at most."""
_NOT_ONE_BYTE: Final = 1 | 1 << 7
"""Bits of a length's first byte: negative, or not the last byte."""
_NOT_SHORT: Final = 1 | 1 << 14
"""Bits of a length that is negative or has three bytes."""


class RecordView(msgspec.Struct, frozen=True, gc=False):
    """One record with its absolute offset and time; key or value None is Kafka's null."""

    offset: Offset
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class RecordReader:
    """The records of a section, in order.

    Args:
        header: of their batch.
        section: plain.
    """

    __slots__ = ("_header", "_number", "_position", "_section")

    def __init__(self, header: "BatchHeader", section: bytes) -> None:
        self._header = header
        self._section = section
        self._position = 0
        self._number = 0
        """Records before the position."""

    @property
    def is_at_end(self) -> bool:
        """True behind the last record."""
        return self._number >= self._header.records_count

    def rest(self) -> list[RecordView]:
        """All records that are left; as `take`."""
        return self.take(self._header.records_count, len(self._section) + 1)

    def take(self, count_max: int, bytes_max: int) -> list[RecordView]:
        """The next records.

        Args:
            count_max: of them.
            bytes_max: behind which no record begins, unless all are plain.

        Raises:
            CorruptBatchError: one cannot be read, or something is behind the last.
        """
        header, section, stop = self._header, self._section, self._position + bytes_max
        first, end = self._number, min(self._number + count_max, header.records_count)
        records, position = _read_plain_records(header, section, self._position, first, end)
        try:
            while True:
                count = end - first - len(records)
                position = _read_keyed_records(header, section, position, records, count, stop)
                if first + len(records) == end or position >= stop:
                    break
                length, start = read_varint(section, position)
                position = start + length
                if length < 0 or position > len(section):
                    raise CorruptBatchError(f"record of {length} bytes does not fit into its batch")
                records.append(_read_record(header, section, start, position))
        except (IndexError, ValueError, struct.error) as error:
            raise CorruptBatchError(
                f"records of the batch at offset {header.base_offset} cannot be read: {error}"
            ) from error
        self._position, self._number = position, first + len(records)
        if self.is_at_end and position != len(section):
            raise CorruptBatchError(
                f"batch at offset {header.base_offset}: {len(section) - position} bytes after"
                f" its {header.records_count} records"
            )
        return records


def encode_section(header: "BatchHeader", records: Sequence[RecordView]) -> bytes:
    """Records, or some that follow one another, as they are in a batch with this header."""
    base_timestamp_ms, base_offset = header.base_timestamp_ms, header.base_offset
    has_times = not header.is_log_append_time
    return b"".join(
        [
            encode_record(
                record.timestamp_ms - base_timestamp_ms if has_times else 0,
                record.offset - base_offset,
                record.key,
                record.value,
                record.headers,
            )
            for record in records
        ]
    )


def encode_record(
    timestamp_delta_ms: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
) -> bytes:
    """One record with its length."""
    assert offset_delta >= 0
    if not (timestamp_delta_ms or headers or key is None or value is None):
        small = SMALL_VARINTS
        try:
            delta, key_size, value_size = small[offset_delta], small[len(key)], small[len(value)]
            body = b"\0\0%b%b%b%b%b\0" % (delta, key_size, key, value_size, value)
            return small[len(body)] + body
        except IndexError:
            pass  # a number of three bytes
    body = b"".join(
        (
            b"\0",
            encode_varlong(timestamp_delta_ms),
            encode_varint(offset_delta),
            _nullable(key),
            _nullable(value),
            encode_varint(len(headers)),
            *(_nullable(name.encode()) + _nullable(content) for name, content in headers),
        )
    )
    return encode_varint(len(body)) + body


def _nullable(content: bytes | None) -> bytes:
    return b"\1" if content is None else encode_varint(len(content)) + content


def _read_plain_records(
    header: "BatchHeader", section: bytes, position: int, first: int, end: int
) -> tuple[list[RecordView], int]:
    """Records from number `first` to `end` while they have the form that KRaft writes.

    With the position behind them. The form: consecutive offsets, one timestamp, no key, no header,
    lengths of one or two bytes. It costs a third of `_read_record`; the first record of another
    form ends it.
    """
    records: list[RecordView] = []
    base_offset, size = header.base_offset, len(section)
    is_append_time = header.is_log_append_time
    timestamp_ms = header.max_timestamp_ms if is_append_time else header.base_timestamp_ms
    for delta in range(first, min(end, _PLAIN_MAX)):
        if position + _PLAIN_BYTES_MAX > size:
            break
        length, start = section[position], position + 1
        if length > 0x7F:
            length, start = length & 0x7F | section[start] << 7, start + 1
        begin = _PLAIN_BEGINS[delta]
        at = start + len(begin)
        value_length, value_start = section[at], at + 1
        if value_length > 0x7F:
            value_length, value_start = value_length & 0x7F | section[value_start] << 7, at + 2
        end = start + (length >> 1)
        last = value_start + (value_length >> 1)
        is_plain = (length | value_length) & _NOT_SHORT == 0 and section.startswith(begin, start)
        if not is_plain or last + 1 != end or end > size or section[last]:
            break
        value = section[value_start:last]
        records.append(RecordView(Offset(base_offset + delta), timestamp_ms, None, value, ()))
        position = end
    return records, position


def _read_keyed_records(
    header: "BatchHeader",
    section: bytes,
    position: int,
    records: list[RecordView],
    count_max: int,
    stop: int,
) -> int:
    """Read records while they have the form that coordinators write; the position behind them.

    The form: the first timestamp, a key and a value, no header, lengths and offset delta of one or
    two bytes. It costs a third of `_read_record`.
    """
    base_offset, size = header.base_offset, len(section)
    is_append_time = header.is_log_append_time
    timestamp_ms = header.max_timestamp_ms if is_append_time else header.base_timestamp_ms
    for _ in range(count_max):
        if position >= stop or position + _KEYED_BYTES_MAX > size:
            break
        length, start = section[position], position + 1
        if length > 0x7F:
            length, start = length & 0x7F | section[start] << 7, start + 1
        delta, at = section[start + 2], start + 3
        if delta > 0x7F:
            delta, at = delta & 0x7F | section[at] << 7, at + 1
        key_length, key_start = section[at], at + 1
        if key_length > 0x7F:
            key_length, key_start = key_length & 0x7F | section[key_start] << 7, at + 2
        end, at = start + (length >> 1), key_start + (key_length >> 1)
        if (length | delta | key_length) & _NOT_SHORT or section[start + 1]:
            break
        if at + 2 > end or end > size:
            break
        value_length, value_start = section[at], at + 1
        if value_length > 0x7F:
            value_length, value_start = value_length & 0x7F | section[value_start] << 7, at + 2
        last = value_start + (value_length >> 1)
        if value_length & _NOT_SHORT or last + 1 != end or section[last]:
            break
        key, value = section[key_start:at], section[value_start:last]
        records.append(RecordView(Offset(base_offset + (delta >> 1)), timestamp_ms, key, value, ()))
        position = end
    return position


def _read_record(header: "BatchHeader", section: bytes, position: int, end: int) -> RecordView:
    """Read one record between two positions of the section, its length excluded."""
    timestamp_delta_ms, position = read_varlong(section, position + 1)  # after the attributes
    offset_delta, position = read_varint(section, position)
    key, position = _read_nullable(section, position, end)
    value, position = _read_nullable(section, position, end)
    headers_count, position = read_varint(section, position)
    if headers_count < 0 or headers_count > end - position:
        raise CorruptBatchError(f"record claims {headers_count} headers")
    headers: tuple[tuple[str, bytes | None], ...] = ()
    if headers_count:
        pairs = []
        for _ in range(headers_count):
            name, position = _read_nullable(section, position, end)
            content, position = _read_nullable(section, position, end)
            if name is None:
                raise CorruptBatchError("record header without a name")
            pairs.append((name.decode(), content))
        headers = tuple(pairs)
    if position != end:
        raise CorruptBatchError(f"record ends at {position}, its length says {end}")
    timestamp_ms = (
        header.max_timestamp_ms
        if header.is_log_append_time
        else header.base_timestamp_ms + timestamp_delta_ms
    )
    return RecordView(Offset(header.base_offset + offset_delta), timestamp_ms, key, value, headers)


def _read_nullable(section: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length = section[position]
    if length & _NOT_ONE_BYTE:
        length, position = read_varint(section, position)
        if length == -1:
            return None, position
    else:
        length, position = length >> 1, position + 1
    if length < 0 or position + length > end:
        raise CorruptBatchError(f"field of {length} bytes does not fit into its record")
    return section[position : position + length], position + length
