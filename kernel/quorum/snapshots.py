"""Snapshots of the committed image: writing, retention, and loading of a fetched one.

Writing takes no long step: the image is immutable, so it is encoded in slices of
`SLICE_RECORDS` records, one each `SLICE_MS`, between the other steps; the sync and the rename are a
`RunSnapshot` on another thread. (apache/kafka: SnapshotGenerator, KafkaMetadataLog.maybeClean)
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from kernel.config import MetadataLogConfig
from kernel.effects import Effect, Log, LogLevel, RunSnapshot
from kernel.quorum.log_writer import RETRY_MS
from kernel.quorum.metadata_state import MetadataState
from kernel.quorum.replica import Replica
from kernel.quorum.snapshot_retention import SnapshotRetention
from kernel.quorum.voter_records import membership_records
from metadata.loader import Loader
from metadata.snapshot import encode_snapshot, snapshot_records
from metadata.snapshot_loading import SnapshotLoading
from network.clock import Clock
from network.timers import NEVER_MS, RETENTION, SNAPSHOT_INTERVAL, SNAPSHOT_WRITING
from raft.events import SnapshotAdded
from storage.errors import OutOfSpaceError
from storage.log_dir.snapshot_files import SnapshotFiles, SnapshotWriter
from storage.logs.log import Log as StoredLog
from wire.types import Offset, OffsetAndEpoch

SLICE_RECORDS: Final = 200
"""Records encoded in one step: below 1 ms."""
SLICE_MS: Final = 1
RETENTION_CHECK_MS: Final = 60_000
"""Interval of retention checks, as in Kafka."""
PAUSE_MS_MAX: Final = 30_000
"""Longest pause after a refused snapshot; the first is the log writer's, each next one twice."""


class _Job(msgspec.Struct):
    """A snapshot that is being written; `parts` is None once it is synced on another thread."""

    snapshot_id: OffsetAndEpoch
    writer: SnapshotWriter
    parts: Iterator[bytes] | None
    is_obsolete: bool = False

    def write_slice(self) -> Callable[[], None] | None:
        """Write the next slice; if there is none, return what makes the snapshot durable.

        Raises:
            OutOfSpaceError: the disk is full.
        """
        assert self.parts is not None, "all is written"
        part = next(self.parts, None)
        if part is None:
            self.parts = None
            return self.writer.freeze
        self.writer.append(part)
        return None

    @property
    def size_bytes(self) -> int:
        """Size of what is written."""
        return self.writer.size_bytes

    def abandon(self) -> bool:
        """Remove what was written; False if it is being synced, and is deleted after that."""
        if self.parts is None:
            self.is_obsolete = True
            return False
        self.writer.abort()
        return True


class Snapshots:
    """The snapshots of one node; at most one is being written."""

    def __init__(
        self,
        config: MetadataLogConfig,
        loader: Loader,
        state: MetadataState,
        replica: Replica,
        *,
        log: StoredLog,
        files: SnapshotFiles,
        clock: Clock,
        effects: list[Effect],
    ) -> None:
        self._config = config
        self._interval_ms = config.snapshot_interval_ms_max
        """Maximum age of the last snapshot; 0: only the growth of the log triggers snapshots."""
        self._loader = loader
        self._state = state
        self._replica = replica
        self._log = log
        self._files = files
        self._clock = clock
        self._timers = clock.timers
        self._effects = effects
        self._retention = SnapshotRetention(config, log, files)
        self._job: _Job | None = None
        self._next_token = 1
        self._last_offset: int = loader.image.provenance.end_offset
        self._last_ms = clock.now_ms
        """Time of the last attempt, or of the fetched snapshot."""
        self._refused_count = 0
        """Attempts that a full disk refused since the last snapshot."""
        self._size_bytes_before = self._size_bytes_covered()
        self._timers.set(RETENTION, clock.now_ms + RETENTION_CHECK_MS)
        self._set_timer()

    def publish_loaded(self) -> None:
        """Publish the newest snapshot at start, before any record."""
        image = self._loader.image
        if image.provenance.end_offset > 0:
            self._state.publish_whole(image)

    def load(self, loading: SnapshotLoading) -> None:
        """Replace the image by a fetched snapshot, which has replaced the log."""
        self._drop_job()
        self._state.load_snapshot(loading)
        snapshot_id = loading.snapshot_id
        self._last_ms = self._clock.now_ms
        self._cover(snapshot_id.offset)
        fields = {"end_offset": snapshot_id.offset, "epoch": snapshot_id.epoch}
        self._effects.append(Log(LogLevel.INFO, "snapshot_loaded", fields))

    def on_commit(self) -> None:
        """Begin a snapshot if the log has grown enough since the last one."""
        if self._job is not None or self._refused_count > 0:
            return
        grown = self._log.size_bytes - self._size_bytes_before
        if grown >= self._config.record_bytes_between_snapshots:
            self._begin()

    def tick(self) -> None:
        """Write the next slice, begin a snapshot if the last is too old, apply retention."""
        now_ms, at_ms = self._clock.now_ms, self._timers.at_ms
        if at_ms[SNAPSHOT_WRITING] <= now_ms:
            self._write_slice()
        if at_ms[SNAPSHOT_INTERVAL] <= now_ms:
            self._begin()
        if at_ms[RETENTION] <= now_ms:
            self._clean()

    def done(self, token: int) -> None:
        """Complete a `RunSnapshot`: the snapshot is durable under its name."""
        job, self._job = self._job, None
        assert job is not None, "no snapshot is being written"
        assert token == self._next_token - 1, f"{token=} {self._next_token=}"
        if job.is_obsolete:
            self._set_timer()
            self._files.unlink(self._files.delete(job.snapshot_id))
            return
        snapshot_id = job.snapshot_id
        self._cover(snapshot_id.offset)
        fields = {
            "end_offset": snapshot_id.offset,
            "epoch": snapshot_id.epoch,
            "bytes": job.size_bytes,
        }
        self._effects.append(Log(LogLevel.INFO, "snapshot_written", fields))
        self._notify_replica(snapshot_id)
        self._clean()

    @property
    def obsolete(self) -> OffsetAndEpoch | None:
        """The snapshot still being synced though a fetched one replaced the log; None if none."""
        job = self._job
        return job.snapshot_id if job is not None and job.is_obsolete else None

    # ---- writing -----------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """Set the deadline of the next snapshot: after the refused one, else by age."""
        due_ms = NEVER_MS
        if self._job is None and self._refused_count > 0:
            doublings = min(self._refused_count - 1, 10)
            due_ms = self._last_ms + min(RETRY_MS << doublings, PAUSE_MS_MAX)
        elif self._job is None and self._interval_ms > 0:
            due_ms = self._last_ms + self._interval_ms
        self._timers.set(SNAPSHOT_INTERVAL, due_ms)

    def _begin(self) -> None:
        """Begin to write the committed image, unless it has nothing new."""
        image = self._loader.image
        snapshot_id = image.provenance.snapshot_id
        is_in_transaction = self._loader.transaction_start is not None
        assert self._job is None, "at most one is being written"
        self._last_ms = self._clock.now_ms
        if is_in_transaction or snapshot_id.offset <= self._last_offset:
            self._set_timer()
            return
        try:
            writer = self._files.writer(snapshot_id)
        except OutOfSpaceError as error:
            self._note_full(error)
            return
        parts = encode_snapshot(
            snapshot_records(image),
            level=image.metadata_version,
            epoch=snapshot_id.epoch,
            last_contained_timestamp_ms=image.provenance.timestamp_ms,
            timestamp_ms=self._clock.wall_ms,
            control_records=membership_records(self._replica.membership_before(snapshot_id.offset)),
            pause_records=SLICE_RECORDS,
        )
        self._job = _Job(snapshot_id, writer, parts)
        self._set_timer()
        self._timers.set(SNAPSHOT_WRITING, self._clock.now_ms + SLICE_MS)

    def _write_slice(self) -> None:
        assert self._job is not None, "no snapshot is being written"
        try:
            freeze = self._job.write_slice()
        except OutOfSpaceError as error:
            self._drop_job()
            self._note_full(error)
            return
        if freeze is None:
            self._timers.set(SNAPSHOT_WRITING, self._clock.now_ms + SLICE_MS)
            return
        self._timers.clear(SNAPSHOT_WRITING)
        self._effects.append(RunSnapshot(self._next_token, freeze))
        self._next_token += 1

    def _drop_job(self) -> None:
        """Abandon the snapshot being written; one being synced is deleted when that is done."""
        self._timers.clear(SNAPSHOT_WRITING)
        if self._job is not None and self._job.abandon():
            self._job = None

    def _note_full(self, error: OutOfSpaceError) -> None:
        """Log the refused snapshot, the first of several, and schedule the next attempt."""
        if self._refused_count == 0:
            fields = {"error": str(error)}
            self._effects.append(Log(LogLevel.ERROR, "snapshot_not_written", fields))
        self._refused_count += 1
        self._last_ms = self._clock.now_ms
        self._set_timer()

    def _cover(self, end_offset: int) -> None:
        """Note a durable snapshot: the next one is due by age, or by growth of the log beyond."""
        self._last_offset = end_offset
        self._size_bytes_before = self._size_bytes_covered()
        self._refused_count = 0
        self._set_timer()

    def _size_bytes_covered(self) -> int:
        """Return the size of the log below the end of the last snapshot."""
        if self._last_offset < self._log.log_start_offset:
            return 0
        return self._log.size_bytes - self._log.size_bytes_from(self._last_offset)

    # ---- retention ---------------------------------------------------------------------------

    def _clean(self) -> None:
        """Delete snapshots by retention, and the log below the oldest one kept."""
        self._timers.set(RETENTION, self._clock.now_ms + RETENTION_CHECK_MS)
        oldest = self._retention.clean(self._clock.wall_ms, self._replica.flushed_end_offset)
        if oldest is None:
            return
        self._size_bytes_before = self._size_bytes_covered()
        fields = {"log_start_offset": self._log.log_start_offset}
        self._effects.append(Log(LogLevel.INFO, "log_start_moved", fields))
        self._notify_replica(oldest)

    def _notify_replica(self, snapshot_id: OffsetAndEpoch) -> None:
        self._replica.enqueue(
            SnapshotAdded(
                snapshot_id=snapshot_id,
                log_start_offset=Offset(self._log.log_start_offset),
            )
        )
