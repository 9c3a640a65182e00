"""Failures of the wire: a refusal is a value, an invalid message is an exception.

`ErrorCode` is kio's enumeration of Kafka's error codes. An `ApiError` travels in a response. The
three exceptions differ by cause: the peer (its connection is closed), the caller (a bug), or the
bytes of a record batch (the reader decides what a damaged log means).
"""

import msgspec
from kio.schema.errors import ErrorCode

__all__ = [
    "ApiError",
    "CorruptBatchError",
    "ErrorCode",
    "LocalProtocolError",
    "RemoteProtocolError",
]


class ApiError(msgspec.Struct, frozen=True):
    """A refusal: Kafka's error code and the text that the client is shown, None for no text."""

    code: ErrorCode
    message: str | None = None


class RemoteProtocolError(Exception):
    """The peer violated the protocol: the text names the violation, the connection is closed."""


class LocalProtocolError(Exception):
    """The caller asked for a message that the protocol version cannot carry."""


class CorruptBatchError(Exception):
    """Bytes that claim to be a record batch are not one."""
