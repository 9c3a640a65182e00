"""Incremental decoder of a snapshot file: bytes in, records out.

The format is described in `metadata.snapshot`.
"""

from collections.abc import Iterator

from metadata import record_codec
from metadata.control_records import (
    ControlRecord,
    SnapshotFooter,
    SnapshotHeader,
    control_type,
    decode_control,
)
from metadata.schema import MetadataRecordError, Record
from wire.batches.batch import Batch, iterate_batches


class SnapshotDecoder:
    """Decoder that buffers bytes until whole batches can be read."""

    def __init__(self) -> None:
        self._buffer = b""
        self._start = 0
        """Position of the next batch in the buffer."""
        self._position = 0
        """Position of the next batch in the file."""
        self._control: list[ControlRecord] = []

    def feed(self, content: bytes | memoryview) -> None:
        """Add the next bytes of the file."""
        self._buffer = self._buffer[self._start :] + bytes(content)
        self._start = 0

    def records(self) -> Iterator[Record]:
        """Yield the records of the whole batches fed so far that were not yielded before.

        Raises:
            MetadataRecordError, CorruptBatchError: the content is damaged.
        """
        while (batch := self._next_batch()) is not None:
            for view in batch.records():
                if batch.header.is_control:
                    known = decode_control(control_type(view.key), view.value)
                    self._control += () if known is None else (known,)
                elif view.value is None:
                    raise MetadataRecordError(f"snapshot record {view.offset} has no value")
                else:
                    yield record_codec.decode(view.value)

    def finish(self) -> tuple[SnapshotHeader, tuple[ControlRecord, ...]]:
        """Return the header and the control records before the footer, after the last record.

        Raises:
            MetadataRecordError: the file is cut, or lacks its header or footer.
        """
        left = len(self._buffer) - self._start
        if left:
            raise MetadataRecordError(f"snapshot is cut: {left} bytes of no whole batch")
        header = self._control[0] if self._control else None
        if not isinstance(header, SnapshotHeader):
            raise MetadataRecordError("snapshot does not begin with its header")
        if not isinstance(self._control[-1], SnapshotFooter):
            raise MetadataRecordError("snapshot does not end with its footer")
        return header, tuple(self._control[1:-1])

    def _next_batch(self) -> Batch | None:
        batch = next(iterate_batches(memoryview(self._buffer)[self._start :]), None)
        if batch is None:
            return None
        position = self._position
        if not batch.crc_is_valid:
            raise MetadataRecordError(f"snapshot batch at byte {position} fails its checksum")
        if self._control and isinstance(self._control[-1], SnapshotFooter):
            raise MetadataRecordError(
                f"snapshot goes on after its footer, at byte {self._position}"
            )
        if not self._control and not batch.header.is_control:
            raise MetadataRecordError("snapshot does not begin with its header")
        self._start += batch.header.size_bytes
        self._position += batch.header.size_bytes
        return batch
