"""The committed image of a node, built from committed batches and snapshots.

Transactions (KIP-868): between Begin and End nothing is published; the records build `latest` while
`image` remains the one before Begin. End publishes `latest`, Abort reverts to `image`. Records that
precede a Begin in the same call are published first, with the offset of the Begin as end offset.

(apache/kafka: image/loader/MetadataLoader.java, MetadataBatchLoader.java)
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from metadata import record_codec
from metadata.apply import apply
from metadata.delta import MetadataDelta, delta_between
from metadata.errors import IllegalRecordError
from metadata.image import EMPTY, Image, Provenance
from metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    RegisterBrokerRecord,
)
from metadata.schema import MetadataRecordError, Record
from wire.batches.batch import iterate_batches
from wire.types import LeaderEpoch, Offset, OffsetAndEpoch

_MARKERS: Final = frozenset({BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord})
"""Markers of transactions: no part of an image, never in a snapshot."""


class CommittedBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch of the log as records; a control batch has none but advances the offset."""

    base_offset: Offset
    end_offset: Offset
    epoch: LeaderEpoch
    timestamp_ms: int
    records: tuple[Record, ...]  # at base_offset, base_offset + 1, ...


def committed_batches(content: bytes | memoryview) -> Iterator[CommittedBatch]:
    """The whole batches in bytes of the metadata log; checksums are not verified.

    Raises:
        MetadataRecordError: a record cannot be read; the text names its offset.
        CorruptBatchError: a batch is damaged.
    """
    for batch in iterate_batches(content):
        header = batch.header
        records: list[Record] = []
        for view in () if header.is_control else batch.records():
            if view.value is None:
                raise MetadataRecordError(f"offset {view.offset}: a metadata record has no value")
            try:
                records.append(record_codec.decode(view.value))
            except MetadataRecordError as error:
                raise MetadataRecordError(f"offset {view.offset}: {error}") from error
        yield CommittedBatch(
            header.base_offset,
            header.end_offset,
            header.leader_epoch,
            header.max_timestamp_ms,
            tuple(records),
        )


class Loader:
    """Mutable holder of the committed image."""

    def __init__(self, image: Image = EMPTY) -> None:
        self._image = image
        self._latest = image
        self._delta = MetadataDelta()
        self._transaction_start: Offset | None = None
        self.end_offset = image.provenance.end_offset
        """Lowest base offset of the next committed batch: the end offset of `latest`."""

    @property
    def image(self) -> Image:
        """The published image: committed, outside any open transaction."""
        return self._image

    @property
    def latest(self) -> Image:
        """The image with the records of an open transaction."""
        return self._latest

    @property
    def transaction_start(self) -> Offset | None:
        """Offset of the Begin of the open transaction, None outside one."""
        return self._transaction_start

    def commit(self, batches: Iterable[CommittedBatch]) -> list[tuple[Image, MetadataDelta]]:
        """Apply committed batches in log order; return the images to publish, in order.

        Usually one image; none while a transaction is open, two if one begins after other
        records. Batches below `end_offset` must not be given again.

        Raises:
            IllegalRecordError: the log contradicts itself; fatal.
        """
        published: list[tuple[Image, MetadataDelta]] = []
        end_offset = self.end_offset
        before: CommittedBatch | None = None  # its end is not the provenance of `latest` yet
        for batch in batches:
            assert batch.base_offset >= end_offset, f"{batch.base_offset=} {end_offset=}"
            for offset, record in enumerate(batch.records, batch.base_offset):
                if type(record) in _MARKERS:
                    self._mark(record, Offset(offset), batch, before, published)
                else:
                    self._latest = apply(self._latest, record, Offset(offset), self._delta)
            end_offset, before = batch.end_offset, batch
        if before is not None:
            self._move_to(end_offset, before)
        if self._transaction_start is None:
            self._publish(published)
        return published

    def adopt(self, image: Image, delta: MetadataDelta) -> tuple[Image, MetadataDelta]:
        """Replace the committed image by that which the controller computed from the same records.

        The image is outside any transaction: a controller adopts at the End, not before.
        """
        before, after = self.image.provenance.end_offset, image.provenance.end_offset
        assert after >= before, f"the committed image goes back: {before=} {after=}"
        self._reset(image)
        return image, delta

    def load_snapshot(
        self, records: Iterable[Record], snapshot_id: OffsetAndEpoch, timestamp_ms: int
    ) -> tuple[Image, MetadataDelta]:
        """Replace the image by that of a snapshot; an open transaction is dropped.

        The delta holds what differs from the image before.

        Raises:
            IllegalRecordError: a record that no snapshot may contain.
        """
        image = image_of(records, snapshot_id, timestamp_ms)
        delta = delta_between(self.image, image)
        self._reset(image)
        return image, delta

    def _mark(
        self,
        record: Record,
        offset: Offset,
        batch: CommittedBatch,
        before: CommittedBatch | None,
        published: list[tuple[Image, MetadataDelta]],
    ) -> None:
        """Process a Begin, End or Abort in `batch`; `before` is the previous batch of this call."""
        kind = type(record)
        if kind is BeginTransactionRecord:
            if self._transaction_start is not None:
                raise IllegalRecordError(record, "a transaction is open")
            if offset > batch.base_offset:
                self._move_to(offset, batch, is_batch_aligned=False)
            elif before is not None:
                self._move_to(before.end_offset, before)
            self._publish(published)
            self._transaction_start = offset
            return
        if self._transaction_start is None:
            raise IllegalRecordError(record, "no transaction is open")
        self._transaction_start = None
        if kind is AbortTransactionRecord:
            self._latest = self._image
            self.end_offset = self._image.provenance.end_offset
            self._delta = MetadataDelta()

    def _publish(self, published: list[tuple[Image, MetadataDelta]]) -> None:
        if self._latest is self._image:
            return
        published.append((self._latest, self._delta))
        self._reset(self._latest)

    def _move_to(
        self, end_offset: Offset, batch: CommittedBatch, *, is_batch_aligned: bool = True
    ) -> None:
        """Set the provenance of `latest`: all below the offset, the last record in `batch`."""
        provenance = Provenance(end_offset, batch.epoch, batch.timestamp_ms, is_batch_aligned)
        self._latest = replace(self._latest, provenance=provenance)
        self.end_offset = end_offset

    def _reset(self, image: Image) -> None:
        self._image = image
        self._latest = image
        self.end_offset = image.provenance.end_offset
        self._delta = MetadataDelta()
        self._transaction_start = None


def image_of(records: Iterable[Record], snapshot_id: OffsetAndEpoch, timestamp_ms: int) -> Image:
    """The image that a snapshot's records build.

    Raises:
        IllegalRecordError: a transaction marker, or a record that contradicts those before it.
    """
    image = EMPTY
    delta = MetadataDelta()
    for record in records:
        image = apply_of_snapshot(image, record, snapshot_id, delta)
    provenance = Provenance(snapshot_id.offset, snapshot_id.epoch, timestamp_ms)
    return replace(image, provenance=provenance)


def apply_of_snapshot(
    image: Image, record: Record, snapshot_id: OffsetAndEpoch, delta: MetadataDelta
) -> Image:
    """The image after one more record of a snapshot.

    A registration's offset is not in a snapshot: the broker epoch replaces it. It is the base
    offset of the batch with the registration (partition changes may precede it there), or an older
    one if a new metadata.version rewrote the registration: a broker that has applied the log up to
    it has applied the batch.

    Raises:
        IllegalRecordError: a transaction marker, or a record that contradicts those before it.
    """
    if type(record) in _MARKERS:
        raise IllegalRecordError(record, "it is inside a snapshot")
    offset = snapshot_id.offset
    if type(record) is RegisterBrokerRecord:
        offset = Offset(record.broker_epoch)
    return apply(image, record, offset, delta)
