"""Frames out of a byte stream that is read straight into memory, each into its own.

The driver receives into `buffer()` and reports the count to `received()`. While a length is
awaited the buffer is a shared piece, from which whole small frames are copied. A frame whose rest
has not come gets memory of its own, into which the rest is received: only what came with its
length is copied.

A length alone costs little memory: a frame gets at once at most `GRANT_BYTES`, more than the
largest request of a client with default settings, and twice as much whenever that is full. Of the
pool it takes its whole length when that and its API key have come, as in Kafka, and holds it until
whoever gets the frame gives it back. While the pool has no room, nothing is received.
"""

import struct
from typing import Final

from network.frame_memory import FrameMemory
from network.memory_pool import API_KEY_BYTES, MemoryPool, counted_bytes
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
        pool: bounds the frames of all connections. None = they are not bounded.
        connection_id: of this one, for the pool.
    """

    __slots__ = (
        "_begun",
        "_connection_id",
        "_filled_bytes",
        "_frame",
        "_frame_bytes_max",
        "_grant_bytes",
        "_length",
        "_memory",
        "_pool",
        "_pooled_bytes",
        "_shared",
        "_start",
        "_view",
        "failure",
        "is_starved",
    )

    def __init__(
        self,
        frame_bytes_max: int,
        shared: memoryview | None = None,
        memory: FrameMemory | None = None,
        *,
        grant_bytes: int = GRANT_BYTES,
        pool: MemoryPool | None = None,
        connection_id: int = 0,
    ) -> None:
        assert frame_bytes_max > 0
        self._shared = memoryview(bytearray(SHARED_BYTES)) if shared is None else shared
        assert LENGTH_BYTES + API_KEY_BYTES <= len(self._shared) <= grant_bytes
        self._pool = pool
        self._connection_id = connection_id
        self._memory = FrameMemory(grant_bytes) if memory is None else memory
        self._frame_bytes_max = frame_bytes_max
        self._grant_bytes = grant_bytes
        self._start = b""
        """Received bytes of an incomplete length or API key, or of frames that wait for memory."""
        self._frame: bytearray | None = None
        """The incomplete frame, or as much of it as has memory; never full."""
        self._filled_bytes = 0
        self._length = 0
        self._pooled_bytes = 0
        """Bytes of the pool that the incomplete frame holds."""
        self._begun = 0
        """Number of frames that did not come whole."""
        self._view = self._shared[:0]
        """The buffer last given out."""
        self.failure: str | None = None
        """Reason for which nothing more can be read, behind all frames returned; then close."""
        self.is_starved = False
        """True while the next frame waits for memory of the pool: until `granted`."""

    @property
    def is_within_frame(self) -> bool:
        """True while a frame with memory of its own is received: nothing behind it is."""
        return self._frame is not None

    @property
    def progress(self) -> tuple[int, int] | None:
        """Measure of the incomplete frame that holds memory of the pool; another pair if it grew.

        None without one.
        """
        return (self._begun, self._filled_bytes) if self._pooled_bytes else None

    def buffer(self) -> memoryview:
        """The memory to receive into next, valid until `received`; never empty."""
        assert self.failure is None, "nothing is read behind a bad length"
        assert not self.is_starved, "nothing is read before there is memory"
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
        self._pooled_bytes = 0
        return [frame]

    def granted(self) -> list[bytearray]:
        """Go on when the pool has room for the next frame; as `received`."""
        assert self.is_starved
        self.is_starved = False
        return self._cut(memoryview(self._start))

    def close(self) -> None:
        """Give back the memory of the incomplete frame, and wait for none; nothing follows."""
        if self._pool is not None:
            self._pool.leave(self._connection_id)
            self._pool.release(self._pooled_bytes)
        self._pooled_bytes = 0

    def _cut(self, data: memoryview) -> list[bytearray]:
        """Copy the whole frames, and begin the incomplete one behind them."""
        frames: list[bytearray] = []
        position, end = 0, len(data)
        while (start := position + LENGTH_BYTES) <= end:
            (length,) = _LENGTH.unpack_from(data, position)
            if not 0 <= length <= self._frame_bytes_max:
                self.failure = length_refusal(length, self._frame_bytes_max)
                return frames
            key_end = start + min(length, API_KEY_BYTES)
            if key_end > end or not self._take(counted_bytes(length, data[start:key_end])):
                break
            position = start + length
            if position > end:
                self._begin(length, data[start:])
                return frames
            self._pooled_bytes = 0
            frames.append(bytearray(data[start:position]))
        self._start = bytes(data[position:])
        return frames

    def _take(self, count: int) -> bool:
        """Take memory for the next frame, or begin to wait for it."""
        if count and self._pool is not None:
            if not self._pool.take(self._connection_id, count):
                self.is_starved = True
                return False
            self._pooled_bytes = count
        return True

    def _begin(self, length: int, first: memoryview) -> None:
        self._start = b""
        self._begun += 1
        self._frame = self._memory.take(min(length, self._grant_bytes))
        self._frame[: len(first)] = first
        self._filled_bytes = len(first)
        self._length = length
