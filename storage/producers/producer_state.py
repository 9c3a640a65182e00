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

from collections.abc import Iterable
from enum import Enum
from typing import Final

import msgspec

from storage.producers.producer_entry import (
    NONE,
    BatchMetadata,
    ProducerStateEntry,
    increment_sequence,
)
from storage.producers.producer_snapshot import ProducerSnapshotEntry
from storage.producers.verification import Verification, Verifications
from wire.batches.batch import BatchHeader
from wire.errors import ErrorCode
from wire.types import Offset

EPOCH_BUMP_VERSION: Final = 2
"""transaction.version from which on a marker has an epoch above that of the records (KIP-890)."""
LATE_BUFFER_MS: Final = 300_000
"""Time beyond the largest transaction time-out at which an open transaction is late."""


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


class ProducerAppend:
    """The batches of one producer in one append: validated one by one, then taken over at once.

    The state itself stays as it is until `ProducerStates.update`; a batch that is refused in the
    middle of an append leaves nothing behind.
    """

    def __init__(
        self,
        partition: str,
        current: ProducerStateEntry,
        origin: Origin,
        verification: Verification | None = None,
    ) -> None:
        """Begin with the state as it stands.

        Args:
            partition: `topic-number`, for error texts.
            current: of the producer; one that is new has epoch -1.
            origin: of all batches of the append.
            verification: of the producer, if one has begun.
        """
        self._partition = partition
        self._current = current
        self._origin = origin
        self._verification = verification
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
        self, marker: EndOfTransaction, producer_epoch: int, transaction_version: int = 0
    ) -> CompletedTransaction | None:
        """Take a marker; None for one that ends no transaction, it only raises the epoch.

        Args:
            marker: the end.
            producer_epoch: of its batch.
            transaction_version: of the client whose transaction it ends; replicas do not know it.

        Raises:
            ProducerStateError: INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.
        """
        updated, first_offset = self.updated, self.updated.current_transaction_first_offset
        is_bumped = transaction_version >= EPOCH_BUMP_VERSION
        self._check_epoch(producer_epoch, marker.offset, is_bumped=is_bumped)
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

    def _check_epoch(self, producer_epoch: int, offset: int, *, is_bumped: bool = False) -> None:
        """Refuse an older epoch; with a bump for each marker, also that of the open transaction.

        Such a marker ended the transaction before that one, and comes again. Without an open
        transaction it may: its coordinator did not get the answer (KAFKA-19999).
        """
        last = self.updated.producer_epoch
        is_open = self.updated.current_transaction_first_offset != NONE
        is_of_open = is_bumped and is_open and producer_epoch == last
        if (producer_epoch < last or is_of_open) and self._origin is not Origin.REPLICATION:
            compared = "not above" if is_of_open else "smaller than"
            raise ProducerStateError(
                ErrorCode.invalid_producer_epoch,
                f"Epoch of producer {self.updated.producer_id} at offset {offset} in"
                f" {self._partition} is {producer_epoch}, which is {compared} the last seen"
                f" epoch {last}",
            )

    def _check_sequence(self, producer_epoch: int, first_sequence: int, offset: int) -> None:
        updated, current = self.updated, self._current
        where = f"{updated.producer_id} at offset {offset} in partition {self._partition}"
        verification = self._verification
        if verification is not None and first_sequence > _sequence_max(verification, current):
            raise ProducerStateError(
                ErrorCode.out_of_order_sequence_number,
                f"Out of order sequence number for producer {where}: {first_sequence} (incoming"
                f" seq. number), {verification.lowest_sequence} (earliest seen sequence)",
            )
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


def _sequence_max(verification: Verification, current: ProducerStateEntry) -> int:
    """The largest sequence that the first verified batch may have.

    A client of transaction.version 2 begins with sequence 0 where nothing is known of it.
    """
    if verification.supports_epoch_bump and not current.batches:
        return 0
    return verification.lowest_sequence


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
        self.verifications = Verifications()

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

    def is_in_transaction(self, header: BatchHeader) -> bool:
        """True if the producer of a batch has a transaction open, in the epoch of the batch."""
        entry = self._producers.get(header.producer_id)
        return (
            entry is not None
            and entry.current_transaction_first_offset != NONE
            and entry.producer_epoch == header.producer_epoch
        )

    def fences(self, header: BatchHeader) -> bool:
        """True if the producer of a batch has a newer epoch."""
        entry = self._producers.get(header.producer_id)
        return entry is not None and header.producer_epoch < entry.producer_epoch

    def prepare(self, producer_id: int, origin: Origin) -> ProducerAppend:
        """The start of an append of a producer; `update` takes over what it added."""
        assert producer_id > NONE, f"{producer_id=}"
        current = self._producers.get(producer_id) or ProducerStateEntry(producer_id)
        verification = self.verifications.of(producer_id)
        return ProducerAppend(self._partition, current, origin, verification)

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

    def note_ended(self, producer_id: int, first_offset: int, last_offset: int) -> None:
        """Note a transaction that ended below `end_offset`, not known to be below the HW."""
        assert first_offset <= last_offset < self.end_offset, f"{first_offset=} {last_offset=}"
        transaction = _Transaction(producer_id, first_offset)
        transaction.last_offset = last_offset
        self._unreplicated[first_offset] = transaction

    def note_end(self, end_offset: int) -> None:
        """The log ends here now: batches without a producer are in the state too."""
        assert end_offset >= self.end_offset, f"{end_offset=} {self.end_offset=}"
        self.end_offset = end_offset

    # -- last stable offset ---------------------------------------------------------------------

    @property
    def first_unreplicated_offset(self) -> int | None:
        """Lowest first offset of a transaction that ended, not known to be below the HW."""
        return min(self._unreplicated, default=None)

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

    def has_late_transaction(self, now_ms: int, timeout_ms_max: int) -> bool:
        """True if the oldest open transaction should have been ended long ago.

        Args:
            now_ms: wall clock.
            timeout_ms_max: `transaction.max.timeout.ms`.
        """
        assert timeout_ms_max >= 0, f"{timeout_ms_max=}"
        first = next(iter(self._open.values()), None)
        if first is None:
            return False
        last_ms = self._producers[first.producer_id].last_timestamp_ms
        return last_ms > 0 and now_ms - last_ms > timeout_ms_max + LATE_BUFFER_MS

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
        """Forget expired producers; their number is returned.

        Unlike in Kafka not while a transaction of theirs has its marker at or above the high
        watermark: who opens the log would not look for it.
        """
        kept = {each.producer_id for each in self._unreplicated.values()}
        expired = (each for each in self._producers.values() if self.is_expired(each, now_ms))
        gone = [each.producer_id for each in expired if each.producer_id not in kept]
        for producer_id in gone:
            del self._producers[producer_id]
        self.verifications.remove_expired(now_ms, self.expiration_ms)
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
