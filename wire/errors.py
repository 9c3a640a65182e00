"""How the wire fails: a refusal is a value, nonsense from either side is an exception.

`ErrorCode` is kio's enumeration of Kafka's error codes. An `ApiError` travels in a response. The
three exceptions say whose fault it is: the peer's (its connection is closed), our own (a bug of the
caller), or the bytes of a record batch (the reader decides what a damaged log means).
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
    """The peer sent what the protocol forbids; the text says what, the connection is closed."""


class LocalProtocolError(Exception):
    """This program asked for something that the protocol cannot say."""


class CorruptBatchError(Exception):
    """Bytes that claim to be a record batch are not one."""
