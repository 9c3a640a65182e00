"""State of one producer at a partition: its epoch, its newest batches, its open transaction.

apache/kafka: storage/.../log/{ProducerStateEntry,BatchMetadata}.java
"""

from collections import deque
from typing import Final

import msgspec

from storage.producers.producer_snapshot import ProducerSnapshotEntry
from wire.batches.batch import BatchHeader

BATCHES_MAX: Final = 5
"""Batches kept for each producer, as `max.in.flight.requests.per.connection` of idempotent ones."""
NONE: Final = -1
_SEQUENCE_MAX: Final = (1 << 31) - 1


class BatchMetadata(msgspec.Struct, frozen=True, gc=False):
    """One batch of a producer; offsets and sequences are inclusive."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record; -1 for none, as of a batch without sequences."""
        return decrement_sequence(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        return self.last_offset - self.offset_delta


class ProducerStateEntry:
    """State of one producer id; -1 in the epochs and `current_transaction_first_offset` is none."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_transaction_first_offset",
        "last_timestamp_ms",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NONE,
        coordinator_epoch: int = NONE,
        last_timestamp_ms: int = NONE,
        current_transaction_first_offset: int = NONE,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp_ms = last_timestamp_ms
        self.current_transaction_first_offset = current_transaction_first_offset
        self.batches: deque[BatchMetadata] = deque(maxlen=BATCHES_MAX)

    @property
    def last_sequence(self) -> int:
        """Sequence of the newest record; -1 without a batch."""
        return self.batches[-1].last_sequence if self.batches else NONE

    def duplicate_of(self, header: BatchHeader) -> BatchMetadata | None:
        """The kept batch with the epoch and the sequences of this one, None if none has them."""
        if header.producer_epoch != self.producer_epoch:
            return None
        for batch in self.batches:
            if (
                batch.first_sequence == header.base_sequence
                and batch.last_sequence == header.last_sequence
            ):
                return batch
        return None

    def raise_epoch_to(self, producer_epoch: int) -> None:
        """Take an epoch over; batches of another one are forgotten."""
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch

    def snapshot_entry(self) -> ProducerSnapshotEntry:
        """The entry of a `.snapshot` file; of the batches only the newest is in it."""
        newest = self.batches[-1] if self.batches else None
        return ProducerSnapshotEntry(
            self.producer_id,
            self.producer_epoch,
            NONE if newest is None else newest.last_sequence,
            NONE if newest is None else newest.last_offset,
            0 if newest is None else newest.offset_delta,
            self.last_timestamp_ms,
            self.coordinator_epoch,
            self.current_transaction_first_offset,
        )


def increment_sequence(sequence: int, number: int) -> int:
    """The sequence `number` after; 2^31-1 is followed by 0. The one after -1 is 0."""
    assert sequence >= NONE, f"{sequence=}"
    assert number >= 0, f"{number=}"
    return (sequence + number) & _SEQUENCE_MAX


def decrement_sequence(sequence: int, number: int) -> int:
    """The sequence `number` before; 0 comes after 2^31-1. -1, none, stays -1."""
    return NONE if sequence == NONE else (sequence - number) & _SEQUENCE_MAX
