"""Loading of a shard from the log of its partition, some records at a time.

As in Kafka the log is read to its end, also above the high watermark. Unlike there the checksums of
its batches are compared: what a disk has changed is not taken for what was committed.
(apache/kafka: coordinator-common/.../runtime/CoordinatorLoaderImpl.java)
"""

from collections.abc import Iterator
from typing import Final, Generic

from coordinator.runtime.machine import ImageT
from coordinator.runtime.shard import Shard
from storage.errors import CorruptLogError
from storage.logs.unified_log import FetchIsolation, UnifiedLog
from storage.segments.segment import segment_name
from wire.batches.batch import Batch, BatchHeader, RecordView
from wire.batches.legacy_batch import LegacyRecord, iterate_any
from wire.batches.records import RecordReader
from wire.errors import CorruptBatchError
from wire.types import LeaderEpoch, Offset

READ_BYTES_MAX: Final = 64 * 1024
"""Bytes of one read, within `offsets.load.buffer.size`."""
RECORDS_PER_PIECE: Final = 256
"""A commit of them changes each map of the image once, whatever it sets."""
RECORD_UNITS: Final = 2
"""Cost of a record in units of a turn's budget: read, decoded, applied to the image."""
READ_UNITS: Final = 60
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
        self._pieces: Iterator[tuple[BatchHeader, list[RecordView]]] = iter(())
        """Records of what was read last, in the order of the log."""

    def step(self, log: UnifiedLog) -> int | None:
        """Apply a piece or read some bytes; the units spent, None if the log is loaded.

        Raises:
            CoordinatorRecordError, CorruptBatchError, CorruptLogError: it cannot be loaded.
            OSError: the disk has failed.
        """
        piece = next(self._pieces, None)
        if piece is not None:
            header, records = piece
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
            path = f"{log.log.directory}/{segment_name(part.segment_base_offset)}"
            raise CorruptLogError(path, part.position + damage[0], damage[1])
        self._pieces = self._read(content, position)
        return READ_UNITS

    def _read(
        self, content: bytes, position: Offset
    ) -> Iterator[tuple[BatchHeader, list[RecordView]]]:
        """Pieces of records from a position on, with the header of their batch."""
        for batch in iterate_any(content):
            if isinstance(batch, Batch):
                reader = RecordReader(batch.header, batch.section())
                while not reader.is_at_end:
                    records = reader.take(RECORDS_PER_PIECE, len(content))
                    yield batch.header, [view for view in records if view.offset >= position]
                self._position = batch.header.end_offset
            else:
                views = [view for view in map(_view, batch.records()) if view.offset >= position]
                for start in range(0, len(views), RECORDS_PER_PIECE):
                    yield NO_PRODUCER, views[start : start + RECORDS_PER_PIECE]
                self._position = Offset(batch.last_offset + 1)
        if self._position <= position:
            raise CorruptBatchError(f"no whole batch at offset {position}")


def _view(record: LegacyRecord) -> RecordView:
    """A message of magic 0 or 1, which an old broker has written."""
    return RecordView(record.offset, record.timestamp_ms, record.key, record.value)
