"""A straight-line encoder of the CreateTopics response, versions 5 to 7.

A response repeats the thirty configs of a topic; kio's generic writer spends 190 us on them. The
rows are few and immutable, so their bytes are cached. A property test proves equality with kio.
(apache/kafka: clients/.../common/message/CreateTopicsResponse.json)
"""

import struct
from functools import lru_cache
from typing import Any, Final

from wire.primitives import encode_unsigned_varint
from wire.types import ZERO_UUID, milliseconds

FIRST_VERSION: Final = 5
"""First flexible version, and the first with configs."""
_TOPIC_ID_VERSION: Final = 7
_CONFIGS_MAX: Final = 4096
"""Number of rows whose bytes are cached; a topic has about 30, most of them defaults."""
_ARRAYS_MAX: Final = 64
"""Number of arrays of rows whose bytes are cached."""
# By the id() of the encoded object, which the entry holds, so that the id cannot be reused.
_KEPT_ROWS: Final[dict[int, tuple[Any, bytes]]] = {}
_KEPT_ARRAYS: Final[dict[int, tuple[tuple[Any, ...], bytes]]] = {}
_COUNTS: Final = struct.Struct(">ih")
_CONFIG_ERROR: Final = struct.Struct(">BBBh")  # one tag, number 0, two bytes
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


def encode_create_topics_response(version: int, body: Any) -> bytes:
    """The body, without a header.

    Args:
        version: FIRST_VERSION..7.
        body: kio's newest CreateTopicsResponse.
    """
    assert version >= FIRST_VERSION, f"{version=}"
    parts = [
        _INT32.pack(milliseconds(body.throttle_time)),
        encode_unsigned_varint(len(body.topics) + 1),
    ]
    for topic in body.topics:
        _append_topic(parts, version, topic)
    parts.append(b"\x00")
    return b"".join(parts)


def _append_topic(parts: list[bytes], version: int, topic: Any) -> None:
    parts.append(_string(topic.name))
    if version >= _TOPIC_ID_VERSION:
        parts.append(ZERO_UUID if topic.topic_id is None else topic.topic_id.bytes)
    parts.append(_INT16.pack(topic.error_code.value))
    parts.append(_string(topic.error_message))
    parts.append(_COUNTS.pack(topic.num_partitions, topic.replication_factor))
    if topic.configs is None:
        parts.append(b"\x00")
    else:
        parts.append(_configs(topic.configs))
    config_error = topic.topic_config_error_code
    parts.append(_CONFIG_ERROR.pack(1, 0, 2, config_error) if config_error else b"\x00")


def _configs(rows: tuple[Any, ...]) -> bytes:
    """The array of configs; topics without their own share one tuple, hence the cached bytes."""
    key = id(rows)
    kept = _KEPT_ARRAYS.get(key)
    if kept is not None and kept[0] is rows:
        return kept[1]
    content = encode_unsigned_varint(len(rows) + 1) + b"".join(map(_config, rows))
    if len(_KEPT_ARRAYS) >= _ARRAYS_MAX:
        _KEPT_ARRAYS.clear()
    _KEPT_ARRAYS[key] = (rows, content)
    return content


def _config(row: Any) -> bytes:
    """One row; most rows are the same objects in every response."""
    key = id(row)
    kept = _KEPT_ROWS.get(key)
    if kept is not None and kept[0] is row:
        return kept[1]
    content = _row(row.name, row.value, row.read_only, row.config_source, row.is_sensitive)
    if len(_KEPT_ROWS) >= _CONFIGS_MAX:
        _KEPT_ROWS.clear()
    _KEPT_ROWS[key] = (row, content)
    return content


@lru_cache(_CONFIGS_MAX)
def _row(
    name: str,
    value: str | None,
    read_only: bool,  # noqa: FBT001 - a cache key in the order of the layout
    source: int,
    is_sensitive: bool,  # noqa: FBT001
) -> bytes:
    flags = struct.pack(">?b?B", read_only, source, is_sensitive, 0)
    return _string(name) + _string(value) + flags


def _string(text: str | None) -> bytes:
    """A compact string; null is a zero length."""
    if text is None:
        return b"\x00"
    content = text.encode()
    return encode_unsigned_varint(len(content) + 1) + content
