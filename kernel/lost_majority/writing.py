"""The steps of a recovery, each durable before the next.

1. the audit file, begun
2. quorum-state: the new epoch, without leader and vote
3. the log of the source, if it is another folder: what is not in it is cut, what is missing copied
4. the sets of voters on the way to the new one, in one batch of the new epoch: all or none
5. the mark of a voter that may have lost a disk goes: what there was is in the plan
6. meta.properties with the new cluster id, if it gets one
7. the audit file, done

Up to 3 the folder is one of the old quorum, which may as well be started again as it was: an epoch
without leader and a log cut or filled up are what elections leave. From 4 on it is one of the new.
A step that is done is left out, so `carry_out` finishes what a crash interrupted.
"""

from typing import Final

from msgspec.structs import replace

from kernel.lost_majority.audit import Audit, write_audit
from kernel.lost_majority.reading import (
    UnusableFolderError,
    metadata_directory,
    read_folder,
    segment_names,
)
from kernel.quorum.voter_records import voter_sets_batch
from raft.membership.lost_majority import RecoveryPlan, holds, shared_end_offset
from raft.membership.voters import VoterSet
from storage.log_dir.meta_properties import read_meta_properties, write_meta_properties
from storage.log_dir.partition_directories import open_metadata_log
from storage.log_dir.quorum_state_file import ElectionState, QuorumStateFile
from storage.log_dir.snapshot_files import SnapshotFiles
from storage.log_dir.unproven_mark import UnprovenMark
from storage.logs.log import Log, LogConfig
from storage.vfs import Vfs, join
from wire.batches.batch import iterate_frames
from wire.types import OffsetAndEpoch

COPIED_BYTES_MAX: Final = 1 << 20
"""Bytes of one append of copied batches, at least one batch."""


def carry_out(vfs: Vfs, audit: Audit, date: str) -> str:
    """Recover, or finish it; return the path of the audit file. The folders are locked.

    Raises:
        CorruptFileError, CorruptLogError, UnusableFolderError: a folder is not as it was when the
            plan was made.
        OutOfSpaceError, FsyncError: the disk; the same call finishes it later.
    """
    plan = audit.plan
    write_audit(vfs, audit)
    vfs.make_directory(metadata_directory(plan.target))
    _raise_epoch(vfs, plan)
    _write_log(vfs, audit)
    UnprovenMark(vfs, plan.target).remove()  # it would wait for a leader that has the records
    relabel(vfs, plan.target, audit.cluster_id, date)
    return write_audit(vfs, replace(audit, state="done"))


def relabel(vfs: Vfs, log_dir: str, cluster_id: str, date: str) -> bool:
    """Write another cluster id into a formatted directory; False if it has that already.

    Raises:
        UnusableFolderError: it is not formatted.
        CorruptFileError: its meta.properties is damaged.
    """
    properties = read_meta_properties(vfs, log_dir)
    if properties is None:
        raise UnusableFolderError(f"{log_dir}: no meta.properties: not the log directory of a node")
    if properties.cluster_id == cluster_id:
        return False
    write_meta_properties(vfs, log_dir, replace(properties, cluster_id=cluster_id), date)
    return True


def _raise_epoch(vfs: Vfs, plan: RecoveryPlan) -> None:
    file = QuorumStateFile(vfs, metadata_directory(plan.target), (plan.node_id,))
    election = file.read()
    if election is None or election.epoch < plan.epoch:
        file.write(ElectionState(plan.epoch), version=min(plan.kraft_version, 1))


def _write_log(vfs: Vfs, audit: Audit) -> None:
    """Make the log that of the source, with the new voters behind it."""
    plan = audit.plan
    target = read_folder(vfs, plan.target, VoterSet({})).replica
    if plan.epoch in target.epoch_ends:
        return
    log = open_metadata_log(vfs, plan.target, LogConfig())
    try:
        if target.snapshot_id is not None and target.snapshot_id.offset > log.end_offset:
            log.truncate_fully_and_start_at(target.snapshot_id.offset)
        if plan.source != plan.target:
            _copy(vfs, log, plan)
        if log.end_offset != plan.end_offset:
            raise UnusableFolderError(
                f"{plan.target}: its log ends at offset {log.end_offset}, and was to end at "
                f"{plan.end_offset}: {plan.source} is not as it was when the recovery began"
            )
        if plan.voter_sets:
            batch = voter_sets_batch(plan.voter_sets, plan.end_offset, plan.epoch, audit.wall_ms)
            log.append(batch, log.end_offset, audit.wall_ms)
    finally:
        log.close()


def _copy(vfs: Vfs, log: Log, plan: RecoveryPlan) -> None:
    """Cut what the source has not, and append what it has more.

    Snapshots that the source contradicts go last: without them a log that starts above 0 is read no
    more, and with them the cut is found to be due again.
    """
    target = read_folder(vfs, plan.target, VoterSet({})).replica
    source = read_folder(vfs, plan.source, VoterSet({})).replica
    shared = shared_end_offset(target, source)
    if source.start_offset == 0 or shared >= max(source.start_offset, target.start_offset):
        log.truncate_to(shared)
    else:
        assert source.snapshot_id is not None, f"{source.start_offset=}"
        _copy_snapshot(vfs, plan, source.snapshot_id)
        log.truncate_fully_and_start_at(source.snapshot_id.offset)
    files = SnapshotFiles(vfs, log.directory)
    for found in files.list():
        if found.offset > 0 and not holds(source, found):
            files.unlink(files.delete(found))
    vfs.sync_directory(log.directory)
    directory = metadata_directory(plan.source)
    for _, name in segment_names(vfs, directory):
        _append_from(log, memoryview(vfs.read(join(directory, name))), plan)
        log.flush()


def _append_from(log: Log, content: memoryview, plan: RecoveryPlan) -> None:
    """Append the batches of a segment that the log does not have yet, in pieces."""
    begin = end = None
    for frame in iterate_frames(content):
        if frame.last_offset >= plan.end_offset:
            break
        if frame.base_offset < log.end_offset:
            continue
        begin = frame.position if begin is None else begin
        end = frame.end_position
        if end - begin >= COPIED_BYTES_MAX:
            log.append_fetched(bytes(content[begin:end]), plan.epoch)
            begin = None
    if begin is not None and end is not None:
        log.append_fetched(bytes(content[begin:end]), plan.epoch)


def _copy_snapshot(vfs: Vfs, plan: RecoveryPlan, snapshot_id: OffsetAndEpoch) -> None:
    source = SnapshotFiles(vfs, metadata_directory(plan.source))
    writer = SnapshotFiles(vfs, metadata_directory(plan.target)).writer(snapshot_id)
    writer.append(source.read(snapshot_id))
    writer.freeze()
