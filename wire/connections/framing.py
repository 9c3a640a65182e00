"""Frames: a 4-byte big-endian length, then that many bytes."""

import struct

from wire.errors import RemoteProtocolError

LENGTH_BYTES = 4
_LENGTH = struct.Struct(">i")
_HTTP_GET = 0x47455420  # "GET " read as a length
_TLS_HANDSHAKE = 0x1603  # first two bytes that a TLS client sends


class FrameReader:
    """Reader of frames from a byte stream that arrives in portions of any size.

    A frame that comes in many portions is copied once: they are joined when the last has come.

    Invariant: the buffer starts at the beginning of a frame's length.
    """

    __slots__ = ("_buffer", "_frame_bytes_max", "_missing_bytes", "_portions", "_position")

    def __init__(self, frame_bytes_max: int) -> None:
        """A reader that refuses frames of more than `frame_bytes_max` bytes."""
        assert frame_bytes_max > 0
        self._frame_bytes_max = frame_bytes_max
        self._buffer: bytes | bytearray = b""
        self._position = 0
        self._portions: list[bytes | memoryview] = []
        """Content of the frame that stands before the buffer, if it has begun."""
        self._missing_bytes = 0
        """Bytes of it that have not come; the buffer is empty until they have."""

    @property
    def buffered_bytes(self) -> int:
        """Number of bytes received and not yet returned as frames."""
        return len(self._buffer) - self._position + sum(map(len, self._portions))

    def feed(self, received: bytes | bytearray | memoryview) -> None:
        """Add bytes of the stream; not copied while none are buffered, as after a whole frame."""
        if self._missing_bytes:
            content = received if type(received) is bytes else bytes(received)
            self._portions.append(memoryview(content)[: self._missing_bytes])
            received = content[self._missing_bytes :]
            self._missing_bytes -= len(self._portions[-1])
        if self._position == len(self._buffer) and type(received) is bytes:
            self._buffer = received
        elif type(self._buffer) is bytearray:
            del self._buffer[: self._position]
            self._buffer += received
        else:
            self._buffer = bytearray(self._buffer[self._position :])
            self._buffer += received
        self._position = 0

    def next_frame(self) -> bytes | None:
        """The next whole frame without its length; None until more bytes arrive.

        Raises:
            RemoteProtocolError: the length is negative or above the limit.
        """
        if self._missing_bytes:
            return None
        if self._portions:
            content = b"".join(self._portions)
            self._portions.clear()
            return content
        buffer = self._buffer
        start, size = self._position + LENGTH_BYTES, len(buffer)
        if size < start:
            return None
        (length,) = _LENGTH.unpack_from(buffer, self._position)
        if length < 0 or length > self._frame_bytes_max:
            raise RemoteProtocolError(length_refusal(length, self._frame_bytes_max))
        end = start + length
        if size < end:
            self._portions.append(bytes(memoryview(buffer)[start:]))
            self._missing_bytes = end - size
            self._buffer, self._position = b"", 0
            return None
        self._position = end
        return buffer[start:end] if type(buffer) is bytes else bytes(memoryview(buffer)[start:end])


def length_refusal(length: int, frame_bytes_max: int) -> str:
    """Reason to refuse a length that is negative or above the limit."""
    reason = f"frame length {length} is not between 0 and {frame_bytes_max}"
    if length == _HTTP_GET:
        return f"{reason}: this is an HTTP request"
    if length >> 16 == _TLS_HANDSHAKE:
        return f"{reason}: this looks like a TLS client on a plaintext listener"
    return reason


def frame(content: bytes) -> bytes:
    """The content prefixed with its 4-byte length."""
    return _LENGTH.pack(len(content)) + content
