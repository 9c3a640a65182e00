"""Replacement of segments by the cleaned one of their group, while others read the log.

    begin           .cleaned -> .swap, the new segment's files
    sync            the directory: from here on a start finishes the swap
    replace         the log has the new segment; old files -> .deleted
    sync            before the new files are in the place of old ones
    finish          .swap -> in place
    sync

`sync` may run on any thread, the others are of the thread that owns the log: a segment that is
closed is opened by its name. Whoever holds a slice of an old segment reads on. A truncation ends
the swap first (`end_now`): before `replace` it is undone, else finished.
storage/logs/interrupted_swaps.py does so after a crash.

apache/kafka: storage/.../log/LocalLog.java (`replaceSegments`)
"""

import contextlib
from enum import Enum

from storage.cleaner.clean_job import GroupCleaned
from storage.cleaner.cleaned_segment import DATA_SUFFIXES
from storage.logs.interrupted_swaps import CLEANED_SUFFIX, SWAP_SUFFIX
from storage.logs.log import Log
from storage.segments.segment import SEGMENT_SUFFIXES, Segment, segment_name
from storage.vfs import Vfs, join


class SwapState(Enum):
    """The last step that was taken."""

    CLEANED = "cleaned"
    BEGUN = "begun"
    REPLACED = "replaced"
    ENDED = "ended"


class SegmentSwap:
    """One swap; a log has one at a time.

    Args:
        vfs: the disk.
        log: with all segments of the group.
        group: whose `.cleaned` files are durable.
    """

    def __init__(self, vfs: Vfs, log: Log, group: GroupCleaned) -> None:
        assert log.swap is None, f"{log.directory} has a swap"
        self._vfs = vfs
        self._log = log
        self._directory = log.directory
        self._base_offset = group.base_offset
        self._old = [each for each in log.segments if each.base_offset in group.segments]
        assert len(self._old) == len(group.segments), f"{group=}"
        self._new: Segment | None = None
        self.state = SwapState.CLEANED

    def begin(self) -> None:
        """Rename the cleaned files `.swap`."""
        assert self.state is SwapState.CLEANED, f"{self.state=}"
        self._log.swap = self
        self.state = SwapState.BEGUN
        for suffix in DATA_SUFFIXES:
            self._rename(suffix, CLEANED_SUFFIX, SWAP_SUFFIX)

    def sync(self) -> None:
        """Make the names in the directory durable; any thread.

        Raises:
            FsyncError: they may be lost; the log directory cannot stay online.
        """
        self._vfs.sync_directory(self._directory)

    def replace(self) -> tuple[str, ...]:
        """Let the log have the new segment; the paths of the old files, to be unlinked later."""
        assert self.state is SwapState.BEGUN, f"{self.state=}"
        maker = self._log.maker
        self._new = maker.make(self._base_offset, maker.opened_ms, SWAP_SUFFIX)
        self._log.swap_in(self._new, self._old)
        self.state = SwapState.REPLACED
        renamed: list[str] = []
        for old in self._old:
            is_first = old.base_offset == self._base_offset  # the producers before it stay known
            renamed += old.mark_deleted(DATA_SUFFIXES if is_first else SEGMENT_SUFFIXES)
        return tuple(renamed)

    def finish(self) -> None:
        """Rename the new files into their place; `sync` follows."""
        assert self.state is SwapState.REPLACED, f"{self.state=}"
        assert self._new is not None, "the log has it"
        for suffix in DATA_SUFFIXES:
            self._rename(suffix, SWAP_SUFFIX, "")
        self._new.give_suffix("")
        self.state = SwapState.ENDED
        self._log.swap = None

    def end_now(self) -> None:
        """Undo the swap if the log has not the new segment yet, else finish it; durable."""
        if self.state is SwapState.REPLACED:
            self.sync()
            self.finish()
        elif self.state is not SwapState.ENDED:
            self.undo()
        self.sync()

    def undo(self) -> None:
        """Remove the new files, of which the log has nothing; `sync` follows.

        That of the batches goes last: a start that finds it alone would finish the swap.
        """
        assert self.state in (SwapState.CLEANED, SwapState.BEGUN), f"{self.state=}"
        present = CLEANED_SUFFIX if self.state is SwapState.CLEANED else SWAP_SUFFIX
        for suffix in reversed(DATA_SUFFIXES):
            with contextlib.suppress(FileNotFoundError):
                self._vfs.unlink(self._path(suffix) + present)
        self.state = SwapState.ENDED
        self._log.swap = None

    def _rename(self, suffix: str, before: str, after: str) -> None:
        path = self._path(suffix)
        if self._vfs.exists(path + before):
            self._vfs.rename(path + before, path + after)

    def _path(self, suffix: str) -> str:
        return join(self._directory, segment_name(self._base_offset, suffix))
