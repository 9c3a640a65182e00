"""Kafka's variable-length integers and the tagged-field section.

Signed numbers are zigzag encoded (0, -1, 1, -2 become 0, 1, 2, 3), then written as groups of seven
bits, the lowest first; a set high bit means that another group follows. A varint has at most 5
bytes, a varlong at most 10. Reader functions return the value and the position after it.
"""

from typing import Final

from wire.errors import RemoteProtocolError

TEXT_BYTES_MAX: Final = 2**15 - 1
"""Longest text of a request, also where its length could have more than 16 bits."""
VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10
_INT32_MIN: Final = -(1 << 31)
_INT32_MAX: Final = (1 << 31) - 1
_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1

_SINGLE_BYTES: Final = tuple(bytes((value,)) for value in range(0x80))

Buffer = bytes | bytearray | memoryview


def encode_unsigned_varint(value: int) -> bytes:
    """The value as seven-bit groups, lowest first."""
    if 0 <= value < len(_SINGLE_BYTES):
        return _SINGLE_BYTES[value]
    assert 0 <= value < 1 << 64
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def encode_varint(value: int) -> bytes:
    """A signed 32-bit number, zigzag."""
    if 0 <= value < len(SMALL_VARINTS):
        return SMALL_VARINTS[value]
    assert _INT32_MIN <= value <= _INT32_MAX
    return encode_unsigned_varint(((value << 1) ^ (value >> 31)) & 0xFFFF_FFFF)


def encode_varlong(value: int) -> bytes:
    """A signed 64-bit number, zigzag."""
    if 0 <= value < len(SMALL_VARINTS):
        return SMALL_VARINTS[value]
    assert _INT64_MIN <= value <= _INT64_MAX
    return encode_unsigned_varint(((value << 1) ^ (value >> 63)) & 0xFFFF_FFFF_FFFF_FFFF)


def read_unsigned_varint(
    buffer: Buffer, position: int, bytes_max: int = VARINT_BYTES_MAX
) -> tuple[int, int]:
    """The number at the position and the position after it.

    Raises:
        ValueError: the number has more than `bytes_max` bytes.
        IndexError: the buffer ends inside the number.
    """
    first = buffer[position]
    if first < 0x80:
        return first, position + 1
    value = first & 0x7F
    for index in range(1, bytes_max):
        group = buffer[position + index]
        value |= (group & 0x7F) << (7 * index)
        if group < 0x80:
            return value, position + index + 1
    raise ValueError(f"variable-length number at {position} is longer than {bytes_max} bytes")


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The signed 32-bit zigzag number at the position and the position after it."""
    first = buffer[position]
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), position + 1
    value, position = read_unsigned_varint(buffer, position)
    value &= 0xFFFF_FFFF
    return (value >> 1) ^ -(value & 1), position


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """The signed 64-bit zigzag number at the position and the position after it."""
    first = buffer[position]
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), position + 1
    value, position = read_unsigned_varint(buffer, position, VARLONG_BYTES_MAX)
    value &= 0xFFFF_FFFF_FFFF_FFFF
    return (value >> 1) ^ -(value & 1), position


def skip_tagged_fields(buffer: Buffer, position: int) -> int:
    """The position after a tagged-field section, whatever its fields are.

    Raises:
        RemoteProtocolError: the section does not fit into the buffer.
    """
    try:
        if buffer[position] == 0:
            return position + 1
        count, position = read_unsigned_varint(buffer, position)
        for _ in range(count):
            _, position = read_unsigned_varint(buffer, position)
            size_bytes, position = read_unsigned_varint(buffer, position)
            position += size_bytes
            if position > len(buffer):
                raise RemoteProtocolError("tagged field runs over the end of the frame")
    except (IndexError, ValueError) as error:
        raise RemoteProtocolError(f"tagged fields cannot be read: {error}") from error
    return position


SMALL_VARINTS: Final = tuple(encode_unsigned_varint(value << 1) for value in range(1 << 12))
"""The first signed numbers, encoded."""
