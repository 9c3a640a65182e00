"""What must be synced so that a log is durable up to an offset: a value that any thread may run."""

from storage.errors import FsyncError
from storage.vfs import Vfs, VfsFile


class FlushPlan:
    """Covers every segment touched and every directory entry made since the plan before it.

    Run the plans in the order they were made; a plan that has run does nothing more. An error from
    `run` is fatal for the node: the system forgets what a failed sync did not write, so that
    another one would succeed and prove nothing.
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
        assert end_offset >= 0, f"{end_offset=}"
        assert last_epoch >= -1, f"{last_epoch=}"
        assert generation >= 0, f"{generation=}"
        self._vfs = vfs
        self._files = files
        self._directories = directories
        self.end_offset = end_offset
        self.last_epoch = last_epoch
        self.generation = generation
        self._failure: FsyncError | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to sync."""
        return not self._files and not self._directories

    def run(self) -> None:
        """Sync; returns when all of it is durable.

        Raises:
            FsyncError: the state of the disk is unknown now; also when it failed before.
        """
        if self._failure is not None:
            raise self._failure
        try:
            for file in self._files:
                file.sync()
            for directory in self._directories:
                self._vfs.sync_directory(directory)
        except FsyncError as error:
            self._failure = error
            raise
        for file in self._files:
            file.close()
        self._files = ()
        self._directories = ()
