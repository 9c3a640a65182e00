"""Bodies without the tagged fields that this program does not know.

The protocol lets a newer peer add tagged fields to any version; kio's reader stops at one. So where
it does, the body is walked by the structure of its class and copied without them. This happens
seldom: the ordinary path does not come here.
"""

import dataclasses
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from wire.conversion import entity_of, field_types
from wire.primitives import encode_unsigned_varint, read_unsigned_varint

# From buffer, position and output: copy one value, return the position after it.
Copier = Callable[[bytes, int, bytearray], int]

_FIXED_BYTES = {
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "float64": 8,
    "uuid": 16,
    "bool": 1,
    "error_code": 2,
    "timedelta_i32": 4,
    "timedelta_i64": 8,
    "datetime_i64": 8,
}


def without_unknown_tags(entity: type, body: bytes) -> bytes:
    """The body of a flexible message, only with tagged fields that the class declares.

    Raises:
        IndexError, ValueError: the body is not one of this class.
    """
    kept = bytearray()
    _entity_copier(entity)(body, 0, kept)
    return bytes(kept)


@cache
def _entity_copier(entity: type) -> Copier:
    assert getattr(entity, "__flexible__", False)
    tagged: dict[int, Copier] = {}
    copiers: list[Copier] = []
    for field in dataclasses.fields(entity):
        copier = _field_copier(entity, field)
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = copier
        else:
            copiers.append(copier)

    def copy(buffer: bytes, position: int, kept: bytearray) -> int:
        for copier in copiers:
            position = copier(buffer, position, kept)
        return _copy_tagged(buffer, position, kept, tagged)

    return copy


def _copy_tagged(buffer: bytes, position: int, kept: bytearray, tagged: dict[int, Copier]) -> int:
    count, position = read_unsigned_varint(buffer, position)
    known_count = 0
    known = bytearray()
    for _ in range(count):
        tag, position = read_unsigned_varint(buffer, position)
        size_bytes, position = read_unsigned_varint(buffer, position)
        end = position + size_bytes
        if end > len(buffer):
            raise IndexError("tagged field runs over the end")
        if tag in tagged:
            content = bytearray()
            tagged[tag](buffer, position, content)
            known += encode_unsigned_varint(tag) + encode_unsigned_varint(len(content)) + content
            known_count += 1
        position = end
    kept += encode_unsigned_varint(known_count) + known
    return position


def _field_copier(entity: type, field: "dataclasses.Field[Any]") -> Copier:
    field_type = field_types(entity)[field.name]
    nested = entity_of(field_type)
    is_array = "tuple[" in str(field_type)
    if nested is None:
        item = _primitive_copier(field.metadata["kafka_type"])
    elif not is_array and "None" in str(field_type) and "tag" not in field.metadata:
        item = _nullable_copier(_entity_copier(nested))
    else:
        item = _entity_copier(nested)
    return _array_copier(item) if is_array else item


def _primitive_copier(kafka_type: str) -> Copier:
    size_bytes = _FIXED_BYTES.get(kafka_type)
    if size_bytes is None:
        assert kafka_type in {"string", "bytes", "records"}, kafka_type
        return _copy_compact_bytes

    def copy(buffer: bytes, position: int, kept: bytearray) -> int:
        end = position + size_bytes
        if end > len(buffer):
            raise IndexError(f"{kafka_type} runs over the end")
        kept += buffer[position:end]
        return end

    return copy


def _copy_compact_bytes(buffer: bytes, position: int, kept: bytearray) -> int:
    length, start = read_unsigned_varint(buffer, position)
    end = start + max(length - 1, 0)
    if end > len(buffer):
        raise IndexError(f"field of {length - 1} bytes runs over the end")
    kept += buffer[position:end]
    return end


def _array_copier(item: Copier) -> Copier:
    def copy(buffer: bytes, position: int, kept: bytearray) -> int:
        count, start = read_unsigned_varint(buffer, position)
        kept += buffer[position:start]
        position = start
        for _ in range(count - 1):
            position = item(buffer, position, kept)
        return position

    return copy


def _nullable_copier(item: Copier) -> Copier:
    """KIP-893: a byte before the entity, negative for null."""

    def copy(buffer: bytes, position: int, kept: bytearray) -> int:
        (marker,) = struct.unpack_from(">b", buffer, position)
        kept += buffer[position : position + 1]
        return item(buffer, position + 1, kept) if marker >= 0 else position + 1

    return copy
