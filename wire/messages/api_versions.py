"""Straight-line codec of the ApiVersions response, the first one on every connection.

The lists are long (about 60 APIs) and the same for every connection of a kind, so encoded and
decoded lists are cached. A property test proves equality with kio.
(apache/kafka: clients/.../common/message/ApiVersionsResponse.json)
"""

import struct
from functools import lru_cache
from typing import Any, Final

from wire.api_table import SCHEMAS
from wire.primitives import encode_unsigned_varint, read_unsigned_varint, skip_tagged_fields
from wire.types import milliseconds

_THROTTLE_VERSION: Final = 1
FLEXIBLE_VERSION: Final = 3
"""First version with compact arrays and tagged fields."""
_FEATURES_FROM_ZERO_VERSION: Final = 4
"""Older clients cannot read a range that begins at 0 (KAFKA-17011)."""
_LISTS_MAX: Final = 16
"""Number of cached lists: one for each kind of listener, and those of tests."""
_ERROR: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_RANGE: Final = struct.Struct(">hhh")  # api key, lowest and highest version
_FLEXIBLE_RANGE: Final = struct.Struct(">hhhB")  # and the count of tagged fields
_LEVELS: Final = struct.Struct(">hhB")

Ranges = dict[int, tuple[int, int]]

# By length and flexibility; comparing with the list is quick if its rows are the same objects.
_kept_lists: dict[tuple[int, bool], tuple[tuple[Any, ...], bytes]] = {}


def encode_response(version: int, body: Any) -> bytes:
    """The body of a response, without a header.

    Args:
        version: 0..4.
        body: kio's newest ApiVersionsResponse.
    """
    parts = [_ERROR.pack(body.error_code.value), _list(version, body.api_keys)]
    if version >= _THROTTLE_VERSION:
        parts.append(_INT32.pack(milliseconds(body.throttle_time)))
    if version >= FLEXIBLE_VERSION:
        parts.append(_tagged_fields(version, body))
    return b"".join(parts)


def _list(version: int, rows: tuple[Any, ...]) -> bytes:
    """The array of APIs with its length."""
    is_flexible = version >= FLEXIBLE_VERSION
    key = (len(rows), is_flexible)
    kept = _kept_lists.get(key)
    if kept is not None and kept[0] == rows:
        return kept[1]
    if is_flexible:
        packed = [
            _FLEXIBLE_RANGE.pack(row.api_key, row.min_version, row.max_version, 0) for row in rows
        ]
        content = encode_unsigned_varint(len(rows) + 1) + b"".join(packed)
    else:
        packed = [_RANGE.pack(row.api_key, row.min_version, row.max_version) for row in rows]
        content = _INT32.pack(len(rows)) + b"".join(packed)
    if len(_kept_lists) >= _LISTS_MAX:
        _kept_lists.clear()
    _kept_lists[key] = (rows, content)
    return content


def _tagged_fields(version: int, body: Any) -> bytes:
    """Features of the node and of the cluster; fields at their default are omitted."""
    fields = []
    supported = tuple(
        (feature.name, feature.min_version, feature.max_version)
        for feature in body.supported_features
        if feature.min_version > 0 or version >= _FEATURES_FROM_ZERO_VERSION
    )
    if supported:
        fields.append(b"\x00" + _levels(supported))
    if body.finalized_features_epoch != -1:
        fields.append(b"\x01\x08" + _INT64.pack(body.finalized_features_epoch))
    if body.finalized_features:
        finalized = tuple(
            (feature.name, feature.max_version_level, feature.min_version_level)
            for feature in body.finalized_features
        )
        fields.append(b"\x02" + _levels(finalized))
    if body.zk_migration_ready:
        fields.append(b"\x03\x01\x01")
    return bytes((len(fields),)) + b"".join(fields)


@lru_cache(_LISTS_MAX)
def _levels(features: tuple[tuple[str, int, int], ...]) -> bytes:
    """A sized array of names with two levels each, in the order given."""
    parts = [encode_unsigned_varint(len(features) + 1)]
    for name, first, second in features:
        text = name.encode()
        parts += (encode_unsigned_varint(len(text) + 1), text, _LEVELS.pack(first, second, 0))
    content = b"".join(parts)
    return encode_unsigned_varint(len(content)) + content


def decode_ranges(version: int, body: bytes) -> Ranges | None:
    """Lowest and highest version by API key, of the known APIs; callers must not modify it.

    None for a body that is left to kio: of a version below 3, cut in its list, or with tagged
    fields in a row.

    Args:
        version: of the response.
        body: of the response, without the header.

    Raises:
        RemoteProtocolError: the tagged fields do not fit.
    """
    if version < FLEXIBLE_VERSION:
        return None
    try:
        count, start = read_unsigned_varint(body, _ERROR.size)
    except (IndexError, ValueError):
        return None
    end = start + (count - 1) * _FLEXIBLE_RANGE.size
    if count == 0 or end + _INT32.size > len(body):
        return None
    skip_tagged_fields(body, end + _INT32.size)
    return _ranges(body[start:end])


@lru_cache(_LISTS_MAX)
def _ranges(rows: bytes) -> Ranges | None:
    ranges = {}
    for api_key, lowest, highest, tagged_fields in _FLEXIBLE_RANGE.iter_unpack(rows):
        if tagged_fields:
            return None
        if api_key in SCHEMAS:
            ranges[api_key] = (lowest, highest)
    return ranges


__all__ = ["FLEXIBLE_VERSION", "decode_ranges", "encode_response"]
