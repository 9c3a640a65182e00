"""Producers of a partition: sequences of their newest batches, and their open transactions.

A leader asks before it appends: is the batch a duplicate of one of the last five, does it follow
the one before, is its epoch the newest? A replica and recovery feed the same state without asking
for the sequence. Transactions that are open, or that ended at or above the high watermark, hold
back the last stable offset.

    INV-PS-1  a producer has at most five batches, of its newest epoch, in the order of offsets
    INV-PS-2  an open transaction of a producer is in `_open` under its first offset, and only there
    INV-PS-3  `end_offset` covers every batch that was fed: offsets below it are in the state

apache/kafka: storage/.../log/{ProducerStateManager,ProducerAppendInfo,ProducerStateEntry}.java
"""

from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import Final

import msgspec

from storage.producers.producer_snapshot import ProducerSnapshotEntry
from wire.batches.batch import BatchHeader
from wire.errors import ErrorCode
from wire.types import Offset

BATCHES_MAX: Final = 5
"""Batches kept for each producer, as `max.in.flight.requests.per.connection` of idempotent ones."""
NONE: Final = -1
_SEQUENCE_MAX: Final = (1 << 31) - 1


class Origin(Enum):
    """The sender of a batch; Kafka's AppendOrigin."""

    CLIENT = "client"
    """A producer: sequences are checked."""
    COORDINATOR = "coordinator"
    """A coordinator of this broker; also the markers of transactions."""
    REPLICATION = "replication"
    """The leader, or the log itself in recovery: what was accepted once is taken."""


class ProducerStateError(Exception):
    """A batch that its producer may not write; `code` is the error of the answer."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


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


class EndOfTransaction(msgspec.Struct, frozen=True, gc=False):
    """A marker; `offset` is its own."""

    is_abort: bool
    coordinator_epoch: int
    offset: int
    timestamp_ms: int


class CompletedTransaction(msgspec.Struct, frozen=True, gc=False):
    """A transaction that its marker ended; both offsets are inclusive, the last is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


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


class ProducerAppend:
    """The batches of one producer in one append: validated one by one, then taken over at once.

    The state itself stays as it is until `ProducerStates.update`; a batch that is refused in the
    middle of an append leaves nothing behind.
    """

    def __init__(self, partition: str, current: ProducerStateEntry, origin: Origin) -> None:
        """Begin with the state as it stands.

        Args:
            partition: `topic-number`, for error texts.
            current: of the producer; one that is new has epoch -1.
            origin: of all batches of the append.
        """
        self._partition = partition
        self._current = current
        self._origin = origin
        self.updated = ProducerStateEntry(
            current.producer_id,
            current.producer_epoch,
            current.coordinator_epoch,
            current.last_timestamp_ms,
            current.current_transaction_first_offset,
        )
        self.started: list[int] = []
        """First offsets of the transactions that begin in this append."""

    def add(self, header: BatchHeader) -> None:
        """Take a batch of records.

        Args:
            header: of a batch with producer id, stamped with its offsets.

        Raises:
            ProducerStateError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or
                INVALID_TXN_STATE; nothing is taken.
        """
        assert not header.is_control
        assert header.producer_id == self.updated.producer_id
        updated, first_offset = self.updated, header.base_offset
        self._check_epoch(header.producer_epoch, first_offset)
        if self._origin is Origin.CLIENT:
            self._check_sequence(header.producer_epoch, header.base_sequence, first_offset)
        is_open = updated.current_transaction_first_offset != NONE
        if is_open and not header.is_transactional:
            raise ProducerStateError(
                ErrorCode.invalid_txn_state,
                f"Expected transactional write from producer {updated.producer_id} at offset"
                f" {first_offset} in partition {self._partition}",
            )
        updated.raise_epoch_to(header.producer_epoch)
        if updated.batches:
            last_offset = updated.batches[-1].last_offset
            assert last_offset < first_offset, f"INV-PS-1 {last_offset=} {first_offset=}"
        updated.batches.append(
            BatchMetadata(
                header.last_sequence,
                header.last_offset,
                header.last_offset - first_offset,
                header.max_timestamp_ms,
            )
        )
        updated.last_timestamp_ms = header.max_timestamp_ms
        if header.is_transactional and not is_open:
            updated.current_transaction_first_offset = first_offset
            self.started.append(first_offset)

    def end_transaction(
        self, marker: EndOfTransaction, producer_epoch: int
    ) -> CompletedTransaction | None:
        """Take a marker; None for one that ends no transaction, it only raises the epoch.

        Raises:
            ProducerStateError: INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.
        """
        updated, first_offset = self.updated, self.updated.current_transaction_first_offset
        self._check_epoch(producer_epoch, marker.offset)
        is_fenced = marker.coordinator_epoch < updated.coordinator_epoch
        if is_fenced and self._origin is not Origin.REPLICATION:
            raise ProducerStateError(
                ErrorCode.transaction_coordinator_fenced,
                f"Invalid coordinator epoch for producer {updated.producer_id} at offset"
                f" {marker.offset} in partition {self._partition}: {marker.coordinator_epoch}"
                f" (zombie), {updated.coordinator_epoch} (current)",
            )
        updated.raise_epoch_to(producer_epoch)
        updated.coordinator_epoch = marker.coordinator_epoch
        updated.last_timestamp_ms = marker.timestamp_ms
        updated.current_transaction_first_offset = NONE
        if first_offset == NONE:
            return None
        return CompletedTransaction(
            updated.producer_id, first_offset, marker.offset, marker.is_abort
        )

    def _check_epoch(self, producer_epoch: int, offset: int) -> None:
        last = self.updated.producer_epoch
        if producer_epoch < last and self._origin is not Origin.REPLICATION:
            raise ProducerStateError(
                ErrorCode.invalid_producer_epoch,
                f"Epoch of producer {self.updated.producer_id} at offset {offset} in"
                f" {self._partition} is {producer_epoch}, which is smaller than the last seen"
                f" epoch {last}",
            )

    def _check_sequence(self, producer_epoch: int, first_sequence: int, offset: int) -> None:
        updated, current = self.updated, self._current
        where = f"{updated.producer_id} at offset {offset} in partition {self._partition}"
        if producer_epoch != updated.producer_epoch:
            if first_sequence != 0 and updated.producer_epoch != NONE:
                raise ProducerStateError(
                    ErrorCode.out_of_order_sequence_number,
                    f"Invalid sequence number for new epoch of producer {where}: {producer_epoch}"
                    f" (request epoch), {first_sequence} (seq. number), {updated.producer_epoch}"
                    " (current producer epoch)",
                )
            return
        last = updated.last_sequence
        if not updated.batches and producer_epoch == current.producer_epoch:
            last = current.last_sequence
        if current.producer_epoch != NONE and first_sequence != increment_sequence(last, 1):
            raise ProducerStateError(
                ErrorCode.out_of_order_sequence_number,
                f"Out of order sequence number for producer {where}: {first_sequence} (incoming"
                f" seq. number), {last} (current end sequence number)",
            )


class _Transaction:
    """An open or completed transaction; `last_offset` is -1 while it is open."""

    __slots__ = ("first_offset", "last_offset", "producer_id")

    def __init__(self, producer_id: int, first_offset: int) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.last_offset = NONE


class ProducerStates:
    """All producers of a partition, below `end_offset`.

    Args:
        partition: `topic-number`, for error texts.
        expiration_ms: `producer.id.expiration.ms`.
        end_offset: where the log that is about to be fed begins.
    """

    def __init__(self, partition: str, expiration_ms: int, end_offset: int = 0) -> None:
        self._partition = partition
        self.expiration_ms = expiration_ms
        self.end_offset = end_offset
        self._producers: dict[int, ProducerStateEntry] = {}
        self._open: dict[int, _Transaction] = {}
        """By first offset, ascending: they begin in the order of the log."""
        self._unreplicated: dict[int, _Transaction] = {}
        """Ended, with a marker at or above the high watermark; by first offset."""

    def __len__(self) -> int:
        """The number of producers."""
        return len(self._producers)

    @property
    def is_empty(self) -> bool:
        """True without producers and without ended transactions above the high watermark."""
        return not self._producers and not self._unreplicated

    def entry(self, producer_id: int) -> ProducerStateEntry | None:
        """The state of a producer, None for one that wrote nothing lately."""
        return self._producers.get(producer_id)

    def entries(self) -> Iterable[ProducerStateEntry]:
        """The state of all, the one that wrote first for the longest time first."""
        return self._producers.values()

    # -- append ---------------------------------------------------------------------------------

    def prepare(self, producer_id: int, origin: Origin) -> ProducerAppend:
        """The start of an append of a producer; `update` takes over what it added."""
        assert producer_id > NONE, f"{producer_id=}"
        current = self._producers.get(producer_id) or ProducerStateEntry(producer_id)
        return ProducerAppend(self._partition, current, origin)

    def update(self, *appends: ProducerAppend) -> None:
        """Take over what an append added, for all its producers; its records are in the log."""
        started: list[tuple[int, int]] = []
        for append in appends:
            self._update_entry(append.updated)
            started += [(first, append.updated.producer_id) for first in append.started]
        for first_offset, producer_id in sorted(started):
            before = next(reversed(self._open), NONE)
            assert before < first_offset, f"INV-PS-2 {before=} {first_offset=}"
            self._open[first_offset] = _Transaction(producer_id, first_offset)

    def _update_entry(self, updated: ProducerStateEntry) -> None:
        current = self._producers.get(updated.producer_id)
        if current is None:
            self._producers[updated.producer_id] = updated
        else:
            current.raise_epoch_to(updated.producer_epoch)
            current.batches.extend(updated.batches)
            current.coordinator_epoch = updated.coordinator_epoch
            current.last_timestamp_ms = updated.last_timestamp_ms
            current.current_transaction_first_offset = updated.current_transaction_first_offset

    def complete(self, completed: CompletedTransaction) -> int:
        """Note the end of a transaction, after `update`.

        Returns:
            The last stable offset behind it, for the transaction index: the first offset of the
            oldest other transaction that is open, else the offset behind the marker.
        """
        transaction = self._open.pop(completed.first_offset)
        owner_id, producer_id = transaction.producer_id, completed.producer_id
        assert owner_id == producer_id, f"INV-PS-2 {owner_id=} {producer_id=}"
        transaction.last_offset = completed.last_offset
        self._unreplicated[completed.first_offset] = transaction
        return next(iter(self._open), completed.last_offset + 1)

    def note_end(self, end_offset: int) -> None:
        """The log ends here now: batches without a producer are in the state too."""
        assert end_offset >= self.end_offset, f"{end_offset=} {self.end_offset=}"
        self.end_offset = end_offset

    # -- last stable offset ---------------------------------------------------------------------

    @property
    def first_unstable_offset(self) -> Offset | None:
        """First offset of the oldest transaction that is not known to be ended below the HW."""
        if not self._open and not self._unreplicated:
            return None  # as nearly always
        firsts = [next(iter(self._open), None), min(self._unreplicated, default=None)]
        known = [first for first in firsts if first is not None]
        return Offset(min(known)) if known else None

    @property
    def first_undecided_offset(self) -> Offset | None:
        """First offset of the oldest open transaction; None if none is."""
        first = next(iter(self._open), None)
        return None if first is None else Offset(first)

    def forget_replicated(self, high_watermark: int) -> None:
        """Forget ended transactions whose marker is below the high watermark."""
        gone = [
            first
            for first, transaction in self._unreplicated.items()
            if transaction.last_offset < high_watermark
        ]
        for first in gone:
            del self._unreplicated[first]

    # -- expiry, snapshots ----------------------------------------------------------------------

    def is_expired(self, entry: ProducerStateEntry, now_ms: int) -> bool:
        """True if the producer wrote nothing for so long; never while its transaction is open."""
        is_open = entry.current_transaction_first_offset != NONE
        return not is_open and now_ms - entry.last_timestamp_ms >= self.expiration_ms

    def remove_expired(self, now_ms: int) -> int:
        """Forget expired producers; their number is returned."""
        gone = [e.producer_id for e in self._producers.values() if self.is_expired(e, now_ms)]
        for producer_id in gone:
            del self._producers[producer_id]
        return len(gone)

    def snapshot_entries(self) -> list[ProducerSnapshotEntry]:
        """The content of a snapshot that ends at `end_offset`."""
        return [entry.snapshot_entry() for entry in self._producers.values()]

    def load(self, entries: Iterable[ProducerSnapshotEntry], end_offset: int, now_ms: int) -> None:
        """Begin anew with a snapshot; expired producers stay out.

        Args:
            entries: of the snapshot.
            end_offset: of the snapshot, exclusive.
            now_ms: wall clock.
        """
        self._producers.clear()
        self._open.clear()
        self._unreplicated.clear()
        self.end_offset = end_offset
        for each in entries:
            entry = ProducerStateEntry(
                each.producer_id,
                each.producer_epoch,
                each.coordinator_epoch,
                each.timestamp_ms,
                each.current_transaction_first_offset,
            )
            if each.last_offset != NONE:
                entry.batches.append(
                    BatchMetadata(
                        each.last_sequence, each.last_offset, each.offset_delta, each.timestamp_ms
                    )
                )
            if not self.is_expired(entry, now_ms):
                self._producers[entry.producer_id] = entry
        firsts = {
            entry.current_transaction_first_offset: entry.producer_id
            for entry in self._producers.values()
        }
        for first_offset in sorted(firsts):
            if first_offset != NONE:
                self._open[first_offset] = _Transaction(firsts[first_offset], first_offset)


def increment_sequence(sequence: int, number: int) -> int:
    """The sequence `number` after; 2^31-1 is followed by 0. The one after -1 is 0."""
    return (sequence + number) & _SEQUENCE_MAX


def decrement_sequence(sequence: int, number: int) -> int:
    """The sequence `number` before; 0 comes after 2^31-1. -1, none, stays -1."""
    return NONE if sequence == NONE else (sequence - number) & _SEQUENCE_MAX
