"""The batch that was appended last, held in memory while it is small and the last.

What a leader appends, its followers and the consumers that wait read at once: they need no handle
of the file, no look at the page cache and no read. Larger batches go from the page cache to the
socket.
"""

from typing import Final

import msgspec

from storage.logs.log import Log
from wire.batches.batch import Batch

TAIL_BYTES_MAX: Final = 2048
"""Size up to which a batch is held: 20 MB for the logs of 10,000 partitions."""


class HeldBatch(msgspec.Struct, frozen=True, gc=False):
    """The last batch of a log: what a `FileSlice` of it would give, and where it stands."""

    content: bytes
    position: int
    """In the file of the segment."""
    segment_base_offset: int
    base_offset: int
    end_offset: int
    generation: int
    """Of the log: another one was truncated since."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the batch."""
        return len(self.content)

    def read(self) -> bytes:
        """The bytes."""
        return self.content

    def close(self) -> None:
        """Nothing: there is no handle."""


class Tail:
    """The last batch of an open log, if it was its leader's append."""

    __slots__ = ("_held", "_log")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._held: HeldBatch | None = None

    def keep(self, batch: Batch) -> None:
        """Hold a batch that was just appended, unless it is too large."""
        content, header, log = batch.buffer, batch.header, self._log
        assert header.end_offset == log.end_offset, f"{header=} {log.end_offset=}"
        size_bytes = len(content)
        if size_bytes > TAIL_BYTES_MAX:
            return  # what is held is not the last any more
        active = log.segments[-1]
        assert active.size_bytes >= size_bytes, f"{active.path} {active.size_bytes=} {size_bytes=}"
        self._held = HeldBatch(
            bytes(content),
            active.size_bytes - size_bytes,
            active.base_offset,
            header.base_offset,
            header.end_offset,
            log.generation,
        )

    def batch_at(self, offset: int, end_offset: int) -> HeldBatch | None:
        """The batch, if it is still the last one, begins at `offset` and may be read.

        Args:
            offset: not below the log start.
            end_offset: first one that may not be read.
        """
        held, log = self._held, self._log
        if held is None or held.base_offset != offset or held.end_offset > end_offset:
            return None
        is_last = held.end_offset == log.end_offset and held.generation == log.generation
        return (
            held if is_last and held.segment_base_offset == log.segments[-1].base_offset else None
        )
