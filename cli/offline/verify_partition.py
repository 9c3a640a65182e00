"""Check of one partition folder: segments, epochs, snapshots, quorum-state; comparison of two."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from cli.offline.findings import Finding, error, warning
from cli.offline.image_changes import changes_between
from cli.offline.offline_log import METADATA_FOLDER, OfflineLog
from cli.offline.verify_segment import SegmentCheck, SegmentResult
from metadata.errors import IllegalRecordError
from metadata.image import EMPTY, Image
from metadata.schema import MetadataRecordError
from storage.checkpoints.checkpoint_files import LOG_START_NAME, decode_offsets
from storage.checkpoints.epoch_checkpoint import EPOCH_CHECKPOINT_NAME, EpochEntry, decode_epochs
from storage.errors import CorruptFileError
from storage.log_dir.meta_properties import META_PROPERTIES_NAME, decode_meta_properties
from storage.log_dir.partition_directories import partition_directory_name
from storage.log_dir.quorum_state_file import QUORUM_STATE_NAME, decode_quorum_state
from storage.segments.segment import segment_base_offset
from wire.batches.batch import iterate_batches
from wire.errors import CorruptBatchError


class PartitionResult(msgspec.Struct):
    """Segments of a partition folder."""

    path: Path
    segments: list[SegmentResult]

    @property
    def start_offset(self) -> int:
        """Base offset of the first segment."""
        return self.segments[0].base_offset if self.segments else 0

    @property
    def end_offset(self) -> int:
        """End offset of the last batch."""
        return self.segments[-1].end_offset if self.segments else 0

    @property
    def batch_count(self) -> int:
        """Number of batches in all segments."""
        return sum(len(segment.headers) for segment in self.segments)


def is_partition(path: Path) -> bool:
    """Return True if the folder holds segments."""
    return any(segment_base_offset(entry.name) is not None for entry in path.iterdir())


def check_partition(path: Path, result: PartitionResult) -> Iterator[Finding]:
    """Yield every finding in a partition folder; fills `result`.

    Raises:
        OSError: a file cannot be read.
    """
    is_metadata = path.name == METADATA_FOLDER
    names = sorted(
        (base, entry)
        for entry in path.iterdir()
        if (base := segment_base_offset(entry.name)) is not None
    )
    for index, (base, entry) in enumerate(names):
        is_last = index + 1 == len(names)
        check = SegmentCheck(entry, base, is_last=is_last, is_metadata=is_metadata)
        yield from check.findings()
        if result.segments:
            yield from _chain_findings(result.segments[-1], check.result, is_metadata=is_metadata)
        result.segments.append(check.result)
    yield from _epoch_findings(path, result)
    if is_metadata:
        yield from _snapshot_findings(path, result)
        yield from _quorum_state_findings(path, result)


def _chain_findings(
    before: SegmentResult, after: SegmentResult, *, is_metadata: bool
) -> Iterator[Finding]:
    end, base = before.end_offset, after.base_offset
    if base < end or (is_metadata and base > end and before.is_whole):
        text = f"the segment begins at {base}, the one before it ends at {end}"
        yield error(after.path, 0, "chain", text)
    if before.headers and after.headers:
        old, new = before.headers[-1].leader_epoch, after.headers[0].leader_epoch
        if new < old:
            yield error(after.path, 0, "epoch", f"the leader epoch falls from {old} to {new}")


def _epoch_findings(path: Path, result: PartitionResult) -> Iterator[Finding]:
    """Check that the epoch checkpoint has the epoch of every batch.

    After its last entry it may lag: a node writes it at times (so that entry may stem from a tail
    that was truncated since), and rebuilds it at start. Of records it begins at the log start,
    which DeleteRecords raises a while before that is recorded.
    """
    file = path / EPOCH_CHECKPOINT_NAME
    if not file.exists():
        return
    try:
        entries = decode_epochs(file.read_bytes(), str(file)).entries
    except CorruptFileError as problem:
        yield error(file, 0, "epochs", str(problem))
        return
    reported: set[int] = set()
    log_start = _log_start(path)
    for segment in result.segments:
        for header in segment.headers:
            epoch = _epoch_at(entries, header.base_offset)
            if epoch is None and header.base_offset < log_start:
                continue
            if epoch != header.leader_epoch and header.leader_epoch not in reported:
                reported.add(header.leader_epoch)
                text = (
                    f"offset {header.base_offset} has epoch {header.leader_epoch}, "
                    f"the checkpoint says {epoch}"
                )
                newest = entries[-1] if entries else None
                is_late = newest is None or (
                    header.base_offset >= newest.start_offset and header.leader_epoch > newest.epoch
                )
                is_late |= epoch is None and path.name != METADATA_FOLDER
                yield (warning if is_late else error)(file, 0, "epochs", text)


def _log_start(path: Path) -> int:
    """The log start that was recorded beside a partition folder; 0 without one."""
    file = path.parent / LOG_START_NAME
    try:
        offsets = decode_offsets(file.read_bytes(), str(file))
    except (FileNotFoundError, CorruptFileError):
        return 0
    return next((o for key, o in offsets.items() if partition_directory_name(*key) == path.name), 0)


def _epoch_at(entries: Sequence[EpochEntry], offset: int) -> int | None:
    found = [entry.epoch for entry in entries if entry.start_offset <= offset]
    return found[-1] if found else None


def _snapshot_findings(path: Path, result: PartitionResult) -> Iterator[Finding]:
    """Check that each snapshot is whole, has the log's epoch, and equals the replay of the log."""
    log = OfflineLog(path)
    snapshots = sorted(log.snapshots, key=lambda snapshot: snapshot.offset)
    start, end = result.start_offset, result.end_offset
    if start > 0 and not any(snapshot.offset >= start for snapshot in snapshots):
        text = f"the log begins at {start} and no snapshot reaches it"
        yield error(path, 0, "snapshot-missing", text)
    headers = [header for segment in result.segments for header in segment.headers]
    previous: Image | None = EMPTY if start == 0 else None
    for snapshot_id in snapshots:
        file = log.snapshot_path(snapshot_id)
        image = None
        try:
            yield from _snapshot_batches(file)
            image = log.snapshot_image(snapshot_id)
        except (CorruptBatchError, MetadataRecordError, IllegalRecordError) as problem:
            yield error(file, 0, "snapshot", str(problem))
        if snapshot_id.offset > end and result.segments:
            text = f"it ends at {snapshot_id.offset}, the log at {end}"
            yield warning(file, 0, "snapshot", text)
            continue
        epochs = [h.leader_epoch for h in headers
                  if h.base_offset < snapshot_id.offset <= h.end_offset]  # fmt: skip
        if epochs and epochs[0] != snapshot_id.epoch:
            text = f"its name has epoch {snapshot_id.epoch}, the log there {epochs[0]}"
            yield error(file, 0, "snapshot", text)
        is_readable = all(segment.is_whole for segment in result.segments[:-1])
        if image is not None and previous is not None and is_readable:
            yield from _image_findings(log, file, previous, image)
        # A replay begins at a snapshot that can be read and that the log continues.
        if image is not None and snapshot_id.offset >= start:
            previous = image


def _snapshot_batches(file: Path) -> Iterator[Finding]:
    end = 0
    content = file.read_bytes()
    for batch in iterate_batches(content):
        if not batch.crc_is_valid:
            yield error(file, batch.position, "crc", "the checksum of the batch does not match")
        end = batch.position + batch.header.size_bytes
    if end < len(content):
        yield error(file, end, "tail", f"{len(content) - end} bytes are no whole batch")


def _image_findings(log: OfflineLog, file: Path, before: Image, image: Image) -> Iterator[Finding]:
    try:
        replayed = log.replayed(before, image.provenance.end_offset)
    except (CorruptBatchError, MetadataRecordError, IllegalRecordError) as problem:
        yield error(file, 0, "replay", str(problem))
        return
    changes = changes_between(replayed, image)
    if changes:
        first = f"{changes[0]['kind']} {changes[0]['key']}"
        text = f"{len(changes)} things differ from what the log leads to, first: {first}"
        yield error(file, 0, "replay", text)


def _quorum_state_findings(path: Path, result: PartitionResult) -> Iterator[Finding]:
    file = path / QUORUM_STATE_NAME
    if not file.exists():
        return
    try:
        state = decode_quorum_state(file.read_bytes(), str(file))
    except CorruptFileError as problem:
        yield error(file, 0, "quorum-state", str(problem))
        return
    epochs = [h.leader_epoch for segment in result.segments for h in segment.headers]
    if epochs and max(epochs) > state.epoch:
        text = f"epoch {state.epoch} is behind epoch {max(epochs)} of the log"
        yield error(file, 0, "quorum-state", text)


def cluster_id(path: Path) -> str | None:
    """Cluster id from `meta.properties` above a partition folder; None without one."""
    try:
        content = (path.parent / META_PROPERTIES_NAME).read_bytes()
        return str(decode_meta_properties(content, str(path.parent)).cluster_id)
    except (OSError, CorruptFileError):
        return None


def compare(ours: PartitionResult, theirs: PartitionResult) -> Iterator[Finding]:
    """Yield the first batch in which two replicas of a partition differ.

    The same offset and epoch with other bytes is an error; another epoch may be a tail that was
    never committed, which the next leader truncates: a warning.
    """
    clusters = [cluster_id(result.path) for result in (ours, theirs)]
    if None not in clusters and clusters[0] != clusters[1]:
        text = f"of cluster {clusters[0]}, {theirs.path} is of cluster {clusters[1]}"
        yield error(ours.path, 0, "equality", text)
        return
    start = max(ours.start_offset, theirs.start_offset)
    end = min(ours.end_offset, theirs.end_offset)
    known = {
        header.base_offset: (header, bytes(content))
        for segment in theirs.segments
        for header, content in zip(segment.headers, segment.contents, strict=True)
    }
    for segment in ours.segments:
        rows = zip(segment.headers, segment.positions, segment.contents, strict=True)
        for header, position, content in rows:
            if not start <= header.base_offset < end:
                continue
            other = known.get(header.base_offset)
            if other is not None and other[1] == bytes(content):
                continue
            at = f"offset {header.base_offset}"
            if other is None:
                text = f"{at}: {theirs.path} has no batch that begins there"
                yield error(segment.path, position, "equality", text)
            elif other[0].leader_epoch != header.leader_epoch:
                text = (
                    f"{at} has epoch {header.leader_epoch}, in {theirs.path} epoch "
                    f"{other[0].leader_epoch}: one of them will be cut"
                )
                yield warning(segment.path, position, "equality", text)
            else:
                text = f"{at} of epoch {header.leader_epoch} has other bytes in {theirs.path}"
                yield error(segment.path, position, "equality", text)
            return
