"""`bootstrap.checkpoint`: the first records of a new cluster, in the format of a snapshot file."""

from typing import Final

from storage.vfs import Vfs, join, write_file_atomically

BOOTSTRAP_CHECKPOINT_NAME: Final = "bootstrap.checkpoint"


def read_bootstrap_checkpoint(vfs: Vfs, log_directory: str) -> bytes | None:
    """The batches of the file; None if the directory has no such file."""
    path = join(log_directory, BOOTSTRAP_CHECKPOINT_NAME)
    return vfs.read(path) if vfs.exists(path) else None


def write_bootstrap_checkpoint(vfs: Vfs, log_directory: str, batches: bytes) -> None:
    """Write the file; durable on return."""
    write_file_atomically(vfs, join(log_directory, BOOTSTRAP_CHECKPOINT_NAME), batches)
