"""Loading of a shard from the log of its partition, some records at a time.

As in Kafka the log is read to its end, also above the high watermark. Unlike there the checksums of
its batches are compared: what a disk has changed is not taken for what was committed.
(apache/kafka: coordinator-common/.../runtime/CoordinatorLoaderImpl.java)
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, Generic

from coordinator.runtime.machine import ImageT
from coordinator.runtime.shard import Shard
from storage.logs.unified_log import FetchIsolation, UnifiedLog
from wire.batches.batch import Batch, BatchHeader, RecordView
from wire.batches.legacy_batch import LegacyBatch, iterate_any
from wire.errors import CorruptBatchError
from wire.types import LeaderEpoch, Offset

READ_BYTES_MAX: Final = 64 * 1024
"""Bytes of one read, within `offsets.load.buffer.size`: more would be decoded in one turn."""
RECORDS_PER_PIECE: Final = 32
RECORD_UNITS: Final = 6
"""Cost of a record in units of a turn's budget: read, decoded, applied to the image."""
READ_UNITS: Final = 100
"""Cost of a read."""
NO_PRODUCER: Final = BatchHeader(
    base_offset=Offset(0),
    leader_epoch=LeaderEpoch(-1),
    last_offset_delta=0,
    base_timestamp_ms=0,
    max_timestamp_ms=0,
    records_count=0,
)
"""Header of messages that came before producers had ids; nothing else of it is read."""


class Loading(Generic[ImageT]):
    """A shard that loads, with its place in the log.

    Args:
        shard: in state LOADING.
        number: of its partition.
        read_bytes_max: bound of a read; a larger batch is read whole.
        started_ms: begin of the load.
    """

    def __init__(
        self, shard: Shard[ImageT], number: int, read_bytes_max: int, started_ms: int = 0
    ) -> None:
        self.shard = shard
        self.number = number
        self.record_count = 0
        self.started_ms = started_ms
        self._read_bytes_max = min(READ_BYTES_MAX, read_bytes_max)
        self._position = Offset(0)
        self._pieces: deque[tuple[BatchHeader, Sequence[RecordView]]] = deque()

    def step(self, log: UnifiedLog) -> int | None:
        """Apply a piece or read some bytes; the units spent, None if the log is loaded.

        Raises:
            CoordinatorRecordError, CorruptBatchError, CorruptLogError: it cannot be loaded.
            OSError: the disk has failed.
        """
        if self._pieces:
            header, records = self._pieces.popleft()
            self.shard.replay(header, records, high_watermark=Offset(log.high_watermark))
            self.record_count += len(records)
            return RECORD_UNITS * len(records)
        position = Offset(max(self._position, log.log_start_offset))
        if position >= log.end_offset:
            return None
        part = log.slice(position, self._read_bytes_max, FetchIsolation.LOG_END, at_least_one=True)
        if part is None:
            return None
        try:
            content = part.read()
        finally:
            part.close()
        damage = log.log.config.damage_in(content, position)
        if damage is not None:
            raise CorruptBatchError(damage[1])
        self._take(content, position)
        return READ_UNITS

    def _take(self, content: bytes, position: Offset) -> None:
        for batch in iterate_any(content):
            header, records, end_offset = _read(batch)
            rest = [view for view in records if view.offset >= position]
            for start in range(0, len(rest), RECORDS_PER_PIECE):
                self._pieces.append((header, rest[start : start + RECORDS_PER_PIECE]))
            self._position = end_offset
        if self._position <= position:
            raise CorruptBatchError(f"no whole batch at offset {position}")


def _read(batch: Batch | LegacyBatch) -> tuple[BatchHeader, Sequence[RecordView], Offset]:
    """Header, records and end of a batch; messages of magic 0 and 1 are those of old brokers."""
    if isinstance(batch, Batch):
        return batch.header, batch.records(), batch.header.end_offset
    views = [
        RecordView(each.offset, each.timestamp_ms, each.key, each.value) for each in batch.records()
    ]
    return NO_PRODUCER, views, Offset(batch.last_offset + 1)
