"""Snapshot downloads: chunks go into a `.part` file; once complete and valid it replaces the log.

INV-SNAP-1: the log is not touched before the snapshot has been read back, found to be the bytes
that were decoded, and renamed into place. Until then damage or a full disk leaves the log
unchanged; afterwards the log is replaced or the node stops, and no chunk is refused. A snapshot of
an unsupported kraft.version is refused as damage is, and the node ends.
"""

from collections.abc import Callable

from kernel.effects import Effect, Exit, Log, LogLevel
from kernel.kraft_version import unsupported_level
from kernel.quorum.snapshot_reading import DAMAGE, SnapshotReading
from kernel.quorum.voter_records import membership_of
from metadata.snapshot_loading import SnapshotLoading
from raft.effects import WriteSnapshotChunk
from raft.events import SnapshotInstalled, SnapshotRefused
from raft.membership.voter_history import Membership
from storage.log_dir.snapshot_files import SnapshotFiles, SnapshotWriter, snapshot_name
from storage.logs.log import Log as StoredLog
from storage.vfs import parent
from wire.types import OffsetAndEpoch

Installed = Callable[[SnapshotLoading], None]


class SnapshotDownloads:
    """The download of a snapshot, at most one at a time.

    Args:
        log: the log that a snapshot replaces.
        files: the snapshot files of the log.
        reading: the reader of the chunks received so far.
        effects: list that effects are appended to.
        installed: called with the content after the log was replaced.
    """

    def __init__(
        self,
        log: StoredLog,
        files: SnapshotFiles,
        reading: SnapshotReading,
        effects: list[Effect],
        installed: Installed,
    ) -> None:
        self._log = log
        self._files = files
        self._effects = effects
        self._download: tuple[OffsetAndEpoch, SnapshotWriter] | None = None
        self._whole: tuple[SnapshotLoading, Membership] | None = None
        self._reading = reading
        self._installed = installed

    @property
    def is_installing(self) -> bool:
        """True from the rename of the snapshot until the log is replaced: there is no undo."""
        return self._whole is not None

    def write(self, effect: WriteSnapshotChunk) -> SnapshotInstalled | SnapshotRefused | None:
        """Write a chunk; the last one installs the snapshot.

        Raises:
            OutOfSpaceError: without `is_installing` the chunk was not stored: `abort`. With it the
                log may have no segment by now: the only legal call is the same chunk again, when
                there is space; else the node must stop.
        """
        if self._whole is None:
            refused = self._keep(effect)
            if self._whole is None:
                return refused
        loading, membership = self._whole
        self._install(effect.snapshot_id, loading)
        self._whole = None
        return SnapshotInstalled(
            snapshot_id=effect.snapshot_id, generation=effect.generation, membership=membership
        )

    def _keep(self, effect: WriteSnapshotChunk) -> SnapshotRefused | None:
        """Write the chunk; after the last one rename the snapshot into place and set `_whole`.

        Raises:
            OutOfSpaceError: the snapshot is not in place.
        """
        try:
            writer = self._writer(effect)
            writer.append(effect.chunk)
            if not effect.done:
                return None
            content = writer.read()
            loading = self._reading.finish(effect.snapshot_id, content)
            membership = membership_of(loading.control_records)
            level, name = membership.kraft_version, snapshot_name(effect.snapshot_id)
            unsupported = unsupported_level(level, parent(self._log.directory), f"fetched {name}")
            if unsupported is not None:
                self._effects.append(Exit(1, unsupported))
                return self._refuse(effect.snapshot_id, LogLevel.ERROR, "unsupported", unsupported)
            writer.freeze()
        except DAMAGE as error:
            event = "fetched_snapshot_damaged"
            return self._refuse(effect.snapshot_id, LogLevel.WARN, event, str(error))
        self._download = None
        self._whole = loading, membership
        return None

    def _writer(self, effect: WriteSnapshotChunk) -> SnapshotWriter:
        """Return the writer of a chunk's file; a chunk at position 0 restarts the file."""
        if effect.position_bytes == 0:
            self.abort()
            self._download = effect.snapshot_id, self._files.writer(effect.snapshot_id)
        assert self._download is not None, f"{effect.position_bytes=} begins nothing"
        snapshot_id, writer = self._download
        assert snapshot_id == effect.snapshot_id, f"{snapshot_id=} {effect.snapshot_id=}"
        assert effect.position_bytes == writer.size_bytes, f"{effect.position_bytes=}"
        return writer

    def _install(self, snapshot_id: OffsetAndEpoch, loading: SnapshotLoading) -> None:
        assert self._log.log_start_offset <= snapshot_id.offset, f"{snapshot_id=}"
        self._log.truncate_fully_and_start_at(snapshot_id.offset)
        for older in self._files.list():
            if older.offset < snapshot_id.offset:
                self._files.unlink(self._files.delete(older))
        self._installed(loading)

    def _refuse(
        self, snapshot_id: OffsetAndEpoch, level: LogLevel, event: str, reason: str
    ) -> SnapshotRefused:
        self.abort()
        fields = {
            "error": reason,
            "snapshot_end_offset": snapshot_id.offset,
            "snapshot_epoch": snapshot_id.epoch,
        }
        self._effects.append(Log(level, event, fields))
        return SnapshotRefused(snapshot_id=snapshot_id)

    def abort(self) -> None:
        """Remove the partial file, if there is one."""
        if self._download is not None:
            self._download[1].abort()
            self._download = None
