"""Answers of the kernel that say a throttle time: the quota of time is of all requests of a client.

The kernel measures the time of its handlers and knows no quota. It is charged here, when an answer
passes, and the answer gets the throttle time. What another node answered, the active controller,
has its time there and is not charged.

apache/kafka: core/.../server/RequestHandlerHelper.scala (sendResponseMaybeThrottle), 4.3
"""

from dataclasses import fields, replace
from datetime import timedelta
from typing import Final, NamedTuple

from wire.connections.headers import parse_request_header
from wire.errors import RemoteProtocolError
from wire.messages import codec

FIELD: Final = "throttle_time"
_CORRELATION_BYTES: Final = 4
_THROTTLE_BYTES: Final = 4


class Asked(NamedTuple):
    """The header of a request for the kernel: what it asks for, and who."""

    api_key: int
    api_version: int
    client_id: str | None


def asked(frame: bytearray) -> Asked | None:
    """Read the header of a request; None if it has none, for which the kernel closes."""
    try:
        header, _ = parse_request_header(frame)
    except RemoteProtocolError:
        return None
    return Asked(header.api_key, header.api_version, header.client_id)


def with_throttle_time(request: Asked, response: bytes, throttle_ms: int) -> bytes:
    """Return a response with its throttle time, if one of this version has it."""
    key, version = request.api_key, request.api_version
    try:
        names = [field.name for field in fields(codec.entity_class(key, version, "response"))]
        is_tagged = codec.has_flexible_response_header(key, version)
    except LookupError:  # ApiVersions answers an unknown version with an error
        return response
    if FIELD not in names:
        return response
    if names[0] == FIELD:
        position = _CORRELATION_BYTES + is_tagged
        encoded = throttle_ms.to_bytes(_THROTTLE_BYTES, "big")
        return response[:position] + encoded + response[position + _THROTTLE_BYTES :]
    number, body = codec.decode_response(key, version, response)
    body = replace(body, throttle_time=timedelta(milliseconds=throttle_ms))
    return codec.encode_response(key, version, number, body)
