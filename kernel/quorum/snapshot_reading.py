"""The chunks of a fetched snapshot are read before the core hears of them, in slices.

Decoding and applying 100,000 topics takes seconds. So the answer with a chunk waits here while its
records are taken a slice each `SLICE_MS`; to the core it is an answer that came a little later, and
meanwhile it votes, leads nobody astray and keeps its time-outs. With the last chunk everything is
read, and replacing log and image is a short step. The core does not wait longer than it would take
the leader for dead: then what is left is read when the chunk is written.
"""

import zlib
from collections.abc import Callable
from typing import Final

from metadata.illegal import IllegalRecordError
from metadata.image import Image
from metadata.schema import MetadataRecordError
from metadata.snapshot_loading import SnapshotLoading
from network.clock import Clock
from raft.events import ResponseReceived
from raft.messages import FetchSnapshotResponse
from wire.errors import CorruptBatchError
from wire.types import OffsetAndEpoch

SLICE_RECORDS: Final = 200
"""Read in one step: 2 ms."""
SLICE_MS: Final = 1
DAMAGE: Final = (MetadataRecordError, CorruptBatchError, IllegalRecordError)
"""What reading raises when a snapshot cannot be one."""


class SnapshotReading:
    """At most one snapshot is read and at most one answer waits.

    Args:
        clock: of the node.
        committed_image: what a snapshot is compared with.
        hold_ms_max: how long an answer may wait.
    """

    def __init__(
        self, clock: Clock, committed_image: Callable[[], Image], hold_ms_max: int
    ) -> None:
        self._clock = clock
        self._committed_image = committed_image
        self._hold_ms_max = hold_ms_max
        self._loading: SnapshotLoading | None = None
        self._damage: Exception | None = None
        self._held: ResponseReceived | None = None
        self.slice_ms: int | None = None
        """When to tick."""
        self._release_ms = 0

    @property
    def units_done(self) -> int:
        """Records read and topics compared of the snapshot that is being fetched."""
        return 0 if self._loading is None else self._loading.units_done

    def hold(self, event: ResponseReceived) -> bool:
        """Begin to read a chunk; False = there is nothing to read, the core takes the answer now.

        An answer that still waits is forgotten: the core has asked again and would ignore it.
        """
        response = event.response
        assert isinstance(response, FetchSnapshotResponse)
        if not self._feed(response):
            return False
        self._held = event
        self.slice_ms = self._clock.now_ms
        self._release_ms = self._clock.now_ms + self._hold_ms_max
        return True

    def _feed(self, response: FetchSnapshotResponse) -> bool:
        """Whether the chunk is the next of the snapshot that is read, or begins one."""
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
        """Read a slice; the answer when its chunk is read or has waited long enough."""
        now_ms = self._clock.now_ms
        if self.slice_ms is None or self.slice_ms > now_ms:
            return None
        assert self._loading is not None, "an answer waits for a snapshot"
        try:
            is_done = self._loading.advance(SLICE_RECORDS)
        except DAMAGE as error:
            self._damage = error
            is_done = True
        if not is_done and now_ms < self._release_ms:
            self.slice_ms = now_ms + SLICE_MS
            return None
        held, self._held, self.slice_ms = self._held, None, None
        return held

    def finish(self, snapshot_id: OffsetAndEpoch, content: bytes) -> SnapshotLoading:
        """The snapshot whose file holds `content`, read to its end.

        What was read before counts if it was these bytes; else they are read now.

        Raises:
            MetadataRecordError, CorruptBatchError, IllegalRecordError: they are damaged.
        """
        loading, damage = self._loading, self._damage
        self.forget()
        is_same = (
            loading is not None
            and (loading.snapshot_id, loading.size_bytes) == (snapshot_id, len(content))
            and loading.checksum == zlib.crc32(content)
        )
        if loading is None or not is_same:
            loading = SnapshotLoading(snapshot_id, self._committed_image())
            loading.feed(content, is_last=True)
        elif damage is not None:
            raise damage
        while not loading.advance(SLICE_RECORDS):
            pass
        return loading

    def forget(self) -> None:
        """Let go of what was read."""
        self._loading = None
        self._damage = None
        self._held = None
        self.slice_ms = None
