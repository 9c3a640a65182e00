"""Metadata log in a folder of a node, read without changing it: batches, images."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cli.arguments import UsageError
from metadata.errors import IllegalRecordError
from metadata.image import EMPTY, Image
from metadata.loader import CommittedBatch, committed_batches, image_of
from metadata.schema import MetadataRecordError
from metadata.snapshot import decode_snapshot
from metadata.time_travel import OffsetGoneError, Replay, oldest_offset, starting_point
from storage.log_dir.snapshot_files import parse_snapshot_name
from storage.segments.segment import segment_base_offset
from wire.batches.batch import Batch, iterate_batches
from wire.errors import CorruptBatchError
from wire.types import Offset, OffsetAndEpoch

METADATA_FOLDER: Final = "__cluster_metadata-0"
_UNREADABLE: Final = (
    CorruptBatchError,
    MetadataRecordError,
    IllegalRecordError,
    OffsetGoneError,
)


class OfflineLog:
    """Segments and snapshots of one metadata log."""

    def __init__(self, path: Path) -> None:
        """List the files.

        Args:
            path: The folder `__cluster_metadata-0`, or the log directory that holds it.

        Raises:
            UsageError: there is no metadata log.
        """
        inside = path / METADATA_FOLDER
        self.path = inside if inside.is_dir() else path
        try:
            names = sorted(entry.name for entry in self.path.iterdir())
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or error}") from error
        self.segments = [
            (base, self.path / name)
            for name in names
            if (base := segment_base_offset(name)) is not None
        ]
        self.snapshots: list[OffsetAndEpoch] = []
        self._snapshot_paths: dict[OffsetAndEpoch, Path] = {}
        for name in names:
            found = parse_snapshot_name(name)
            if found is not None:
                self.snapshots.append(found)
                self._snapshot_paths[found] = self.path / name
        if not self.segments and not self.snapshots:
            raise UsageError(f"{path}: no metadata log: neither segments nor snapshots")

    @property
    def start_offset(self) -> Offset:
        """First offset of the log; without segments the end of the newest snapshot."""
        return Offset(self.segments[0][0] if self.segments else self._newest_snapshot())

    def end_offset(self) -> Offset:
        """End offset of the last whole batch; a folder does not record what of it is committed.

        Raises:
            UsageError: the last segment cannot be read.
        """
        with self._refused():
            end = self.start_offset
            for base_offset, path in self.segments[-1:]:
                end = Offset(base_offset)
                for batch in _batches(path, base_offset):
                    if not batch.crc_is_valid:
                        break
                    end = batch.header.end_offset
            return Offset(max(end, self._newest_snapshot()))

    def oldest_offset(self) -> Offset:
        """The lowest offset at which an image can be built."""
        return oldest_offset(self.start_offset, self.snapshots)

    def image_at(self, offset: int) -> Image:
        """The image of all records below the offset.

        Raises:
            UsageError: the log does not contain it, or cannot be read.
        """
        end = self.end_offset()
        if not 0 <= offset <= end:
            raise UsageError(f"offset {offset}: {self.path} holds {self.oldest_offset()} to {end}")
        with self._refused():
            snapshot_id = starting_point(Offset(offset), self.start_offset, self.snapshots)
            base = EMPTY if snapshot_id is None else self.snapshot_image(snapshot_id)
            return self.replayed(base, offset)

    def snapshot_image(self, snapshot_id: OffsetAndEpoch) -> Image:
        """The image of one snapshot."""
        content = decode_snapshot(_content(self.snapshot_path(snapshot_id)))
        return image_of(content.records, snapshot_id, content.last_contained_timestamp_ms)

    def snapshot_path(self, snapshot_id: OffsetAndEpoch) -> Path:
        """The file of a snapshot."""
        return self._snapshot_paths[snapshot_id]

    def replayed(self, base: Image, offset: int) -> Image:
        """The image at an offset, from an earlier image and the log between them.

        Raises:
            CorruptBatchError: a batch between them is damaged or missing.
            MetadataRecordError: a record cannot be read.
            IllegalRecordError: records contradict each other.
        """
        replay = Replay(Offset(offset), base)
        for segment in self._segments_from(replay.next_offset):
            replay.take(_continuing(replay, *segment))
        if not replay.is_complete:
            raise CorruptBatchError(f"the log ends at {replay.next_offset}, before offset {offset}")
        return replay.image

    def _segments_from(self, offset: int) -> Iterator[tuple[int, Path]]:
        for index, segment in enumerate(self.segments):
            is_last = index + 1 == len(self.segments)
            if is_last or self.segments[index + 1][0] > offset:
                yield segment

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """Turn damage into a UsageError of one line."""
        try:
            yield
        except _UNREADABLE as error:
            raise UsageError(f"{self.path}: {error}") from error

    def _newest_snapshot(self) -> int:
        return max((snapshot.offset for snapshot in self.snapshots), default=0)


def _batches(path: Path, base_offset: int) -> Iterator[Batch]:
    """Whole batches of a segment, contiguous; callers check the checksums.

    Raises:
        CorruptBatchError: a header is impossible, or a batch does not continue the one before.
    """
    expected = base_offset
    try:
        for batch in iterate_batches(_content(path)):
            _check_offsets(batch, expected)
            yield batch
            expected = batch.header.end_offset
    except CorruptBatchError as error:
        raise CorruptBatchError(f"{path.name}: {error}") from error


def _check_offsets(batch: Batch, expected: int) -> None:
    begin, end = batch.header.base_offset, batch.header.end_offset
    if begin != expected or end <= begin:
        raise CorruptBatchError(
            f"batch at position {batch.position} has offsets {begin} to {end}, "
            f"it must begin at {expected}"
        )


def _continuing(replay: Replay, base_offset: int, path: Path) -> Iterator[CommittedBatch]:
    """Batches of a segment that a replay still needs.

    Raises:
        CorruptBatchError: a batch is damaged, or batches before it are missing.
        MetadataRecordError: a record cannot be read.
    """
    for batch in () if replay.is_complete else _batches(path, base_offset):
        begin = batch.header.base_offset
        if replay.is_complete:
            return
        if batch.header.end_offset <= replay.next_offset:
            continue
        at = f"{path.name}: batch at position {batch.position} (offset {begin})"
        if begin != replay.next_offset:
            raise CorruptBatchError(f"{at} does not continue offset {replay.next_offset}")
        if not batch.crc_is_valid:
            raise CorruptBatchError(f"{at}: the checksum does not match")
        yield from committed_batches(batch.buffer)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
