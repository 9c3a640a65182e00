"""Primitive encodings that the generated record readers and writers call.

Unsigned varints are LEB128 of at most 5 bytes; a compact length is the length plus one, zero is
null. Reading past the end raises IndexError or struct.error, which `record_codec` converts into
MetadataRecordError. Slices do not raise when they are short, so every slice here is checked.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from metadata.schema import MetadataRecordError, UnknownTags
from wire.primitives import encode_unsigned_varint, read_unsigned_varint

# Arrays shorter than this have a precompiled Struct; nearly all arrays of a metadata log are.
_SMALL: Final = 64
_INTS: Final = tuple(struct.Struct(f">{count}i") for count in range(_SMALL))
_COUNTED_INTS: Final = tuple(struct.Struct(f">B{count}i") for count in range(_SMALL))
_ONE_BYTE: Final = tuple(bytes((number,)) for number in range(128))
UUID_BYTES: Final = 16
_ID_LISTS_MAX: Final = 4096


def unsigned_varint(buffer: bytes, position: int) -> tuple[int, int]:
    """The number at `position` and the position after it."""
    try:
        return read_unsigned_varint(buffer, position)
    except ValueError as error:
        raise MetadataRecordError(str(error)) from error


def write_unsigned_varint(out: bytearray, number: int) -> None:
    """Append a number as unsigned varint."""
    out += varint_bytes(number)


def varint_bytes(number: int) -> bytes:
    """A number as unsigned varint."""
    return _ONE_BYTE[number] if 0 <= number < 128 else encode_unsigned_varint(number)


def read_bytes(buffer: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """Compact bytes, None when null."""
    size = buffer[position]
    position += 1
    if size > 127:
        size, position = unsigned_varint(buffer, position - 1)
    if size == 0:
        return None, position
    after = position + size - 1
    if after > end:
        raise IndexError(f"{size - 1} bytes announced, {end - position} left")
    return buffer[position:after], after


def read_string(buffer: bytes, position: int, end: int) -> tuple[str | None, int]:
    """Compact string, None when null."""
    raw, position = read_bytes(buffer, position, end)
    return (None if raw is None else raw.decode()), position


def read_array_size(buffer: bytes, position: int, end: int, element_bytes: int) -> tuple[int, int]:
    """Count of a compact array, -1 when null; refuses counts that exceed the remaining bytes."""
    size = buffer[position]
    position += 1
    if size > 127:
        size, position = unsigned_varint(buffer, position - 1)
    size -= 1
    if size * element_bytes > end - position:
        raise IndexError(f"array of {size} announced, {end - position} bytes left")
    return size, position


def read_ints(buffer: bytes, position: int, end: int) -> tuple[tuple[int, ...] | None, int]:
    """Compact array of int32, None when null."""
    count, position = read_array_size(buffer, position, end, 4)
    if count <= 0:
        return (() if count == 0 else None), position
    if count < _SMALL:
        return _INTS[count].unpack_from(buffer, position), position + 4 * count
    return struct.unpack_from(f">{count}i", buffer, position), position + 4 * count


def read_uuids(buffer: bytes, position: int, end: int) -> tuple[tuple[bytes, ...] | None, int]:
    """Compact array of 16-byte ids, None when null."""
    count, position = read_array_size(buffer, position, end, UUID_BYTES)
    if count <= 0:
        return (() if count == 0 else None), position
    after = position + UUID_BYTES * count
    return tuple([buffer[at : at + 16] for at in range(position, after, 16)]), after


def ints_bytes(values: Sequence[int]) -> bytes:
    """Int32 values as a compact array."""
    count = len(values)
    if count < _SMALL:
        return _COUNTED_INTS[count].pack(count + 1, *values)
    return varint_bytes(count + 1) + struct.pack(f">{count}i", *values)


@lru_cache(_ID_LISTS_MAX)
def uuids_bytes(values: tuple[bytes, ...]) -> bytes:
    """16-byte ids as a compact array; cached, because lists of directories repeat."""
    joined = b"".join(values)
    if len(joined) != UUID_BYTES * len(values) or any(len(value) != 16 for value in values):
        raise ValueError("an id in an array is not 16 bytes long")
    return varint_bytes(len(values) + 1) + joined


def raw_bytes(value: bytes) -> bytes:
    """Bytes with their compact length."""
    return varint_bytes(len(value) + 1) + value


def string_bytes(value: str) -> bytes:
    """A string with its compact length, UTF-8."""
    encoded = value.encode()
    size = len(encoded) + 1
    return (_ONE_BYTE[size] if size < 128 else varint_bytes(size)) + encoded


def tags_bytes(known: Sequence[tuple[int, bytes]], unknown: UnknownTags) -> bytes:
    """A tagged-field section, tags ascending; a known tag overrides an unknown of its number."""
    if not unknown and not known:
        return b"\x00"
    tags = {**dict(unknown), **dict(known)}
    parts = [varint_bytes(len(tags))]
    for tag, payload in sorted(tags.items()):
        parts += (varint_bytes(tag), varint_bytes(len(payload)), payload)
    return b"".join(parts)


def read_tag_header(buffer: bytes, position: int, end: int) -> tuple[int, int, int]:
    """Tag number, position of its payload and position after its payload."""
    tag, position = unsigned_varint(buffer, position)
    size, position = unsigned_varint(buffer, position)
    after = position + size
    if after > end:
        raise cut_error(tag, size, end - position)
    return tag, position, after


def cut_error(tag: int, size: int, left: int) -> IndexError:
    """The error for a tagged field longer than the remaining bytes."""
    return IndexError(f"tagged field {tag} of {size} bytes announced, {left} left")


def garbage_error(what: str, size: int) -> MetadataRecordError:
    """The error for bytes after the end of a record."""
    return MetadataRecordError(f"{what} is followed by {size} bytes of garbage")


def null_error(what: str) -> MetadataRecordError:
    """The error for a null where the schema allows none."""
    return MetadataRecordError(f"{what} is null, which its schema does not allow")


def version_error(what: str, version: int) -> MetadataRecordError:
    """The error for a set field that the version cannot carry."""
    return MetadataRecordError(f"{what} is set, but version {version} cannot carry it")


def size_error(what: str, tag: int) -> MetadataRecordError:
    """The error for a tagged field whose payload is shorter or longer than its size."""
    return MetadataRecordError(f"{what}: tagged field {tag} does not fill its size")
