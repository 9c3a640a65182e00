"""Small folders of stopped nodes on one disk, made with the project's own storage."""

from typing import Final

import msgspec

from kernel.lost_majority.audit import Audit
from kernel.lost_majority.reading import StoppedFolder, read_folder
from kernel.quorum.voter_records import epoch_start_batch, membership_records
from metadata.record_codec import encode
from metadata.records import NoOpRecord
from metadata.snapshot import encode_snapshot
from raft.effects import AppendLeaderChange
from raft.membership.lost_majority import RecoveryPlan, plan_recovery
from raft.membership.voter_history import Membership
from raft.membership.voters import VoterSet
from simulator.cluster.memory_vfs import MemoryVfs
from storage.log_dir.meta_properties import MetaProperties, write_meta_properties
from storage.log_dir.partition_directories import open_metadata_log
from storage.log_dir.quorum_state_file import ElectionState, QuorumStateFile
from storage.log_dir.snapshot_files import SnapshotFiles
from storage.logs.log import LogConfig
from tests.kernel.dynamic import directory, voter, voters
from wire.batches.batch import encode_batch
from wire.types import LeaderEpoch, NodeId, Offset, OffsetAndEpoch

CLUSTER: Final = "Z29sZGVuLXNoYXJlZC0wMw"
NOBODY: Final = VoterSet({})
RECORD: Final = encode(NoOpRecord(), 0)


def partition(node_id: int) -> str:
    return f"/n{node_id}/__cluster_metadata-0"


def make_folder(
    vfs: MemoryVfs,
    node_id: int,
    epochs: dict[int, int],
    *,
    initial: tuple[int, ...] = (1, 2, 3),
    start: int = 0,
    epoch: int | None = None,
) -> str:
    """A folder: per epoch so many records, of which LeaderChange and two of the voters are first.

    Above offset 0 the log starts at the end of a snapshot, of the first epoch. With `epoch` None
    there is no quorum-state.
    """
    path = f"/n{node_id}"
    vfs.make_directory(path)
    vfs.sync_directory("/")
    properties = MetaProperties(CLUSTER, NodeId(node_id), directory(node_id))
    write_meta_properties(vfs, path, properties)
    membership = Membership(1, voters(*initial))
    log = open_metadata_log(vfs, path, LogConfig())
    if start:
        put_snapshot(vfs, node_id, start, min(epochs), membership)
        log.truncate_fully_and_start_at(start)
    for number, count in epochs.items():
        base = Offset(log.end_offset)
        change = AppendLeaderChange(
            base_offset=base, epoch=LeaderEpoch(number), leader_id=NodeId(1), voters=(),
            granting_voters=(), membership=membership,
        )  # fmt: skip
        end = base + count
        if base == start == 0 or count >= 3:
            log.append(epoch_start_batch(change, 0), base)
        while log.end_offset < end:
            log.append(encode_batch([RECORD], log.end_offset, number, 0), log.end_offset)
    log.close()
    if epoch is not None:
        QuorumStateFile(vfs, log.directory).write(ElectionState(LeaderEpoch(epoch)), 1)
    return path


def put_snapshot(
    vfs: MemoryVfs, node_id: int, end: int, epoch: int, membership: Membership
) -> None:
    writer = SnapshotFiles(vfs, partition(node_id)).writer(
        OffsetAndEpoch(Offset(end), LeaderEpoch(epoch))
    )
    for chunk in encode_snapshot(
        (), level=25, epoch=LeaderEpoch(epoch), last_contained_timestamp_ms=0, timestamp_ms=0,
        control_records=membership_records(membership),
    ):  # fmt: skip
        writer.append(chunk)
    writer.freeze()


def read(vfs: MemoryVfs, *node_ids: int) -> list[StoppedFolder]:
    return [read_folder(vfs, f"/n{each}", NOBODY) for each in node_ids]


def plan_of(vfs: MemoryVfs, *node_ids: int) -> RecoveryPlan:
    """The plan for the first node."""
    logs = [each.replica for each in read(vfs, *node_ids)]
    found = plan_recovery(logs, f"/n{node_ids[0]}", voter(node_ids[0]))
    assert isinstance(found, RecoveryPlan), found
    return found


def audit_of(plan: RecoveryPlan, cluster_id: str = CLUSTER) -> Audit:
    return Audit(
        state="begun", wall_ms=7, plan=plan, accepted_data_loss=not plan.is_proven,
        cluster_id=cluster_id, cluster_id_before=CLUSTER,
        folders=msgspec.Raw(b"[]"), quorum_state_before=None,
    )  # fmt: skip
