"""Encodings that the generated readers and writers of coordinators' records call.

Lengths before the flexible versions are int16 (strings) or int32 (bytes, arrays), -1 for null.
Every announced length is compared with the bytes that are left, since slices do not complain.
"""

import struct
from collections.abc import Sequence
from typing import Final

from coordinator.records.schema import CoordinatorRecordError
from metadata import primitives as compact
from metadata.primitives import raw_bytes as compact_bytes
from metadata.primitives import string_bytes as compact_string
from metadata.primitives import unsigned_varint, varint_bytes

__all__ = ["compact_bytes", "compact_string", "unsigned_varint", "varint_bytes"]

_SHORT: Final = struct.Struct(">h")
_LONG: Final = struct.Struct(">i")
_COUNTS: Final = tuple(map(varint_bytes, range(1, 128)))
pack_short: Final = _SHORT.pack


def read_compact_string(buffer: bytes, position: int) -> tuple[str | None, int]:
    """Compact string, None when null, and the position after it."""
    return compact.read_string(buffer, position, len(buffer))


def read_compact_bytes(buffer: bytes, position: int) -> tuple[bytes | None, int]:
    """Compact bytes, None when null, and the position after them."""
    return compact.read_bytes(buffer, position, len(buffer))


def read_short_string(buffer: bytes, position: int) -> tuple[str | None, int]:
    """String with an int16 length, None when null, and the position after it."""
    (size,) = _SHORT.unpack_from(buffer, position)
    content, position = _taken(buffer, position + 2, size)
    return (None if content is None else content.decode()), position


def read_long_bytes(buffer: bytes, position: int) -> tuple[bytes | None, int]:
    """Bytes with an int32 length, None when null, and the position after them."""
    (size,) = _LONG.unpack_from(buffer, position)
    return _taken(buffer, position + 4, size)


def read_compact_size(buffer: bytes, position: int, element_bytes: int) -> tuple[int, int]:
    """Count of a compact array, -1 when null; its elements have at least so many bytes."""
    return compact.read_array_size(buffer, position, len(buffer), element_bytes)


def read_long_size(buffer: bytes, position: int, element_bytes: int) -> tuple[int, int]:
    """Count of an array with an int32 length, below 0 when null."""
    (size,) = _LONG.unpack_from(buffer, position)
    position += 4
    if size * element_bytes > len(buffer) - position:
        raise IndexError(f"array of {size} announced, {len(buffer) - position} bytes left")
    return size, position


def read_ints(buffer: bytes, position: int, count: int) -> tuple[tuple[int, ...], int]:
    """So many int32."""
    return struct.unpack_from(f">{count}i", buffer, position), position + 4 * count


def read_tag_header(buffer: bytes, position: int) -> tuple[int, int, int]:
    """Tag number, position of its payload and position after its payload."""
    return compact.read_tag_header(buffer, position, len(buffer))


def short_string(text: str) -> bytes:
    """A string with its int16 length, UTF-8."""
    content = text.encode()
    return _SHORT.pack(len(content)) + content


def long_bytes(content: bytes) -> bytes:
    """Bytes with their int32 length."""
    return _LONG.pack(len(content)) + content


def compact_size(count: int) -> bytes:
    """Count of a compact array."""
    assert count >= 0, "null has no count"
    return _COUNTS[count] if count < len(_COUNTS) else varint_bytes(count + 1)


def long_size(count: int) -> bytes:
    """Count of an array as int32."""
    return _LONG.pack(count)


def ints(values: Sequence[int]) -> bytes:
    """Int32 values without their count."""
    return struct.pack(f">{len(values)}i", *values)


def tagged_bytes(tag: bytes, parts: Sequence[bytes]) -> bytes:
    """A tagged field: its number, which is encoded, its size and its payload."""
    payload = b"".join(parts)
    return tag + varint_bytes(len(payload)) + payload


def cut_error(size: int, left: int) -> IndexError:
    """The error for a field that is longer than the bytes that are left."""
    return IndexError(f"{size} bytes announced, {left} left")


def null_error(what: str) -> CoordinatorRecordError:
    """The error for a null where the schema allows none."""
    return CoordinatorRecordError(f"{what} is null, which its schema does not allow")


def size_error(what: str) -> CoordinatorRecordError:
    """The error for a tagged field whose payload is shorter or longer than its size."""
    return CoordinatorRecordError(f"{what} does not fill its tagged field")


def version_error(what: str, version: int) -> CoordinatorRecordError:
    """The error for a set field that the version cannot carry."""
    return CoordinatorRecordError(f"{what} is set, but version {version} cannot carry it")


def uuid_error(what: str) -> ValueError:
    """The error for an id that is not 16 bytes long."""
    return ValueError(f"{what} is not 16 bytes long")


def _taken(buffer: bytes, position: int, size: int) -> tuple[bytes | None, int]:
    if size < 0:
        return None, position
    after = position + size
    if after > len(buffer):
        raise cut_error(size, len(buffer) - position)
    return buffer[position:after], after
