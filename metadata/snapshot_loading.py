"""A snapshot on its way to be the committed image: fed in pieces, worked off in small portions.

A large snapshot is seconds of work; who loads one while other things must go on calls `advance`
between them. What comes out is what `Loader.load_snapshot` makes in one go.
"""

import zlib
from collections.abc import Iterator
from itertools import chain, islice

from msgspec.structs import replace

from metadata.delta import MetadataDelta, comparison, delta_between
from metadata.image import EMPTY, Image, Provenance
from metadata.loader import apply_of_snapshot
from metadata.snapshot_decoder import SnapshotDecoder
from wire.types import OffsetAndEpoch


class SnapshotLoading:
    """One snapshot, its image, and how that differs from the image before.

    Args:
        snapshot_id: of the snapshot.
        before: the committed image now.
    """

    def __init__(self, snapshot_id: OffsetAndEpoch, before: Image) -> None:
        self.snapshot_id = snapshot_id
        self.size_bytes = 0
        """How much was fed."""
        self.checksum = 0
        """CRC-32 of it."""
        self.units_done = 0
        """Records applied and topics compared."""
        self._before = before
        self._image = EMPTY
        self._delta = MetadataDelta()
        self._decoder = SnapshotDecoder()
        self._work: Iterator[None] = iter(())

    def feed(self, content: bytes, *, is_last: bool) -> None:
        """The next bytes of the file; with the last ones the comparison can follow."""
        self.size_bytes += len(content)
        self.checksum = zlib.crc32(content, self.checksum)
        self._decoder.feed(content)
        self._work = chain(self._work, self._apply())
        if is_last:
            self._work = chain(self._work, self._complete())

    def advance(self, units_max: int) -> bool:
        """Apply so many records, or compare so many topics; whether all that was fed is done.

        Raises:
            MetadataRecordError, CorruptBatchError: the file is damaged.
            IllegalRecordError: a record contradicts those before it.
        """
        done = sum(1 for _ in islice(self._work, units_max))
        self.units_done += done
        return done < units_max

    def result(self, before: Image) -> tuple[Image, MetadataDelta]:
        """After the last `advance`: the image, and what in it differs from `before`."""
        assert self._image.provenance.end_offset == self.snapshot_id.offset, "not all was fed"
        is_compared = before is self._before
        return self._image, self._delta if is_compared else delta_between(before, self._image)

    def _apply(self) -> Iterator[None]:
        scratch = MetadataDelta()
        for record in self._decoder.records():
            self._image = apply_of_snapshot(self._image, record, self.snapshot_id, scratch)
            yield

    def _complete(self) -> Iterator[None]:
        header, _ = self._decoder.finish()
        timestamp_ms = header.last_contained_log_timestamp
        provenance = Provenance(self.snapshot_id.offset, self.snapshot_id.epoch, timestamp_ms)
        self._image = replace(self._image, provenance=provenance)
        yield from comparison(self._before, self._image, self._delta)
