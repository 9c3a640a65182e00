"""Content of a stopped folder, read without a change of it: identity, elections, log, voters.

The log is read batch by batch, as its files may be late or damaged: a torn end that was not
recorded as flushed ends it, as a start would cut there; other damage is refused, as at a start.
"""

from collections.abc import Sequence

import msgspec

from kernel.kraft_version import checked_kraft_version, read_voter_history
from metadata.schema import MetadataRecordError
from metadata.snapshot import decode_snapshot
from raft.events import EpochStart
from raft.membership.lost_majority import ReplicaLog
from raft.membership.voter_history import VoterHistory
from raft.membership.voters import VoterSet
from storage.checkpoints.checkpoint_files import OffsetCheckpoint, RecoveryPoint
from storage.checkpoints.flushed_end_file import FlushedEndFile
from storage.errors import CorruptFileError, CorruptLogError
from storage.log_dir.meta_properties import MetaProperties, read_meta_properties
from storage.log_dir.partition_directories import partition_directory_name
from storage.log_dir.quorum_state_file import ElectionState, QuorumStateFile
from storage.log_dir.snapshot_files import SnapshotFiles
from storage.log_dir.unproven_mark import UnprovenMark
from storage.logs.log import LogConfig
from storage.logs.recovery import scan_segment
from storage.segments.segment import segment_base_offset
from storage.segments.segment_indexes import SegmentIndexes
from storage.vfs import Vfs, join
from wire.errors import CorruptBatchError
from wire.types import (
    METADATA_TOPIC_NAME,
    LeaderEpoch,
    NodeId,
    Offset,
    OffsetAndEpoch,
    ReplicaKey,
)


class UnusableFolderError(Exception):
    """A folder that is none of a stopped node; the text is one line."""


class StoppedFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A log directory that was read."""

    properties: MetaProperties
    election: ElectionState | None
    """None without quorum-state: the node has not taken part in elections with this folder."""
    static_voter_ids: tuple[NodeId, ...]
    """Voters of the configuration that quorum-state was written with; empty if they are records."""
    replica: ReplicaLog
    flushed_end_offset: Offset
    """As recorded: Kafka's record lags behind."""
    torn: str | None
    """The damage before which the log ends; None if it ends with its last bytes."""


class _Scan(msgspec.Struct):
    """The batches of a log, as far as they are whole."""

    start_offset: int
    end_offset: int
    epochs: list[EpochStart]
    torn: str | None = None


def read_folder(
    vfs: Vfs, log_dir: str, static: VoterSet, *, is_copy: bool = False
) -> StoppedFolder:
    """Read a log directory; nothing is written.

    Args:
        vfs: the disk.
        log_dir: the directory above `__cluster_metadata-0`.
        static: voters of the configuration, which hold while no record names others.
        is_copy: its log is not what the replica has now, so it is no evidence of it.

    Raises:
        UnusableFolderError: it is not formatted, or holds a cluster of ZooKeeper.
        CorruptFileError, CorruptLogError: damage with which the node would not start.
        UnsupportedFeatureError: a kraft.version above the supported ones.
    """
    properties = read_meta_properties(vfs, log_dir)
    if properties is None:
        raise UnusableFolderError(f"{log_dir}: no meta.properties: not the log directory of a node")
    checked_kraft_version(vfs, log_dir)
    directory = metadata_directory(log_dir)
    key = ReplicaKey(properties.node_id, properties.directory_id)
    exists = vfs.is_directory(directory)
    quorum_state = QuorumStateFile(vfs, directory)
    election = quorum_state.read() if exists else None
    flushed_end = _flushed_end(vfs, log_dir) if exists else 0
    scan = _scanned(vfs, directory, flushed_end) if exists else _Scan(0, 0, [])
    snapshot = _newest_snapshot(vfs, directory, scan) if exists else None
    end_offset = Offset(scan.end_offset)
    is_unproven = UnprovenMark(vfs, log_dir).exists
    history = VoterHistory(static)
    if exists:
        history = read_voter_history(vfs, directory, static, end_offset)
    last_epoch = max(scan.epochs[-1].epoch if scan.epochs else 0, snapshot.epoch if snapshot else 0)
    epoch = max(0 if election is None else election.epoch, last_epoch)
    replica = ReplicaLog(
        name=log_dir,
        key=key,
        epoch=LeaderEpoch(epoch),
        is_evidence=election is not None and not (is_copy or is_unproven),
        start_offset=Offset(scan.start_offset),
        end_offset=end_offset,
        epochs=tuple(scan.epochs),
        snapshot_id=snapshot,
        voters=history,
    )
    return StoppedFolder(
        properties=properties,
        election=election,
        static_voter_ids=quorum_state.static_voter_ids(),
        replica=replica,
        flushed_end_offset=Offset(min(flushed_end, end_offset)),
        torn=scan.torn,
    )


def metadata_directory(log_dir: str) -> str:
    """Return the directory of the metadata log."""
    return join(log_dir, partition_directory_name(METADATA_TOPIC_NAME, 0))


def segment_names(vfs: Vfs, directory: str) -> list[tuple[int, str]]:
    """Return base offset and name of each segment, oldest first."""
    names = [(segment_base_offset(name), name) for name in vfs.list(directory)]
    return sorted((base, name) for base, name in names if base is not None)


def _flushed_end(vfs: Vfs, log_dir: str) -> int:
    flushed_end = FlushedEndFile(vfs, metadata_directory(log_dir))
    checkpoint = OffsetCheckpoint(vfs, log_dir)
    return RecoveryPoint(checkpoint, METADATA_TOPIC_NAME, 0, flushed_end).end_offset


def _scanned(vfs: Vfs, directory: str, flushed_end: int) -> _Scan:
    """Read all batches up to the end or to what was torn there.

    Raises:
        CorruptLogError: damage before the last segment, or below the recorded flushed end.
    """
    segments = segment_names(vfs, directory)
    start = segments[0][0] if segments else 0
    scan = _Scan(start, start, [])
    config = LogConfig()
    rules = config.batch_rules(start, -1)

    def on_epoch(epoch: int, offset: int) -> None:
        scan.epochs.append(EpochStart(LeaderEpoch(epoch), Offset(offset)))

    for base_offset, name in segments:
        path = join(directory, name)
        if base_offset != rules.end_offset:
            reason = f"it follows offset {rules.end_offset}"
            raise CorruptLogError(path, 0, reason)
        file = vfs.open(path)
        try:
            indexes = SegmentIndexes(base_offset, config.index_interval_bytes)
            found = scan_segment(file, file.size(), indexes, rules, on_epoch)
        finally:
            file.close()
        scan.end_offset = rules.end_offset
        if found.reason is not None:
            if name != segments[-1][1] or scan.end_offset < flushed_end:
                raise CorruptLogError(path, found.valid_bytes, found.reason)
            scan.torn = found.reason
    scan.epochs = _without_repeats(scan.epochs)
    return scan


def _without_repeats(epochs: Sequence[EpochStart]) -> list[EpochStart]:
    """Drop what each segment but the first says of the epoch before it."""
    found: list[EpochStart] = []
    for each in epochs:
        if not found or each.epoch > found[-1].epoch:
            found.append(each)
    return found


def _newest_snapshot(vfs: Vfs, directory: str, scan: _Scan) -> OffsetAndEpoch | None:
    """Return the newest snapshot, whole; one above the log is where a start would begin it anew.

    Raises:
        CorruptFileError: it is damaged.
        CorruptLogError: no snapshot holds what is before the log.
    """
    files = SnapshotFiles(vfs, directory)
    snapshots = [found for found in files.list() if found.offset > 0]
    newest = snapshots[-1] if snapshots else None
    if newest is None or newest.offset < scan.start_offset:
        if scan.start_offset > 0:
            reason = f"the log starts at offset {scan.start_offset} and no snapshot holds what is "
            raise CorruptLogError(directory, 0, reason + "before it")
        return None
    try:
        decode_snapshot(files.read(newest))
    except (MetadataRecordError, CorruptBatchError) as error:
        raise CorruptFileError(files.path(newest), str(error)) from error
    if newest.offset > scan.end_offset:
        scan.start_offset = scan.end_offset = newest.offset
        scan.epochs = []
    return newest
