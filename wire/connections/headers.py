"""Request and response headers.

A request starts with api key, version and correlation id; from header version 1 on follows the
client id (never compact, also in version 2), from version 2 on tagged fields. A response starts
with the correlation id, from header version 1 on followed by tagged fields. ApiVersions is always
answered with header version 0, so that a client that is too new can read the refusal.
"""

import struct
from functools import lru_cache
from typing import Final

import msgspec

from wire.errors import RemoteProtocolError
from wire.primitives import Buffer, skip_tagged_fields

_REQUEST_START: Final = struct.Struct(">hhi")
_CLIENT_ID_LENGTH: Final = struct.Struct(">h")
_CORRELATION_ID: Final = struct.Struct(">i")
_NO_TAGGED_FIELDS: Final = b"\0"


class RequestHeader(msgspec.Struct, frozen=True, gc=False):
    """A request header up to the client id; its tagged fields are not kept."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def parse_request_header(frame: bytes | bytearray) -> tuple[RequestHeader, int]:
    """The header of a request and the position after the client id.

    If the header is flexible, `skip_tagged_fields` gives the position of the body.

    Raises:
        RemoteProtocolError: the frame is too short or the client id is not UTF-8.
    """
    try:
        api_key, api_version, correlation_id = _REQUEST_START.unpack_from(frame)
        (length,) = _CLIENT_ID_LENGTH.unpack_from(frame, _REQUEST_START.size)
    except struct.error:
        raise RemoteProtocolError(f"request of {len(frame)} bytes has no header") from None
    position = _REQUEST_START.size + _CLIENT_ID_LENGTH.size
    if length < 0:
        return RequestHeader(api_key, api_version, correlation_id, None), position
    end = position + length
    if end > len(frame):
        raise RemoteProtocolError(f"client id of {length} bytes runs over the end of the request")
    try:
        client_id = frame[position:end].decode()
    except UnicodeDecodeError:
        raise RemoteProtocolError("client id is not UTF-8") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id), end


def encode_request_header(header: RequestHeader, *, is_flexible: bool) -> bytes:
    """Request header of version 2 if the body is flexible, else of version 1."""
    start = _REQUEST_START.pack(header.api_key, header.api_version, header.correlation_id)
    return start + _client_id(header.client_id, is_flexible)


@lru_cache(64)
def _client_id(client_id: str | None, is_flexible: bool) -> bytes:  # noqa: FBT001 - a cache key
    """End of a request header from the client id on: equal in all requests of a connection."""
    end = _NO_TAGGED_FIELDS if is_flexible else b""
    if client_id is None:
        return _CLIENT_ID_LENGTH.pack(-1) + end
    encoded = client_id.encode()
    return _CLIENT_ID_LENGTH.pack(len(encoded)) + encoded + end


def parse_response_header(frame: Buffer, *, is_flexible: bool) -> tuple[int, int]:
    """Correlation id of a response and the position of its body.

    Raises:
        RemoteProtocolError: the frame is too short.
    """
    correlation_id = parse_correlation_id(frame)
    position = _CORRELATION_ID.size
    return correlation_id, skip_tagged_fields(frame, position) if is_flexible else position


def parse_correlation_id(frame: Buffer) -> int:
    """The correlation id, with which a response begins.

    Raises:
        RemoteProtocolError: the frame is too short.
    """
    if len(frame) < _CORRELATION_ID.size:
        raise RemoteProtocolError(f"response of {len(frame)} bytes has no header")
    correlation_id: int = _CORRELATION_ID.unpack_from(frame)[0]
    return correlation_id


def encode_response_header(correlation_id: int, *, is_flexible: bool) -> bytes:
    """Response header of version 1 if flexible, else of version 0."""
    start = _CORRELATION_ID.pack(correlation_id)
    return start + _NO_TAGGED_FIELDS if is_flexible else start
