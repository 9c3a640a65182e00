"""Frames of a stream that may be megabytes, each in memory that is filled as its portions come.

Little is left to do when the last portion of a frame has come: the reader of
`wire.connections.framing` joins the portions of a frame at its end. The memory of a large frame is
mapped by the operating system page by page when it is written to, as nothing else spreads that over
the portions: a `bytearray` is zeroed as a whole, and one that grows is copied as a whole now and
then. It is used again when nobody holds the frame any more.
"""

import mmap
import struct
import sys
from typing import Final

from wire.connections.framing import LENGTH_BYTES, length_refusal
from wire.errors import RemoteProtocolError
from wire.primitives import Buffer

MAPPED_BYTES_MIN: Final = 128 * 1024
"""Size from which a frame has mapped memory."""
KEPT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Size up to which mapped memory is kept for other frames: of a whole response, usually."""
IDLE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Size above which it is given back at the first frame that needs less than a quarter of it."""
_LENGTH: Final = struct.Struct(">i")


class GrowingFrames:
    """Reader of frames from a byte stream that arrives in portions of any size.

    Args:
        frame_bytes_max: size above which a frame is refused.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        assert frame_bytes_max > 0
        self._frame_bytes_max = frame_bytes_max
        self._frame: memoryview | None = None
        """The frame that has begun to come."""
        self._filled_bytes = 0
        """Bytes of it that have come."""
        self._kept: mmap.mmap | None = None
        alone = bytearray()
        self._holders_alone = sys.getrefcount(alone)
        self._behind = bytearray()
        """The bytes behind it, or the first bytes of a length."""

    @property
    def buffered_bytes(self) -> int:
        """Number of bytes received and not yet returned as frames, but for lengths."""
        return len(self._behind) + (0 if self._frame is None else self._filled_bytes)

    def feed(self, received: Buffer) -> None:
        """Add bytes of the stream."""
        view = memoryview(received)
        if self._frame is not None:
            view = view[self._fill(view) :]
        self._behind += view

    def _fill(self, view: memoryview) -> int:
        """Put what comes at the end of the frame; the number of its bytes."""
        assert self._frame is not None, "it has begun"
        start = self._filled_bytes
        portion = view[: len(self._frame) - start]
        self._frame[start : start + len(portion)] = portion
        self._filled_bytes += len(portion)
        return len(portion)

    def next_frame(self) -> Buffer | None:
        """The next whole frame without its length; None until more bytes arrive.

        Raises:
            RemoteProtocolError: the length is negative or above the limit.
        """
        if self._frame is None and not self._begin():
            return None
        frame = self._frame
        if frame is None or self._filled_bytes < len(frame):
            return None
        self._frame = None
        return frame

    def _begin(self) -> bool:
        """Begin with the next frame; False if its length has not come."""
        behind = self._behind
        if len(behind) < LENGTH_BYTES:
            return False
        (length,) = _LENGTH.unpack_from(behind)
        if length < 0 or length > self._frame_bytes_max:
            raise RemoteProtocolError(length_refusal(length, self._frame_bytes_max))
        self._frame, self._filled_bytes = self._memory(length), 0
        with memoryview(behind) as view:
            filled = self._fill(view[LENGTH_BYTES:])
        del behind[: LENGTH_BYTES + filled]
        return True

    def _memory(self, size_bytes: int) -> memoryview:
        """Memory of this size that nobody else holds."""
        if self._kept is not None and 4 * size_bytes < len(self._kept) > IDLE_BYTES_MAX:
            self._kept = None
        if size_bytes < MAPPED_BYTES_MIN:
            return memoryview(bytearray(size_bytes))
        kept, self._kept = self._kept, None
        is_free = kept is not None and sys.getrefcount(kept) == self._holders_alone
        if kept is None or not is_free or len(kept) < size_bytes:
            kept = mmap.mmap(-1, size_bytes)
        if len(kept) <= KEPT_BYTES_MAX:
            self._kept = kept
        return memoryview(kept)[:size_bytes]
