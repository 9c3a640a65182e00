"""What must be synced so that a log is durable up to an offset: a value that any thread may run."""

from storage.vfs import Vfs, VfsFile


class FlushPlan:
    """Covers every segment touched and every directory entry made since the plan before it.

    Run each plan once, in the order they were made. An error from `run` is fatal for the node.
    """

    def __init__(
        self,
        vfs: Vfs,
        files: tuple[VfsFile, ...],
        directories: tuple[str, ...],
        *,
        end_offset: int,
        last_epoch: int,
        generation: int,
    ) -> None:
        self._vfs = vfs
        self._files = files
        self._directories = directories
        self.end_offset = end_offset
        self.last_epoch = last_epoch
        self.generation = generation

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to sync."""
        return not self._files and not self._directories

    def run(self) -> None:
        """Sync; returns when all of it is durable.

        Raises:
            FsyncError: the state of the disk is unknown now.
        """
        for file in self._files:
            file.sync()
        for directory in self._directories:
            self._vfs.sync_directory(directory)
        for file in self._files:
            file.close()
        self._files = ()
        self._directories = ()
