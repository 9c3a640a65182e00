"""Snapshots of the committed image: written when the log has grown, loaded when they arrive."""

from typing import Final

from kernel.clock import Clock
from kernel.config import NodeConfig
from kernel.effects import Effect, Log, LogLevel
from kernel.log_writer import LogWriter
from kernel.metadata_state import MetadataState
from metadata.snapshot import decode_snapshot, encode_snapshot, snapshot_records
from raft.events import SnapshotAdded
from storage.errors import OutOfSpaceError
from wire.types import Offset, OffsetAndEpoch

SNAPSHOT_MIN_RECORDS: Final = 1
"""A timer does not write a snapshot of an image that has one already."""


class Snapshots:
    """Follows the commits of one node."""

    def __init__(
        self,
        config: NodeConfig,
        state: MetadataState,
        writer: LogWriter,
        clock: Clock,
        effects: list[Effect],
    ) -> None:
        self._config = config
        self._state = state
        self._writer = writer
        self._clock = clock
        self._effects = effects
        self._size_bytes_before = writer.log.size_bytes
        self._last_offset: int = state.loader.image.provenance.end_offset
        self._last_ms = clock.now_ms

    def publish_loaded(self) -> None:
        """At start: what the newest snapshot held is published before any record."""
        image = self._state.loader.image
        if image.provenance.end_offset > 0:
            self._state.publish_whole(image)

    def load(self, snapshot_id: OffsetAndEpoch) -> None:
        """A fetched snapshot is complete: it replaces the image."""
        content = decode_snapshot(self._writer.snapshots.read(snapshot_id))
        self._state.load_snapshot(content.records, snapshot_id, content.last_contained_timestamp_ms)
        self._reset()
        fields = {"end_offset": snapshot_id.offset, "epoch": snapshot_id.epoch}
        self._effects.append(Log(LogLevel.INFO, "snapshot_loaded", fields))

    def on_commit(self) -> None:
        """Write a snapshot when the log has grown enough since the last one."""
        grown = self._writer.log.size_bytes - self._size_bytes_before
        if grown >= self._config.metadata_log.record_bytes_between_snapshots:
            self._write()

    def tick(self) -> None:
        """Write one when the last is too old."""
        deadline_ms = self.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= self._clock.now_ms:
            self._write()

    def next_deadline_ms(self) -> int | None:
        """When the timer writes a snapshot."""
        interval_ms = self._config.metadata_log.snapshot_interval_ms_max
        if interval_ms == 0:
            return None
        return self._last_ms + interval_ms

    def _reset(self) -> None:
        self._size_bytes_before = self._writer.log.size_bytes
        self._last_offset = self._state.loader.image.provenance.end_offset
        self._last_ms = self._clock.now_ms

    def _write(self) -> None:
        """Write the committed image; the log before the one before it may go."""
        image = self._state.loader.image
        snapshot_id = image.provenance.snapshot_id
        is_in_transaction = self._state.loader.transaction_start is not None
        if is_in_transaction or snapshot_id.offset < self._last_offset + SNAPSHOT_MIN_RECORDS:
            self._last_ms = self._clock.now_ms
            return
        writer = self._writer.snapshots.writer(snapshot_id)
        try:
            for batch in encode_snapshot(
                snapshot_records(image),
                level=image.metadata_version,
                epoch=snapshot_id.epoch,
                last_contained_timestamp_ms=image.provenance.timestamp_ms,
                timestamp_ms=self._clock.wall_ms,
            ):
                writer.append(batch)
            writer.freeze()
        except OutOfSpaceError as error:
            writer.abort()
            self._reset()
            self._effects.append(Log(LogLevel.ERROR, "disk_full", {"error": str(error)}))
            return
        self._reset()
        fields = {"end_offset": snapshot_id.offset, "epoch": snapshot_id.epoch}
        self._effects.append(Log(LogLevel.INFO, "snapshot_written", fields))
        self._state.replica.enqueue(
            SnapshotAdded(
                snapshot_id=snapshot_id,
                log_start_offset=Offset(self._writer.log.log_start_offset),
            )
        )
