"""Folders that never held a quorum-state, and logs that lost theirs (raft/elections/proof.py).

Kafka starts with a log that has no quorum-state: it takes the epoch from the log, and a vote given
in a later epoch is forgotten, so that the voter can vote twice. A static voter (kraft.version 0) is
refused here. At level 1 it starts with the mark: the directory id says that it is the same folder,
and a marked voter with records votes for nobody until it has caught up.
"""

from typing import Final

from storage.errors import CorruptFileError
from storage.log_dir.partition_directories import partition_directory_name
from storage.log_dir.quorum_state_file import QUORUM_STATE_NAME
from storage.log_dir.snapshot_files import SnapshotFiles
from storage.log_dir.unproven_mark import UnprovenMark
from storage.segments.segment import LOG_SUFFIX
from storage.vfs import Vfs, join, parent
from wire.types import METADATA_TOPIC_NAME

LOST_STATE: Final = (
    "it is missing beside a log that is not empty: the epoch and the vote of this voter are lost, "
    "and it could vote a second time; put the file back, or empty the folder, format it, and let "
    "the voter fetch everything again; a quorum whose majority lost its disks is started again by "
    "`kraftline recover`"
)


def mark_new_folder(vfs: Vfs, log_dir: str) -> None:
    """Mark a controller's metadata log directory without quorum-state, before it is used."""
    if not vfs.exists(_quorum_state(log_dir)):
        UnprovenMark(vfs, log_dir).write()


def check_has_state(vfs: Vfs, log_dir: str) -> None:
    """Check that the log of a static voter, if it has one, has its quorum-state.

    Raises:
        CorruptFileError: it has none.
    """
    path = _quorum_state(log_dir)
    if not vfs.exists(path) and _has_records(vfs, parent(path)):
        raise CorruptFileError(path, LOST_STATE)


def _quorum_state(log_dir: str) -> str:
    directory = partition_directory_name(METADATA_TOPIC_NAME, 0)
    return join(join(log_dir, directory), QUORUM_STATE_NAME)


def _has_records(vfs: Vfs, directory: str) -> bool:
    """True if a metadata log directory has bytes in a segment, or a snapshot of the log."""
    if not vfs.exists(directory):
        return False
    if any(found.offset > 0 for found in SnapshotFiles(vfs, directory).list()):
        return True
    segments = [name for name in vfs.list(directory) if name.endswith(LOG_SUFFIX)]
    return any(vfs.size(join(directory, name)) > 0 for name in segments)
