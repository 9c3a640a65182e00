"""Incremental reading of a fetched snapshot: chunks are decoded in slices, between steps.

Decoding and applying 100,000 topics takes seconds. So a response with a chunk is held here while
its records are read, a slice each `SLICE_MS`; the core receives the response a little later, and
meanwhile it handles votes and time-outs. With the last chunk everything is read, and replacing log
and image is a short step. A response is held at most half the fetch time-out; the rest is read when
the chunk is written.
"""

import zlib
from collections.abc import Callable
from typing import Final

from metadata.errors import IllegalRecordError
from metadata.image import Image
from metadata.schema import MetadataRecordError
from metadata.snapshot_loading import SnapshotLoading
from network.clock import Clock
from network.timers import SNAPSHOT_READING
from raft.events import ResponseReceived
from raft.messages import FetchSnapshotResponse
from wire.errors import CorruptBatchError
from wire.types import OffsetAndEpoch

SLICE_RECORDS: Final = 200
"""Records read in one step: 2 ms."""
SLICE_MS: Final = 1
DAMAGE: Final = (MetadataRecordError, CorruptBatchError, IllegalRecordError)
"""Errors that reading raises for a damaged snapshot."""


class SnapshotReading:
    """The reading of at most one snapshot; at most one response is held.

    Args:
        clock: clock of the node.
        committed_image: returns the image that a snapshot is compared with.
        hold_ms_max: longest time that a response is held.
    """

    def __init__(
        self, clock: Clock, committed_image: Callable[[], Image], hold_ms_max: int
    ) -> None:
        self._clock = clock
        self._timers = clock.timers
        self._committed_image = committed_image
        self._hold_ms_max = hold_ms_max
        self._loading: SnapshotLoading | None = None
        self._damage: Exception | None = None
        self._held: ResponseReceived | None = None
        self._release_ms = 0

    @property
    def units_done(self) -> int:
        """Records read and topics compared of the snapshot that is being fetched."""
        return 0 if self._loading is None else self._loading.units_done

    def hold(self, event: ResponseReceived) -> bool:
        """Begin to read a chunk; False = nothing to read, the core handles the response now.

        A response still held is dropped: the core has sent another request and would ignore it.
        """
        response = event.response
        assert isinstance(response, FetchSnapshotResponse)
        if not self._feed(response):
            return False
        self._held = event
        self._timers.set(SNAPSHOT_READING, self._clock.now_ms)
        self._release_ms = self._clock.now_ms + self._hold_ms_max
        return True

    def _feed(self, response: FetchSnapshotResponse) -> bool:
        """Feed the chunk if it is the next of the current snapshot or begins one; else False."""
        snapshot_id, position = response.snapshot_id, response.position_bytes
        if response.error_code or snapshot_id is None or not response.chunk:
            return False
        if position == 0:
            self._loading = SnapshotLoading(snapshot_id, self._committed_image())
            self._damage = None
        loading = self._loading
        if loading is None or self._damage is not None:
            return False
        if (loading.snapshot_id, loading.size_bytes) != (snapshot_id, position):
            return False
        is_last = position + len(response.chunk) == response.size_bytes
        loading.feed(response.chunk, is_last=is_last)
        return True

    def tick(self) -> ResponseReceived | None:
        """Read a slice; return the response if its chunk is read or was held long enough."""
        now_ms = self._clock.now_ms
        if self._timers.at_ms[SNAPSHOT_READING] > now_ms:
            return None
        assert self._loading is not None, "an answer waits for a snapshot"
        try:
            is_done = self._loading.advance(SLICE_RECORDS)
        except DAMAGE as error:
            self._damage = error
            is_done = True
        if not is_done and now_ms < self._release_ms:
            self._timers.set(SNAPSHOT_READING, now_ms + SLICE_MS)
            return None
        held, self._held = self._held, None
        self._timers.clear(SNAPSHOT_READING)
        return held

    def finish(self, snapshot_id: OffsetAndEpoch, content: bytes) -> SnapshotLoading:
        """Return the snapshot whose file holds `content`, read to its end.

        The incremental reading is used if it was of the same bytes; else they are read now.

        Raises:
            MetadataRecordError, CorruptBatchError, IllegalRecordError: the content is damaged.
        """
        loading, damage = self._loading, self._damage
        self.forget()
        if (
            loading is None
            or (loading.snapshot_id, loading.size_bytes) != (snapshot_id, len(content))
            or loading.checksum != zlib.crc32(content)
        ):
            loading = SnapshotLoading(snapshot_id, self._committed_image())
            loading.feed(content, is_last=True)
        elif damage is not None:
            raise damage
        while not loading.advance(SLICE_RECORDS):
            pass
        return loading

    def forget(self) -> None:
        """Drop the snapshot being read and the response held."""
        self._loading = None
        self._damage = None
        self._held = None
        self._timers.clear(SNAPSHOT_READING)
