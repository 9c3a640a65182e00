"""The `.snapshot` files of a partition: written at rolls and at the end, read when it is opened.

apache/kafka: storage/.../log/ProducerStateManager.java (`takeSnapshot`, `truncateAndReload`)
"""

import contextlib
from collections.abc import Callable

from storage.errors import CorruptFileError, OutOfSpaceError
from storage.logs.recovery import FileRebuilt
from storage.producers.producer_snapshot import (
    PRODUCER_SNAPSHOT_SUFFIX,
    ProducerSnapshotEntry,
    decode_producer_snapshot,
    encode_producer_snapshot,
)
from storage.producers.producer_state import ProducerStates
from storage.segments.segment import segment_base_offset, segment_name
from storage.vfs import Vfs, VfsFile, join


class ProducerSnapshotFiles:
    """The files of one partition; the offset in a name is the end of what the file covers.

    Args:
        vfs: the disk.
        directory: of the log.
        wrote: told the path and the open file of each write, which the next flush syncs.
    """

    def __init__(self, vfs: Vfs, directory: str, wrote: Callable[[str, VfsFile], None]) -> None:
        self._vfs = vfs
        self.directory = directory
        self._wrote = wrote
        self._newest: int | None = None
        """Offset that a start finds the state of: that of a file, or a log start without one."""

    def offsets(self) -> list[int]:
        """The offsets in the names, ascending."""
        names = self._vfs.list(self.directory)
        found = (segment_base_offset(name, PRODUCER_SNAPSHOT_SUFFIX) for name in names)
        return sorted(offset for offset in found if offset is not None)

    def write(self, states: ProducerStates) -> None:
        """Write the state as it stands; durable with the next flush. A full disk leaves none.

        A start without it only replays more of the log. A file of this offset stays as it is.
        """
        assert states.end_offset >= 0, f"{states.end_offset=}"
        if states.end_offset == self._newest:
            return
        path = self._path(states.end_offset)
        content = encode_producer_snapshot(states.snapshot_entries())
        try:
            file = self._vfs.open(path, create=True)
            try:
                file.truncate(0)
                file.pwrite(content, 0)
                self._wrote(path, file)
            finally:
                file.close()
        except OutOfSpaceError:
            self._remove(path)
        else:
            self._newest = states.end_offset

    def load(
        self,
        states: ProducerStates,
        log_start_offset: int,
        end_offset: int,
        wall_ms: int,
        newest: int | None = None,
    ) -> list[FileRebuilt]:
        """Give `states` the newest valid file up to `newest`, else the empty state of the start.

        Files outside of (`log_start_offset`, `end_offset`] and damaged ones that were read are
        removed; the damage is returned.
        """
        newest = end_offset if newest is None else newest
        assert log_start_offset <= newest <= end_offset, f"{log_start_offset=} {end_offset=}"
        damage: list[FileRebuilt] = []
        loaded = False
        for offset in reversed(self.offsets()):
            path = self._path(offset)
            if not log_start_offset < offset <= end_offset:
                self._remove(path)
            elif offset <= newest and not loaded:
                try:
                    entries = decode_producer_snapshot(self._vfs.read(path), path)
                except CorruptFileError as error:
                    damage.append(FileRebuilt(path, error.reason))
                    self._remove(path)
                else:
                    states.load(entries, offset, wall_ms)
                    self._newest, loaded = offset, True
        if not loaded:
            states.load((), log_start_offset, wall_ms)
            self._newest = log_start_offset
        return damage

    def newest(
        self, log_start_offset: int, end_offset: int
    ) -> tuple[int, list[ProducerSnapshotEntry]]:
        """Offset and producers of the newest valid file up to `end_offset`, expired ones with them.

        The log start and none where `load` left no such file.
        """
        for offset in reversed(self.offsets()):
            if offset <= end_offset:
                path = self._path(offset)
                with contextlib.suppress(CorruptFileError):
                    return offset, decode_producer_snapshot(self._vfs.read(path), path)
        return log_start_offset, []

    def _path(self, offset: int) -> str:
        return join(self.directory, segment_name(offset, PRODUCER_SNAPSHOT_SUFFIX))

    def _remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._vfs.unlink(path)
