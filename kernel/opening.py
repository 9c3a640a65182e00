"""Opening of a node's disk at start, and the parts that are made from it."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec
from msgspec.structs import replace

from kernel.config import NodeConfig
from kernel.effects import Effect, Log, LogLevel
from kernel.kraft_version import checked_kraft_version, read_voter_history
from kernel.quorum.log_writer import LogWriter
from kernel.quorum.snapshot_download import Installed, SnapshotDownloads
from kernel.quorum.snapshot_reading import SnapshotReading
from kernel.quorum.unproven_voters import check_has_state, mark_new_folder
from metadata.bootstrap import bootstrap_records
from metadata.errors import IllegalRecordError
from metadata.features import CONTROLLER_FEATURES, KRAFT_VERSION
from metadata.loader import Loader
from metadata.records import Record
from metadata.schema import MetadataRecordError
from metadata.snapshot import decode_snapshot
from network.clock import Clock
from quorum_controller.config import ControllerConfig
from quorum_controller.controller import Controller
from raft.config import (
    BOOTSTRAP_ID_MAX,
    FETCH_TIMEOUT_MS_MIN,
    REQUEST_TIMEOUT_MS_MIN,
    RaftConfig,
)
from raft.core import RaftCore
from raft.events import EpochStart
from raft.membership.voter_history import VoterHistory
from raft.membership.voters import static_voters
from storage.errors import CorruptFileError, CorruptLogError
from storage.log_dir.bootstrap_checkpoint import read_bootstrap_checkpoint
from storage.log_dir.partition_directories import open_metadata_log
from storage.log_dir.quorum_state_file import ElectionState, QuorumStateFile
from storage.log_dir.snapshot_files import SnapshotFiles
from storage.log_dir.unproven_mark import UnprovenMark
from storage.logs.log import Log as StoredLog
from storage.logs.log import LogConfig
from storage.space_reserve import SpaceReserve
from storage.vfs import Vfs
from wire.errors import CorruptBatchError
from wire.types import (
    EPOCH_MAX,
    DirectoryId,
    Endpoint,
    LeaderEpoch,
    NodeId,
    Offset,
    OffsetAndEpoch,
    Rng,
)


class OpenedStorage(msgspec.Struct, frozen=True):
    """The opened disk of a node."""

    log: StoredLog
    files: SnapshotFiles
    writer: LogWriter
    unproven: UnprovenMark
    reading: SnapshotReading
    loader: Loader
    election: ElectionState | None
    snapshots: tuple[OffsetAndEpoch, ...]
    directory_id: DirectoryId | None
    voter_history: VoterHistory


def open_quorum(
    config: NodeConfig,
    vfs: Vfs,
    directory_id: DirectoryId | None,
    clock: Clock,
    effects: list[Effect],
    *,
    installed: Installed,
    guard: AbstractContextManager[object] | None = None,
) -> OpenedStorage:
    """Open the storage, and read the voters that its records name, if there are any.

    Raises:
        UnsupportedFeatureError: the level of kraft.version is unknown; nothing was changed.
        CorruptLogError, CorruptFileError: damage that must stop the node; a static voter has a log
            and no quorum-state, nothing was changed.
    """
    level = checked_kraft_version(vfs, config.metadata_log_dir)
    if config.is_controller:
        if level == 0:
            check_has_state(vfs, config.metadata_log_dir)
        if level > 0 or config.voters:  # else it was never a voter, and has forgotten nothing
            mark_new_folder(vfs, config.metadata_log_dir)
    opened = open_storage(
        config, vfs, directory_id, clock, effects, installed=installed, guard=guard
    )
    if level == 0:
        return opened
    log = opened.log
    history = read_voter_history(
        vfs, log.directory, opened.voter_history.static, Offset(log.end_offset)
    )
    return replace(opened, voter_history=history)


def open_storage(
    config: NodeConfig,
    vfs: Vfs,
    directory_id: DirectoryId | None,
    clock: Clock,
    effects: list[Effect],
    *,
    installed: Installed,
    guard: AbstractContextManager[object] | None = None,
) -> OpenedStorage:
    """Open the metadata log with its quorum-state and static voters; load the newest snapshot.

    Args:
        config: settings of the node.
        vfs: its disk.
        directory_id: id of the metadata log directory.
        clock: its clock.
        effects: list that effects are appended to.
        installed: called with the content of a fetched snapshot that has replaced the log.
        guard: held while the recovery point of the log is written.

    Raises:
        CorruptLogError, CorruptFileError: damage that must stop the node.
    """
    log_config = LogConfig(
        segment_bytes=config.metadata_log.segment_bytes, segment_ms=config.metadata_log.segment_ms
    )
    log = open_metadata_log(vfs, config.metadata_log_dir, log_config, guard)
    for repaired in log.recovery_report:
        fields = {"what": type(repaired).__name__, "detail": str(repaired)}
        effects.append(Log(LogLevel.WARN, "log_repaired", fields))
    files = SnapshotFiles(vfs, log.directory)
    files.clean()
    # 0-0 is no snapshot of the log: Kafka keeps the bootstrap records there.
    snapshots = tuple(found for found in files.list() if found.offset > 0)
    _check_epochs(log, files, snapshots)
    loader = Loader()
    if snapshots:
        _load_newest(files, snapshots[-1], loader)
        if snapshots[-1].offset > log.end_offset:
            log.truncate_fully_and_start_at(snapshots[-1].offset)
    snapshots = _start_at_a_snapshot(log, files, snapshots)
    quorum_state = QuorumStateFile(
        vfs, log.directory, tuple(sorted(voter.id for voter in config.voters))
    )
    election = quorum_state.read()
    reserve = SpaceReserve(vfs, config.metadata_log_dir)
    hold_ms_max = _fetch_timeout_ms(config) // 2
    reading = SnapshotReading(clock, lambda: loader.image, hold_ms_max)
    downloads = SnapshotDownloads(log, files, reading, effects, installed)
    unproven = UnprovenMark(vfs, config.metadata_log_dir)
    writer = LogWriter(
        log, quorum_state, downloads, reserve, unproven=unproven, clock=clock, effects=effects
    )
    history = VoterHistory(static_voters(_configured_voters(config)))
    return OpenedStorage(
        log, files, writer, unproven, reading, loader, election, snapshots, directory_id, history
    )


def _configured_voters(config: NodeConfig) -> tuple[tuple[NodeId, Endpoint], ...]:
    listener = config.controller_listener_names[0]
    return tuple((voter.id, Endpoint(listener, voter.host, voter.port)) for voter in config.voters)


def _check_epochs(
    log: StoredLog, files: SnapshotFiles, snapshots: tuple[OffsetAndEpoch, ...]
) -> None:
    """Refuse epochs that no peer accepts; the batch checksum does not cover the epoch."""
    if log.last_epoch > EPOCH_MAX:
        reason = f"leader epoch {log.last_epoch} is above {EPOCH_MAX}"
        raise CorruptLogError(log.directory, log.size_bytes, reason)
    for found in snapshots:
        if found.epoch > EPOCH_MAX:
            raise CorruptFileError(files.path(found), f"epoch {found.epoch} is above {EPOCH_MAX}")


def _load_newest(files: SnapshotFiles, snapshot_id: OffsetAndEpoch, loader: Loader) -> None:
    """Load a snapshot; one without header or footer, which Kafka accepts, is damaged here."""
    try:
        content = decode_snapshot(files.read(snapshot_id))
        timestamp_ms = content.last_contained_timestamp_ms
        loader.load_snapshot(content.records, snapshot_id, timestamp_ms)
    except (MetadataRecordError, CorruptBatchError, IllegalRecordError) as error:
        raise CorruptFileError(files.path(snapshot_id), str(error)) from error


def _start_at_a_snapshot(
    log: StoredLog, files: SnapshotFiles, snapshots: tuple[OffsetAndEpoch, ...]
) -> tuple[OffsetAndEpoch, ...]:
    """Start a log that does not start at 0 at the end of a snapshot; delete older snapshots.

    Raises:
        CorruptLogError: no snapshot holds the records that are missing below the log start.
    """
    start = log.log_start_offset
    kept = tuple(found for found in snapshots if found.offset >= start)
    if start > 0 and not kept:
        reason = f"the log starts at offset {start} and no snapshot holds what is before it"
        raise CorruptLogError(log.directory, 0, reason)
    for older in snapshots[: len(snapshots) - len(kept)]:
        files.unlink(files.delete(older))
    if start > 0:
        log.raise_log_start_to(kept[0].offset)
    return kept


def raft_core(
    config: NodeConfig, cluster_id: str, opened: OpenedStorage, rng: Rng, now_ms: int
) -> RaftCore:
    """Make the raft core from the state on disk."""
    quorum, log = config.quorum, opened.log
    raft_config = RaftConfig(
        node_id=config.node_id,
        directory_id=opened.directory_id,
        cluster_id=cluster_id,
        voters=_configured_voters(config),
        bootstrap=tuple(
            Endpoint(config.controller_listener_names[0], host, port)
            for host, port in config.bootstrap_servers
        ),
        listener=config.controller_listener_names[0],
        announces_voter=quorum.announces_voter,
        joins=quorum.joins,
        listeners=config.advertised_controller_listeners,
        kraft_version_max=CONTROLLER_FEATURES[KRAFT_VERSION][1],
        election_timeout_ms=quorum.election_timeout_ms,
        fetch_timeout_ms=_fetch_timeout_ms(config),
        election_backoff_max_ms=quorum.election_backoff_ms_max,
        request_timeout_ms=max(quorum.request_timeout_ms, REQUEST_TIMEOUT_MS_MIN),
        retry_backoff_ms=quorum.retry_backoff_ms,
        fetch_max_bytes=quorum.fetch_bytes_max,
        fetch_snapshot_max_bytes=quorum.fetch_snapshot_bytes_max,
        can_vote=config.is_controller,
    )
    election = opened.election or ElectionState(LeaderEpoch(0))
    return RaftCore(
        raft_config,
        election_epoch=election.epoch,
        election_leader_id=election.leader_id,
        election_voted_key=election.voted_key,
        log_start_offset=Offset(log.log_start_offset),
        log_end_offset=Offset(log.end_offset),
        epoch_entries=tuple(
            EpochStart(LeaderEpoch(entry.epoch), Offset(entry.start_offset))
            for entry in log.epoch_entries
        ),
        earliest_snapshot=opened.snapshots[0] if opened.snapshots else None,
        latest_snapshot=opened.snapshots[-1] if opened.snapshots else None,
        voter_history=opened.voter_history,
        is_unproven=opened.unproven.exists,
        rng=rng,
        now_ms=now_ms,
    )


def addresses_of(config: RaftConfig) -> dict[NodeId, tuple[str, int]]:
    """Return host and port of the static voters and, by their destination ids, of the bootstrap."""
    found = {voter_id: (at.host, at.port) for voter_id, at in config.voters}
    for index, at in enumerate(config.bootstrap):
        found[NodeId(BOOTSTRAP_ID_MAX - index)] = (at.host, at.port)
    return found


def voter_addresses(core: RaftCore) -> dict[NodeId, tuple[str, int] | None]:
    """Return host and port of every voter now, None where it is unknown."""
    return {voter_id: core.address_of(voter_id) for voter_id in core.voters.ids}


def _fetch_timeout_ms(config: NodeConfig) -> int:
    """The fetch time-out that is used for the configured one."""
    return max(config.quorum.fetch_timeout_ms, FETCH_TIMEOUT_MS_MIN)


def controller_of(
    config: NodeConfig, cluster_id: str, vfs: Vfs, rng: Rng, new_uuid: Callable[[], bytes]
) -> Controller | None:
    """Make the controller of a node; None without that role."""
    if not config.is_controller:
        return None
    defaults = config.topic_defaults
    controller_config = ControllerConfig(
        cluster_id=cluster_id,
        node_id=NodeId(config.node_id),
        bootstrap_records=_bootstrap_records(vfs, config.metadata_log_dir),
        session_timeout_ms=config.broker.session_timeout_ms,
        max_idle_interval_ms=config.metadata_log.idle_interval_ms_max,
        default_replication_factor=defaults.replication_factor,
        default_partition_count=defaults.partition_count,
        delete_topic_enable=config.broker.delete_topic_enable,
        properties=dict(config.properties),
        voter_ids=tuple(voter.id for voter in config.voters),
        access=config.access,
        tokens=config.tokens,
        elections=config.elections,
        mutations=config.mutations,
    )
    return Controller(controller_config, rng, new_uuid)


def _bootstrap_records(vfs: Vfs, log_dir: str) -> tuple[Record, ...]:
    content = read_bootstrap_checkpoint(vfs, log_dir)
    if content is None:
        return tuple(bootstrap_records())
    return tuple(decode_snapshot(content).records)
