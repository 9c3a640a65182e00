"""The files and directories to sync to make a log durable up to an offset; any thread may do it."""

from storage.errors import FsyncError
from storage.vfs import Vfs, VfsFile


class FlushPlan:
    """The syncs of all segments written and directory entries made since the previous plan.

    Run the plans in the order they were made; running one again does nothing. An error from `run`
    is fatal for the node: the operating system drops the pages that a failed sync did not write, so
    that the next sync would succeed and prove nothing.
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
        self._is_abandoned = False

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to sync."""
        return not self._files and not self._directories

    def abandon(self) -> None:
        """Let errors be: the log is deleted, or its disk failed. `run` may be under way."""
        self._is_abandoned = True

    def run(self) -> None:
        """Sync everything; durable on return, unless the plan was abandoned.

        Raises:
            FsyncError: the content of the disk is unknown; raised again if it failed before.
        """
        if self._failure is not None:
            raise self._failure
        try:
            for file in self._files:
                file.sync()
            for directory in self._directories:
                self._vfs.sync_directory(directory)
        except FsyncError as error:
            if not self._is_abandoned:
                self._failure = error
                raise
        for file in self._files:
            file.close()
        self._files = ()
        self._directories = ()
