"""Level and voters of a log directory, read before the core is made; an unsupported level refused.

Level 1 (KIP-853) keeps the voters in the log and in snapshots: a node that counted others could
elect itself and commit alone. So the voters of a directory are those of its newest snapshot, else
of the 0-0 checkpoint, and of the log after it; only without any are they those of
`controller.quorum.voters`. A level above the supported ones may keep them elsewhere: such a
directory is refused, and a node that fetches such a record ends; offline tools still read.
Source: apache/kafka: raft/.../internals/KRaftControlRecordStateMachine.java.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from kernel.quorum.voter_records import membership_of, voter_records
from metadata.control_records import (
    ControlRecord,
    KRaftVersion,
    KRaftVoters,
    control_type,
    decode_control,
)
from metadata.features import CONTROLLER_FEATURES, KRAFT_VERSION
from metadata.schema import MetadataRecordError
from raft.membership.voter_history import BOOTSTRAP_OFFSET, KRaftVersionAt, VoterHistory, VotersAt
from raft.membership.voters import VoterSet
from storage.errors import CorruptFileError, CorruptLogError
from storage.log_dir.bootstrap_checkpoint import (
    BOOTSTRAP_CHECKPOINT_NAME,
    read_bootstrap_checkpoint,
)
from storage.log_dir.partition_directories import partition_directory_name
from storage.log_dir.snapshot_files import SnapshotFiles
from storage.logs.control_batches import control_batches
from storage.vfs import Vfs, base_name, join
from wire.batches.batch import Batch, iterate_batches
from wire.errors import CorruptBatchError
from wire.types import METADATA_TOPIC_NAME, Offset

SNAPSHOT_START_BYTES: Final = 256 * 1024
"""Bytes read of a snapshot: its first batch has level and voters, some hundred bytes a voter."""
VOTERS_LEVEL_MIN: Final = 1
"""First level at which records hold the voters, implied by any VotersRecord."""


class UnsupportedFeatureError(Exception):
    """A finalized feature of the cluster is not supported by this node."""


def checked_kraft_version(vfs: Vfs, log_dir: str) -> int:
    """Return the highest level that the metadata log, a snapshot or a checkpoint has or implies.

    Raises:
        UnsupportedFeatureError: names the directory, the level, the file and the supported range.
        CorruptFileError: the checkpoint that may hold the first voters cannot be read.
    """
    highest = 0
    for found_in, level in _levels(vfs, log_dir):
        refusal = unsupported_level(level, log_dir, found_in)
        if refusal is not None:
            raise UnsupportedFeatureError(refusal)
        highest = max(highest, level)
    return highest


def unsupported_level(level: int, log_dir: str, found_in: str) -> str | None:
    """Return why a directory or what was fetched for it is refused, in one line; None if not."""
    lowest, highest = CONTROLLER_FEATURES[KRAFT_VERSION]
    if level <= highest:
        return None
    return (
        f"{log_dir}: {KRAFT_VERSION} is finalized at {level} ({found_in}), "
        f"supported is {lowest} to {highest}: "
        "this node would count other voters than this quorum has"
    )


def read_voter_history(
    vfs: Vfs, directory: str, static: VoterSet, end_offset: Offset
) -> VoterHistory:
    """Return the voters and levels of an opened metadata log that ends at `end_offset`.

    Args:
        vfs: disk of the node.
        directory: of the log; damage at its end is repaired, obsolete snapshots are deleted.
        static: the voters of the configuration.
        end_offset: of the log.

    Raises:
        CorruptFileError, CorruptLogError: a record of the voters cannot be read.
    """
    history, start_offset = VoterHistory(static), Offset(0)
    files = SnapshotFiles(vfs, directory)
    newest = max(files.list(), default=None, key=lambda found: found.offset)
    if newest is not None:
        start = files.read_chunk(newest, 0, SNAPSHOT_START_BYTES)
        try:
            membership = membership_of(_control_records(_readable(start)))
        except (MetadataRecordError, CorruptBatchError) as error:
            raise CorruptFileError(files.path(newest), str(error)) from error
        start_offset = newest.offset
        last = start_offset - 1 if start_offset else BOOTSTRAP_OFFSET
        if membership.kraft_version:
            history = history.after(KRaftVersionAt(last, membership.kraft_version))
        if membership.voters is not None:
            history = history.after(VotersAt(last, membership.voters))
    batches = (batch for _, batch in control_batches(vfs, directory))
    try:
        for record in voter_records(batches):
            if start_offset <= record.offset < end_offset:
                history = history.after(record)
    except (MetadataRecordError, CorruptBatchError) as error:
        raise CorruptLogError(directory, 0, f"a record of the voters: {error}") from error
    return history


def _control_records(batches: Iterable[Batch]) -> Iterator[ControlRecord]:
    for batch in batches:
        for view in batch.records():
            record = decode_control(control_type(view.key), view.value)
            if record is not None:
                yield record


def _levels(vfs: Vfs, log_dir: str) -> Iterator[tuple[str, int]]:
    """Yield file and level of each record that has or implies one."""
    bootstrap = read_bootstrap_checkpoint(vfs, log_dir)
    if bootstrap is not None:
        yield from _of_batches(BOOTSTRAP_CHECKPOINT_NAME, _readable(bootstrap))
    directory = join(log_dir, partition_directory_name(METADATA_TOPIC_NAME, 0))
    if not vfs.exists(directory):
        return
    files = SnapshotFiles(vfs, directory)
    for snapshot_id in files.list():
        path = files.path(snapshot_id)
        start = files.read_chunk(snapshot_id, 0, SNAPSHOT_START_BYTES)
        batches = list(_readable(start))
        if snapshot_id.offset == 0 and not batches:
            # It is not read elsewhere: ignoring the damage would lose the voters of the quorum.
            raise CorruptFileError(path, "no batch of it can be read")
        yield from _of_batches(base_name(path), batches)
    for path, batch in control_batches(vfs, directory):
        yield from _of_batches(base_name(path), [batch])


def _readable(content: bytes) -> Iterator[Batch]:
    """Yield the control batches up to the first damage, which loading the file reports."""
    try:
        for batch in iterate_batches(content):
            if not batch.crc_is_valid:
                return
            if batch.header.is_control:
                yield batch
    except CorruptBatchError:
        return


def _of_batches(name: str, batches: Iterable[Batch]) -> Iterator[tuple[str, int]]:
    for batch in batches:
        try:
            for view in batch.records():
                record = decode_control(control_type(view.key), view.value)
                if isinstance(record, KRaftVersion):
                    yield name, record.k_raft_version
                elif isinstance(record, KRaftVoters):
                    yield name, VOTERS_LEVEL_MIN
        except (MetadataRecordError, CorruptBatchError):
            continue  # applying the record reports it
