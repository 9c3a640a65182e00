"""Past images: the image at any offset that snapshots and log still cover.

"At offset N" is half-open, as everywhere: all records below N, so the image of a snapshot `N-epoch`
is the image at N, and the newest one is at the high watermark. Inside a metadata transaction it is
the image before the transaction, because no other one was ever published.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from metadata.image import EMPTY, Image, Provenance
from metadata.loader import CommittedBatch, Loader
from wire.types import LeaderEpoch, Offset, OffsetAndEpoch


class OffsetGoneError(Exception):
    """Neither a snapshot nor the log covers this offset any more."""

    def __init__(self, offset: int, oldest: int) -> None:
        super().__init__(f"offset {offset} is gone: the oldest that is kept is {oldest}")
        self.offset = offset
        self.oldest = oldest


class Replay:
    """Reconstruction of the image at one offset from an earlier image and the batches after it.

    Args:
        offset: end of the replay, exclusive.
        image: any image at or below the offset, such as a snapshot's.
    """

    def __init__(self, offset: Offset, image: Image = EMPTY) -> None:
        assert image.provenance.end_offset <= offset, f"{image.provenance.end_offset=} {offset=}"
        self._offset = offset
        self._loader = Loader(image)
        self._last = image.provenance

    @property
    def next_offset(self) -> Offset:
        """Lowest base offset of the next batch."""
        return self._loader.end_offset

    @property
    def is_complete(self) -> bool:
        """True if every record below the offset was applied."""
        return self._last.end_offset >= self._offset

    @property
    def may_be_continued(self) -> bool:
        """True if later batches can be applied to `image`: no open transaction, no cut batch."""
        return self._loader.transaction_start is None and self._last.is_batch_aligned

    @property
    def image(self) -> Image:
        """The image after the applied batches; once complete, its end is the requested offset."""
        return replace(self._loader.image, provenance=self._last)

    def take(self, batches: Iterable[CommittedBatch]) -> None:
        """Apply batches in log order, up to the offset.

        Raises:
            IllegalRecordError: the log contradicts itself.
        """
        for batch in batches:
            if batch.base_offset >= self._offset:
                return
            cut = _below(batch, self._offset)
            self._loader.commit([cut])
            is_aligned = cut.end_offset == batch.end_offset
            self._last = Provenance(cut.end_offset, cut.epoch, cut.timestamp_ms, is_aligned)


def starting_point(
    offset: Offset, log_start_offset: Offset, snapshots: Sequence[OffsetAndEpoch]
) -> OffsetAndEpoch | None:
    """The newest snapshot at or below the offset that the log continues; None: from offset 0.

    Raises:
        OffsetGoneError: the offset is before everything that is retained.
    """
    usable = [s for s in snapshots if s.offset <= offset and s.offset >= log_start_offset]
    if usable:
        return max(usable, key=lambda snapshot: snapshot.offset)
    exact = [s for s in snapshots if s.offset == offset]
    if exact:
        return exact[0]
    if log_start_offset == 0:
        return None
    raise OffsetGoneError(offset, oldest_offset(log_start_offset, snapshots))


def oldest_offset(log_start_offset: Offset, snapshots: Sequence[OffsetAndEpoch]) -> Offset:
    """The lowest offset from which every later image can be built.

    The log start if nothing can be built: above 0, and no snapshot is left at or above it.
    """
    if log_start_offset == 0:
        return Offset(0)
    usable = (s.offset for s in snapshots if s.offset >= log_start_offset)
    return min(usable, default=log_start_offset)


def _below(batch: CommittedBatch, offset: Offset) -> CommittedBatch:
    if batch.end_offset <= offset:
        return batch
    records = batch.records[: offset - batch.base_offset]
    return CommittedBatch(
        batch.base_offset, offset, LeaderEpoch(batch.epoch), batch.timestamp_ms, records
    )
