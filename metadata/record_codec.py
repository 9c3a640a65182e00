"""Metadata records from and to bytes, framed as Kafka frames them.

    value := frame version  unsigned varint, always 1
             api key        unsigned varint
             version        unsigned varint
             body           flexible encoding of that version

One straight-line reader and one writer per (record, version) are generated from the declarations
at first use (`codec_source.py`), as dataclasses does for `__init__`: much faster than a loop
over fields. A record of an unknown type becomes an `UnknownRecord`; an unknown version of a known
type, bytes left over and every truncation are errors. Unknown tagged fields are kept in the record.
(apache/kafka: AbstractApiMessageSerde.java, docs: KIP-482)
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from metadata import codec_source
from metadata.primitives import unsigned_varint, write_unsigned_varint
from metadata.records import RECORD_TYPES
from metadata.schema import MetadataRecordError, Record, UnknownRecord

FRAME_VERSION: Final = 1
# Kafka stores api key and version in a signed 16-bit number.
FRAME_NUMBER_MAX: Final = 32767

Reader = Callable[[bytes, int], Record]
Writer = Callable[[Any, list[bytes]], None]

_DAMAGE: Final = (struct.error, IndexError, UnicodeDecodeError)
# By frame: its three numbers are single bytes for every known record.
_readers: dict[bytes, Reader] = {}
_writers: dict[tuple[int, int], tuple[bytes, Writer]] = {}


def encode(record: Record, version: int) -> bytes:
    """The framed value of a record in one of its versions.

    Args:
        record: any record; of an UnknownRecord the original bytes, `version` is ignored.
        version: within the record's `versions`; see `features.record_version`.

    Raises:
        MetadataRecordError: the version does not exist, a field is set that it cannot carry, or a
            value does not fit its wire type.
    """
    if isinstance(record, UnknownRecord):
        return _encode_unknown(record)
    key = (record.api_key, version)
    entry = _writers.get(key)
    if entry is None:
        entry = _writers[key] = _compile_writer(record, version)
    prefix, write = entry
    parts = [prefix]
    try:
        write(record, parts)
    except (struct.error, AttributeError, TypeError, ValueError, OverflowError) as error:
        raise MetadataRecordError(
            f"{type(record).__name__} version {version} cannot be written: {error}"
        ) from error
    return b"".join(parts)


def decode(value: bytes | memoryview) -> Record:
    """The record in a framed value.

    Raises:
        MetadataRecordError: not a frame that Kafka's reader accepts; the text says why.
    """
    buffer = value if type(value) is bytes else bytes(value)
    read = _readers.get(buffer[:3])
    if read is None:
        return _decode_first(buffer)
    try:
        return read(buffer, len(buffer))
    except _DAMAGE as error:
        raise MetadataRecordError(f"{_name(buffer)} is cut or damaged: {error}") from error


def _decode_first(buffer: bytes) -> Record:
    """Decode a value whose frame has no reader yet: first of its kind, unknown or damaged."""
    api_key, version, position = _read_frame(buffer)
    if api_key not in RECORD_TYPES:
        return UnknownRecord(unknown_api_key=api_key, version=version, body=buffer[position:])
    cls = RECORD_TYPES[api_key]
    _check_version(cls, version)
    canonical = bytes((FRAME_VERSION, api_key, version))
    _readers.setdefault(canonical, codec_source.compile_decoder(cls, version))
    return decode(canonical + buffer[position:])


def _name(buffer: bytes) -> str:
    return f"{RECORD_TYPES[buffer[1]].__name__} version {buffer[2]}"


def decoded_version(value: bytes | memoryview) -> int:
    """The schema version that a framed value was written with.

    Raises:
        MetadataRecordError: the frame is damaged.
    """
    return _read_frame(bytes(value[:16]))[1]


def _read_frame(buffer: bytes) -> tuple[int, int, int]:
    numbers = []
    position = 0
    for what in ("frame version", "api key", "version"):
        try:
            number, position = unsigned_varint(buffer, position)
        except IndexError as error:
            raise MetadataRecordError(f"metadata record is cut inside its {what}") from error
        if number > FRAME_NUMBER_MAX:
            raise MetadataRecordError(f"metadata record has {what} {number}, which is too large")
        if what == "frame version" and number == 0:
            raise MetadataRecordError(
                "metadata record has frame version 0: data of the Kafka 2.8 preview cannot be read"
            )
        if what == "frame version" and number != FRAME_VERSION:
            raise MetadataRecordError(f"metadata record has unknown frame version {number}")
        numbers.append(number)
    return numbers[1], numbers[2], position


def _encode_unknown(record: UnknownRecord) -> bytes:
    frame = bytearray()
    write_unsigned_varint(frame, FRAME_VERSION)
    write_unsigned_varint(frame, record.unknown_api_key)
    write_unsigned_varint(frame, record.version)
    return bytes(frame) + record.body


def _check_version(cls: type[Record], version: int) -> None:
    lowest, highest = cls.versions
    if not lowest <= version <= highest:
        raise MetadataRecordError(
            f"{cls.__name__} has no version {version}: {lowest} to {highest} are known"
        )


def _compile_writer(record: Record, version: int) -> tuple[bytes, Writer]:
    cls = RECORD_TYPES.get(record.api_key)
    assert cls is type(record), f"{type(record).__name__} is no declared record"
    _check_version(cls, version)
    prefix = bytearray((FRAME_VERSION,))
    write_unsigned_varint(prefix, record.api_key)
    write_unsigned_varint(prefix, version)
    return bytes(prefix), codec_source.compile_writer(cls, version)
