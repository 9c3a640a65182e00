"""OffsetCommit's response, versions 2 to 10, written without kio: every commit is answered with it.

    throttle_time_ms (from 3) | topics [ name, from 10 its id | partitions [ number | error ] ]

From version 8 on lengths are compact and each struct ends with an empty section of tagged fields.
(apache/kafka: clients/src/main/resources/common/message/OffsetCommitResponse.json)
"""

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

from wire.errors import ErrorCode
from wire.primitives import encode_unsigned_varint

FLEXIBLE_FROM: Final = 8
THROTTLE_FROM: Final = 3
TOPIC_ID_FROM: Final = 10

TopicRow = tuple[str, bytes, Sequence[tuple[int, ErrorCode]]]
"""Name and id of a topic, of which one is said, and the codes of its partitions."""

_SHORT: Final = struct.Struct(">h")
_LONG: Final = struct.Struct(">i")
ROWS_PACKED_MAX: Final = 256
"""Partitions that are packed at once: what packs each number of them is kept."""


def encode_offset_commit_response(
    version: int, rows: Sequence[TopicRow], throttle_ms: int = 0
) -> bytes:
    """The body in a version.

    Args:
        version: 2 to 10.
        rows: in the order in which they are said.
        throttle_ms: not said below version 3.
    """
    is_flexible = version >= FLEXIBLE_FROM
    parts = [_LONG.pack(throttle_ms)] if version >= THROTTLE_FROM else []
    parts.append(_size(len(rows), is_flexible=is_flexible))
    for name, topic_id, codes in rows:
        if version >= TOPIC_ID_FROM:
            parts.append(topic_id)
        else:
            parts.append(_text(name, is_flexible=is_flexible))
        parts.append(_size(len(codes), is_flexible=is_flexible))
        for start in range(0, len(codes), ROWS_PACKED_MAX):
            some = codes[start : start + ROWS_PACKED_MAX]
            parts.append(_packer(len(some), is_flexible=is_flexible).pack(*_flat(some)))
        if is_flexible:
            parts.append(b"\0")
    if is_flexible:
        parts.append(b"\0")
    return b"".join(parts)


def _flat(codes: Iterable[tuple[int, ErrorCode]]) -> Iterable[int]:
    return chain.from_iterable(codes)


@lru_cache(2 * ROWS_PACKED_MAX)
def _packer(count: int, *, is_flexible: bool) -> struct.Struct:
    """Rows of partitions; "x" is the empty section of tagged fields, a zero."""
    return struct.Struct(">" + ("ihx" if is_flexible else "ih") * count)


def _size(count: int, *, is_flexible: bool) -> bytes:
    return encode_unsigned_varint(count + 1) if is_flexible else _LONG.pack(count)


def _text(text: str, *, is_flexible: bool) -> bytes:
    content = text.encode()
    if is_flexible:
        return encode_unsigned_varint(len(content) + 1) + content
    return _SHORT.pack(len(content)) + content
