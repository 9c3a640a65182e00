"""`bootstrap.checkpoint`: the records a new cluster begins with, as bytes of a snapshot file."""

from typing import Final

from storage.vfs import Vfs, join, write_file_atomically

BOOTSTRAP_CHECKPOINT_NAME: Final = "bootstrap.checkpoint"


def read_bootstrap_checkpoint(vfs: Vfs, log_directory: str) -> bytes | None:
    """The batches in it; None if the directory has none."""
    path = join(log_directory, BOOTSTRAP_CHECKPOINT_NAME)
    return vfs.read(path) if vfs.exists(path) else None


def write_bootstrap_checkpoint(vfs: Vfs, log_directory: str, batches: bytes) -> None:
    """Make it durable."""
    write_file_atomically(vfs, join(log_directory, BOOTSTRAP_CHECKPOINT_NAME), batches)
