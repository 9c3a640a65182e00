"""The log of a coordinator's partition in memory, for tests of what runs on a shard."""

from collections.abc import Sequence

from coordinator.records.codec import decode
from coordinator.records.kinds import Kinds
from coordinator.records.schema import CoordinatorRecord
from coordinator.runtime.machine import ImageT
from coordinator.runtime.shard import Shard
from storage.producers.verification import VerificationGuard
from wire.batches.batch import Batch, BatchHeader, RecordView
from wire.errors import ErrorCode
from wire.types import Offset


class MemoryShardLog:
    """Batches at their offsets; `high_watermark` rises when the test says so."""

    def __init__(self, *, batch_bytes_max: int = 1_048_588, end_offset: int = 0) -> None:
        self.batch_bytes_max = batch_bytes_max
        self.end_offset = Offset(end_offset)
        self.high_watermark = Offset(end_offset)
        self.batches: list[tuple[Offset, Batch]] = []
        """Base offset and batch; offsets inside of a batch begin at 0."""
        self.sources: list[tuple[VerificationGuard | None, int]] = []
        """Guard and transaction version of each append."""
        self.buffered_count = 0
        self.unflushed_offset: Offset | None = None
        self.refusing: ErrorCode | None = None
        """The error of each append, as long as it is set."""

    def append(
        self, batch: Batch, *, guard: VerificationGuard | None = None, transaction_version: int = 0
    ) -> Offset | ErrorCode:
        self.sources.append((guard, transaction_version))
        if self.refusing is not None:
            return self.refusing
        assert batch.crc_is_valid
        assert len(batch.buffer) <= self.batch_bytes_max
        batch.buffer[0] = 0  # a leader stamps its offset in place
        self.batches.append((self.end_offset, batch))
        self.end_offset = Offset(self.end_offset + batch.header.end_offset)
        return self.end_offset

    def buffered(self) -> None:
        self.buffered_count += 1

    def records(self, kinds: Kinds) -> list[list[CoordinatorRecord | None]]:
        """The records of each batch."""
        return [
            [decode(kinds, view.key, view.value) for view in batch.records()]
            for _, batch in self.batches
            if not batch.header.is_control
        ]

    def replayed(self) -> list[tuple[BatchHeader, Sequence[RecordView]]]:
        """The batches with records at their offsets in the log."""
        found = []
        for base_offset, batch in self.batches:
            views = [
                RecordView(Offset(base_offset + v.offset), v.timestamp_ms, v.key, v.value)
                for v in batch.records()
            ]
            found.append((batch.header, views))
        return found

    def commit(self, shard: Shard[ImageT], high_watermark: int | None = None) -> None:
        """Append what the shard has buffered and raise the high watermark, to the end if None."""
        shard.flush()
        end = self.end_offset if high_watermark is None else Offset(high_watermark)
        assert self.high_watermark <= end <= self.end_offset
        self.high_watermark = end
        shard.advance(end)

    def load(self, shard: Shard[ImageT]) -> None:
        """Load all of the log into a new shard and activate it."""
        for header, views in self.replayed():
            shard.replay(header, views, high_watermark=self.high_watermark)
        shard.activate()
