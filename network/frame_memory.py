"""Memory of large frames, used again when nobody holds the frame any more.

Fresh memory of a megabyte is mapped, zeroed and unmapped by the operating system, page by page:
a sixth of the CPU of a produced megabyte. A frame is a `bytearray` that its handler may keep, and
views into it, for as long as it waits; CPython's reference count tells when the last is gone.
"""

import sys
from collections import deque
from typing import Final

KEPT_MAX: Final = 8


class FrameMemory:
    """The memory of the frames of one thread.

    Args:
        frame_bytes_max: size of a frame above which its memory is not kept.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        assert frame_bytes_max > 0
        self._frame_bytes_max = frame_bytes_max
        self._kept: deque[bytearray] = deque()
        """Frames given out, at most KEPT_MAX, oldest first."""
        alone = bytearray()
        self._holders_alone = sys.getrefcount(alone)

    def take(self, size_bytes: int) -> bytearray:
        """Memory of exactly this size, with any content, that nobody else holds."""
        kept = self._kept
        for _ in range(len(kept)):
            frame = kept.popleft()
            if len(frame) > self._frame_bytes_max:  # it has grown
                continue
            if sys.getrefcount(frame) == self._holders_alone:
                _resize(frame, size_bytes)
                kept.append(frame)
                return frame
            kept.append(frame)
        frame = bytearray(size_bytes)
        if len(kept) == KEPT_MAX:
            kept.popleft()
        kept.append(frame)
        return frame


def _resize(frame: bytearray, size_bytes: int) -> None:
    if len(frame) > size_bytes:
        del frame[size_bytes:]
    else:
        frame.extend(bytes(size_bytes - len(frame)))
