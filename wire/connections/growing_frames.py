"""Frames of a stream that may be megabytes, each in memory that grows as its portions come.

Little is left to do when the last portion of a frame has come, and no frame is held twice. The
reader of `wire.connections.framing` joins the portions of a frame at its end.
"""

import struct
from typing import Final

from wire.connections.framing import LENGTH_BYTES, length_refusal
from wire.errors import RemoteProtocolError
from wire.primitives import Buffer

_LENGTH: Final = struct.Struct(">i")


class GrowingFrames:
    """Reader of frames from a byte stream that arrives in portions of any size.

    Args:
        frame_bytes_max: size above which a frame is refused.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        assert frame_bytes_max > 0
        self._frame_bytes_max = frame_bytes_max
        self._frame: bytearray | None = None
        """The frame that has begun to come."""
        self._missing_bytes = 0
        """Bytes of it that have not come."""
        self._behind = bytearray()
        """The bytes behind it, or the first bytes of a length."""

    @property
    def buffered_bytes(self) -> int:
        """Number of bytes received and not yet returned as frames, but for lengths."""
        return len(self._behind) + (0 if self._frame is None else len(self._frame))

    def feed(self, received: Buffer) -> None:
        """Add bytes of the stream."""
        view = memoryview(received)
        if self._frame is not None and self._missing_bytes:
            portion = view[: self._missing_bytes]
            self._frame += portion
            self._missing_bytes -= len(portion)
            view = view[len(portion) :]
        self._behind += view

    def next_frame(self) -> Buffer | None:
        """The next whole frame without its length; None until more bytes arrive.

        Raises:
            RemoteProtocolError: the length is negative or above the limit.
        """
        if self._frame is None and not self._begin():
            return None
        if self._missing_bytes:
            return None
        frame, self._frame = self._frame, None
        return frame

    def _begin(self) -> bool:
        """Begin with the next frame; False if its length has not come."""
        behind = self._behind
        if len(behind) < LENGTH_BYTES:
            return False
        (length,) = _LENGTH.unpack_from(behind)
        if length < 0 or length > self._frame_bytes_max:
            raise RemoteProtocolError(length_refusal(length, self._frame_bytes_max))
        end = LENGTH_BYTES + length
        self._frame = behind[LENGTH_BYTES:end]
        self._missing_bytes = length - len(self._frame)
        del behind[:end]
        return True
