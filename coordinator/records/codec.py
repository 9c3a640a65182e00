"""Records of coordinators from and to the bytes of key and value.

    key   := type     int16, then the fields of that type, never flexible
    value := version  int16, then the fields in that version

A type that is not known has no record (Kafka skips it when it loads a partition); an unknown
version of a known type, bytes left over and every truncation are errors.
(apache/kafka: coordinator-common/.../CoordinatorRecordSerde.java)
"""

import struct
from functools import cache
from typing import Final

import msgspec

from coordinator.records.codec_source import (
    BytesWriter,
    Reader,
    compile_bytes_writer,
    compile_reader,
)
from coordinator.records.kinds import Kind, Kinds
from coordinator.records.schema import CoordinatorRecord, CoordinatorRecordError, Fields, Key, Value
from metadata.schema import MetadataRecordError

_SHORT: Final = struct.Struct(">h")
_HEAD: Final = _SHORT.size
_DAMAGE: Final = (struct.error, IndexError, UnicodeDecodeError, MetadataRecordError)
_UNWRITABLE: Final = (struct.error, AttributeError, TypeError, ValueError, OverflowError)


class Decoded(msgspec.Struct, frozen=True):
    """A record with its kind, and the version of its value as it was read; None of a tombstone."""

    kind: Kind
    record: CoordinatorRecord
    version: int | None


def decode(kinds: Kinds, key: bytes | None, value: bytes | None) -> CoordinatorRecord | None:
    """The record, or None if the type of its key is not known.

    Raises:
        CoordinatorRecordError: key or value are damaged, or of an unknown version.
    """
    found = _decoded(kinds, key, value)
    return None if found is None else found[1]


def decoded(kinds: Kinds, key: bytes | None, value: bytes | None) -> Decoded | None:
    """As `decode`, with kind and version.

    Raises:
        CoordinatorRecordError: as `decode`.
    """
    found = _decoded(kinds, key, value)
    return None if found is None else Decoded(*found)


def _decoded(
    kinds: Kinds, key: bytes | None, value: bytes | None
) -> tuple[Kind, CoordinatorRecord, int | None] | None:
    if key is None:
        raise CoordinatorRecordError("the record has no key")
    try:
        kind = kinds.get(key[0] << 8 | key[1])
        if kind is None:
            return None
        found, position = _reader(kind.key, 0)(key, _HEAD)
        if position != len(key):
            raise _left_over(kind.key, len(key) - position)
        if value is None:
            return kind, CoordinatorRecord(found, None), None
        (version,) = _SHORT.unpack_from(value)
        lowest, highest = kind.value.versions
        if not lowest <= version <= highest:
            raise CoordinatorRecordError(f"{kind.name} value version {version} is unknown")
        content, position = _reader(kind.value, version)(value, _HEAD)
        if position != len(value):
            raise _left_over(kind.value, len(value) - position)
    except _DAMAGE as error:
        raise CoordinatorRecordError(f"the record is cut or damaged: {error}") from error
    return kind, CoordinatorRecord(found, content), version


def _left_over(cls: type[Fields], size_bytes: int) -> CoordinatorRecordError:
    return CoordinatorRecordError(f"{size_bytes} bytes after the fields of {cls.__name__}")


def key_type(key: bytes | None) -> int:
    """The int16 that a key begins with.

    Raises:
        CoordinatorRecordError: there is no key.
        struct.error: it is shorter.
    """
    if key is None:
        raise CoordinatorRecordError("the record has no key")
    (number,) = _SHORT.unpack_from(key)
    return int(number)


def encode(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Key and value of a record.

    Raises:
        CoordinatorRecordError: a field is set that the version of the value cannot carry, or a
            value does not fit its wire type.
    """
    key, value = record.key, record.value
    try:
        found = _key_writer(type(key))(key)
    except _UNWRITABLE as error:
        raise _unwritable(key, 0, error) from error
    if value is None:
        return found, None
    version = record.version
    try:
        if version is None:
            plain = value.plain_bytes()
            if plain is not None:
                return found, plain
            version = value.version_to_write()
        return found, _value_writer(type(value), version)(value)
    except _UNWRITABLE as error:
        version = value.version_to_write() if version is None else version
        raise _unwritable(value, version, error) from error


def _unwritable(content: Fields, version: int, error: Exception) -> CoordinatorRecordError:
    return CoordinatorRecordError(
        f"{type(content).__name__} version {version} cannot be written: {error}"
    )


@cache
def _key_writer(cls: type[Key]) -> BytesWriter:
    return compile_bytes_writer(cls, 0, _SHORT.pack(cls.type), is_flexible=False)


@cache
def _value_writer(cls: type[Value], version: int) -> BytesWriter:
    lowest, highest = cls.versions
    assert lowest <= version <= highest, f"{cls.__name__} has no {version=}"
    is_flexible = _is_flexible(cls, version)
    return compile_bytes_writer(cls, version, _SHORT.pack(version), is_flexible=is_flexible)


@cache
def _reader(cls: type[Fields], version: int) -> Reader:
    return compile_reader(cls, version, is_flexible=_is_flexible(cls, version))


def _is_flexible(cls: type[Fields], version: int) -> bool:
    """True for values from a version on; keys never are."""
    return issubclass(cls, Value) and version >= cls.flexible_from
