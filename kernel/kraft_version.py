"""Check of the kraft.version before a log directory is opened and before fetched bytes are kept.

Level 1 (KIP-853) keeps the voters in the log and in snapshots. A node with only
`controller.quorum.voters` would count another majority than the quorum that wrote the directory:
as sole voter it would elect itself and commit. So it refuses to start, and ends when it fetches
such a record; offline tools still read.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from metadata.control_records import KRaftVersion, KRaftVoters, control_type, decode_control
from metadata.features import CONTROLLER_FEATURES, KRAFT_VERSION
from metadata.schema import MetadataRecordError
from storage.errors import CorruptFileError
from storage.log_dir.bootstrap_checkpoint import (
    BOOTSTRAP_CHECKPOINT_NAME,
    read_bootstrap_checkpoint,
)
from storage.log_dir.partition_directories import partition_directory_name
from storage.log_dir.snapshot_files import SnapshotFiles
from storage.logs.control_batches import control_batches, control_batches_in
from storage.vfs import Vfs, base_name, join, parent
from wire.batches.batch import Batch, iterate_batches
from wire.errors import CorruptBatchError
from wire.types import METADATA_TOPIC_NAME

SNAPSHOT_START_BYTES: Final = 256 * 1024
"""Bytes read of a snapshot: its first batch has level and voters, some hundred bytes a voter."""
VOTERS_LEVEL_MIN: Final = 1
"""First level at which records hold the voters, implied by any VotersRecord."""


class UnsupportedFeatureError(Exception):
    """A finalized feature of the cluster is not supported by this node."""


def refuse_unsupported_kraft_version(vfs: Vfs, log_dir: str) -> None:
    """Raise if the metadata log, a snapshot or a checkpoint has an unsupported kraft.version.

    Raises:
        UnsupportedFeatureError: names the directory, the level, the file and the supported range.
        CorruptFileError: the checkpoint that may hold the first voters cannot be read.
    """
    refusal = _refusal(log_dir, _levels(vfs, log_dir))
    if refusal is not None:
        raise UnsupportedFeatureError(refusal)


def unsupported_kraft_version(content: bytes, log_directory: str, name: str) -> str | None:
    """Return why fetched batches must not be kept, in one line; None if they may.

    Args:
        content: records of the metadata log, or a whole snapshot.
        log_directory: of the metadata log that they would be written to.
        name: what was fetched.
    """
    return _refusal(parent(log_directory), _of_batches(name, control_batches_in(content)))


def _refusal(log_dir: str, levels: Iterable[tuple[str, int]]) -> str | None:
    lowest, highest = CONTROLLER_FEATURES[KRAFT_VERSION]
    for found_in, level in levels:
        if level > highest:
            return (
                f"{log_dir}: {KRAFT_VERSION} is finalized at {level} ({found_in}), "
                f"supported is {lowest} to {highest}: "
                "this node has static voters only and would count others than this quorum has"
            )
    return None


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
