"""Fields of hand-written bodies: lengths, texts and tagged fields of classic and flexible versions.

A flexible version writes a length plus one as a varint, 0 for null; a classic one as INT16 (texts)
or INT32 (arrays, records), -1 for null. (KIP-482)
"""

import struct
from typing import Final

import msgspec

from wire.primitives import encode_unsigned_varint

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class LeaderEndpoint(msgspec.Struct, frozen=True):
    """A broker that is named as leader in the same response (KIP-951)."""

    node_id: int
    host: str
    port: int
    rack: str | None


def encode_length(length: int, *, is_flexible: bool) -> bytes:
    """The length of an array or of records, -1 for null."""
    return encode_unsigned_varint(length + 1) if is_flexible else _INT32.pack(length)


def encode_text(text: str | None, *, is_flexible: bool) -> bytes:
    """A text with its length in bytes."""
    if text is None:
        return b"\0" if is_flexible else _INT16.pack(-1)
    content = text.encode()
    length = len(content)
    return (encode_unsigned_varint(length + 1) if is_flexible else _INT16.pack(length)) + content


def encode_tagged(fields: dict[int, bytes]) -> bytes:
    """A section of tagged fields, by ascending number."""
    parts = [encode_unsigned_varint(len(fields))]
    for number, content in fields.items():
        parts += (encode_unsigned_varint(number), encode_unsigned_varint(len(content)), content)
    return b"".join(parts)


def encode_endpoints(endpoints: tuple[LeaderEndpoint, ...]) -> bytes:
    """`NodeEndpoints` of Produce and Fetch, the content of a tagged field."""
    parts = [encode_length(len(endpoints), is_flexible=True)]
    for each in endpoints:
        parts.append(_INT32.pack(each.node_id) + encode_text(each.host, is_flexible=True))
        parts.append(_INT32.pack(each.port) + encode_text(each.rack, is_flexible=True) + b"\0")
    return b"".join(parts)
