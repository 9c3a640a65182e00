"""Loading of a snapshot as the committed image, in small steps.

A large snapshot is seconds of work; a caller that must not block calls `advance` between other
work. The result equals that of `Loader.load_snapshot` in one step.
"""

import zlib
from collections.abc import Iterator
from itertools import chain, islice

from msgspec.structs import replace

from metadata.control_records import ControlRecord
from metadata.delta import MetadataDelta, comparison, delta_between
from metadata.image import EMPTY, Image, Provenance
from metadata.loader import apply_of_snapshot
from metadata.snapshot_decoder import SnapshotDecoder
from wire.types import OffsetAndEpoch


class SnapshotLoading:
    """One snapshot, its image, and the delta from the image before.

    Args:
        snapshot_id: of the snapshot.
        before: the current committed image.
    """

    def __init__(self, snapshot_id: OffsetAndEpoch, before: Image) -> None:
        self.snapshot_id = snapshot_id
        self.size_bytes = 0
        """Number of bytes fed."""
        self.checksum = 0
        """CRC-32 of the bytes fed."""
        self.units_done = 0
        """Number of records applied and topics compared."""
        self.control_records: tuple[ControlRecord, ...] = ()
        """Control records between header and footer, known once all is read."""
        self._before = before
        self._image = EMPTY
        self._delta = MetadataDelta()
        self._decoder = SnapshotDecoder()
        self._work: Iterator[None] = iter(())

    def feed(self, content: bytes, *, is_last: bool) -> None:
        """Add the next bytes of the file; the comparison follows the last ones."""
        self.size_bytes += len(content)
        self.checksum = zlib.crc32(content, self.checksum)
        self._decoder.feed(content)
        self._work = chain(self._work, self._apply())
        if is_last:
            self._work = chain(self._work, self._complete())

    def advance(self, units_max: int) -> bool:
        """Apply or compare at most `units_max` records or topics; True once all fed bytes are done.

        Raises:
            MetadataRecordError, CorruptBatchError: the file is damaged.
            IllegalRecordError: a record contradicts those before it.
        """
        done = sum(1 for _ in islice(self._work, units_max))
        self.units_done += done
        return done < units_max

    def result(self, before: Image) -> tuple[Image, MetadataDelta]:
        """Return the image and its delta from `before`, after the last `advance`."""
        assert self._image.provenance.end_offset == self.snapshot_id.offset, "not all was fed"
        is_compared = before is self._before
        return self._image, self._delta if is_compared else delta_between(before, self._image)

    def _apply(self) -> Iterator[None]:
        scratch = MetadataDelta()
        for record in self._decoder.records():
            self._image = apply_of_snapshot(self._image, record, self.snapshot_id, scratch)
            yield

    def _complete(self) -> Iterator[None]:
        header, self.control_records = self._decoder.finish()
        timestamp_ms = header.last_contained_log_timestamp
        provenance = Provenance(self.snapshot_id.offset, self.snapshot_id.epoch, timestamp_ms)
        self._image = replace(self._image, provenance=provenance)
        yield from comparison(self._before, self._image, self._delta)
