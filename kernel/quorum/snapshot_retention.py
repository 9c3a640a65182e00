"""Retention of snapshots, and of the log below the oldest one kept (KIP-630).

From the oldest: while the log and all snapshots together are larger than
`metadata.max.retention.bytes`, or the oldest snapshot is older than `metadata.max.retention.ms`,
the log start moves to the end of the next snapshot and everything below is deleted. The newest
snapshot is never deleted, and a log start above 0 is always the end of a snapshot.
apache/kafka: core/.../raft/KafkaMetadataLog.scala, `maybeClean`
"""

from itertools import pairwise
from typing import Final

from kernel.config import MetadataLogConfig
from metadata.snapshot import snapshot_timestamp_ms
from storage.log_dir.snapshot_files import SnapshotFiles
from storage.logs.log import Log
from wire.types import OffsetAndEpoch

_HEADER_BYTES_MAX: Final = 4096  # the first batch of a snapshot holds three small records at most


class SnapshotRetention:
    """Retention of one metadata log."""

    def __init__(self, config: MetadataLogConfig, log: Log, files: SnapshotFiles) -> None:
        self._config = config
        self._log = log
        self._files = files
        self._timestamps_ms: dict[OffsetAndEpoch, int | None] = {}

    def clean(self, wall_ms: int, flushed_end_offset: int) -> OffsetAndEpoch | None:
        """Delete snapshots; return the one at whose end the log starts now, None if none went."""
        snapshots = [found for found in self._files.list() if found.offset > 0]
        for gone in [known for known in self._timestamps_ms if known not in snapshots]:
            del self._timestamps_ms[gone]  # deleted when a fetched snapshot was installed
        start: OffsetAndEpoch | None = None
        for snapshot_id, following in pairwise(snapshots):
            is_kept = not self._is_too_large(snapshots) and not self._is_old(snapshot_id, wall_ms)
            if is_kept or following.offset > flushed_end_offset:
                break
            self._log.raise_log_start_to(following.offset)
            self._files.unlink(self._files.delete(snapshot_id))
            self._timestamps_ms.pop(snapshot_id, None)
            snapshots = snapshots[1:]  # a new list: the loop iterates over the first one
            start = following
        return start

    def _is_too_large(self, snapshots: list[OffsetAndEpoch]) -> bool:
        limit_bytes = self._config.retention_bytes
        if limit_bytes < 0:
            return False
        held = sum(self._files.size(snapshot_id) for snapshot_id in snapshots)
        return self._log.size_bytes + held > limit_bytes

    def _is_old(self, snapshot_id: OffsetAndEpoch, wall_ms: int) -> bool:
        limit_ms = self._config.retention_ms
        if limit_ms < 0:
            return False
        if snapshot_id not in self._timestamps_ms:
            start = self._files.read_chunk(snapshot_id, 0, _HEADER_BYTES_MAX)
            self._timestamps_ms[snapshot_id] = snapshot_timestamp_ms(start)
        timestamp_ms = self._timestamps_ms[snapshot_id]
        return timestamp_ms is not None and wall_ms - timestamp_ms > limit_ms
