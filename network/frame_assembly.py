"""Frames out of a byte stream that is read straight into memory, each into its own.

The driver receives into `buffer()` and reports the count to `received()`. While a length is
awaited the buffer is a shared piece, from which whole small frames are copied. A frame whose rest
has not come gets memory of its own, into which the rest is received: only what came with its
length is copied.

A length alone costs little memory: a frame gets at once at most `GRANT_BYTES`, more than the
largest request of a client with default settings, and twice as much whenever that is full. (Kafka
allocates the whole length, from a pool that is not limited by default.)
"""

import struct
from typing import Final

from network.frame_memory import FrameMemory
from wire.connections.framing import LENGTH_BYTES, length_refusal

SHARED_BYTES: Final = 64 * 1024
GRANT_BYTES: Final = 2 * 1024 * 1024
_LENGTH: Final = struct.Struct(">i")


class FrameAssembly:
    """The receive side of one connection.

    Args:
        frame_bytes_max: size above which a frame is refused.
        shared: memory to receive into while no frame has its own; holds nothing between `received`
            and the next `buffer`, so all connections of a thread can share it. None = its own.
        memory: of the frames that are not copied from `shared`. None = its own.
        grant_bytes: memory of a frame before more of it has come.
    """

    __slots__ = (
        "_filled_bytes",
        "_frame",
        "_frame_bytes_max",
        "_grant_bytes",
        "_length",
        "_memory",
        "_shared",
        "_start",
        "_view",
        "failure",
    )

    def __init__(
        self,
        frame_bytes_max: int,
        shared: memoryview | None = None,
        memory: FrameMemory | None = None,
        *,
        grant_bytes: int = GRANT_BYTES,
    ) -> None:
        assert frame_bytes_max > 0
        self._shared = memoryview(bytearray(SHARED_BYTES)) if shared is None else shared
        assert LENGTH_BYTES <= len(self._shared) <= grant_bytes
        self._memory = FrameMemory(grant_bytes) if memory is None else memory
        self._frame_bytes_max = frame_bytes_max
        self._grant_bytes = grant_bytes
        self._start = b""
        """Received bytes of an incomplete length."""
        self._frame: bytearray | None = None
        """The incomplete frame, or as much of it as has memory; never full."""
        self._filled_bytes = 0
        self._length = 0
        self._view = self._shared[:0]
        """The buffer last given out."""
        self.failure: str | None = None
        """Reason for which nothing more can be read, behind all frames returned; then close."""

    def buffer(self) -> memoryview:
        """The memory to receive into next, valid until `received`; never empty."""
        assert self.failure is None, "nothing is read behind a bad length"
        if self._frame is not None:
            self._view = memoryview(self._frame)[self._filled_bytes :]
        else:
            start_bytes = len(self._start)
            self._shared[:start_bytes] = self._start
            self._view = self._shared[start_bytes:]
        return self._view

    def received(self, count: int) -> list[bytearray]:
        """Take note of bytes received at the beginning of `buffer()`.

        Returns:
            The frames that they complete, without their lengths, each with memory of its own.
            A bad length behind them is the `failure`.
        """
        assert 0 < count <= len(self._view), f"{count=}"
        self._view.release()  # a frame whose memory is looked at cannot grow
        frame = self._frame
        if frame is None:
            return self._cut(self._shared[: len(self._start) + count])
        self._filled_bytes += count
        if self._filled_bytes < len(frame):
            return []
        if self._filled_bytes < self._length:
            frame.extend(bytes(min(len(frame), self._length - len(frame))))
            return []
        self._frame = None
        return [frame]

    def _cut(self, data: memoryview) -> list[bytearray]:
        """Copy the whole frames, and begin the incomplete one behind them."""
        frames: list[bytearray] = []
        position, end = 0, len(data)
        while (start := position + LENGTH_BYTES) <= end:
            (length,) = _LENGTH.unpack_from(data, position)
            if not 0 <= length <= self._frame_bytes_max:
                self.failure = length_refusal(length, self._frame_bytes_max)
                return frames
            position = start + length
            if position > end:
                self._begin(length, data[start:])
                return frames
            frames.append(bytearray(data[start:position]))
        self._start = bytes(data[position:])
        return frames

    def _begin(self, length: int, first: memoryview) -> None:
        self._start = b""
        self._frame = self._memory.take(min(length, self._grant_bytes))
        self._frame[: len(first)] = first
        self._filled_bytes = len(first)
        self._length = length
