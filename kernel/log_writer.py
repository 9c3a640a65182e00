"""Raft's persist effects on the disk: log, quorum-state, fetched snapshots; and the flushes.

Writes are synchronous, the flush of the log is not: at most one plan is outstanding, and all that
is appended while it runs belongs to the next one (grouping without a linger).

A full disk stops the appends, not the node: what could not be written waits here in order, nothing
after it is written, and every `RETRY_MS` it is tried again.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from kernel.clock import Clock
from kernel.effects import Effect, Log, LogLevel, RunFlush
from raft import effects as raft
from raft import events
from raft.core import RaftCore
from storage.errors import OutOfSpaceError
from storage.flush_plan import FlushPlan
from storage.log import AppendInfo
from storage.log import Log as StoredLog
from storage.quorum_state_file import ElectionState, QuorumStateFile
from storage.snapshot_files import SnapshotFiles, SnapshotWriter
from wire.batch import encode_batch, encode_control_batch
from wire.control_records import ControlType, leader_change_value
from wire.types import LeaderEpoch, Offset, OffsetAndEpoch, ReplicaKey

RETRY_MS: Final = 500


class LogWriter:
    """The durable half of a replica."""

    def __init__(
        self,
        log: StoredLog,
        quorum_state: QuorumStateFile,
        snapshots: SnapshotFiles,
        clock: Clock,
        effects: list[Effect],
    ) -> None:
        self.log = log
        self.snapshots = snapshots
        self._quorum_state = quorum_state
        self._clock = clock
        self._effects = effects
        self._needs_flush = False
        self._flush: tuple[int, FlushPlan, LeaderEpoch, int] | None = None
        self._next_token = 1
        self._stalled: deque[raft.PersistEffect] = deque()
        self.retry_ms: int | None = None
        self._download: tuple[OffsetAndEpoch, SnapshotWriter] | None = None
        self.on_snapshot_installed: Callable[[OffsetAndEpoch], None] | None = None
        self.timestamps: deque[tuple[Offset, int]] = deque()
        """(end offset, append time) of the batches that this leader wrote, oldest first."""

    # ---- writes ------------------------------------------------------------------------------

    def perform(self, effect: raft.PersistEffect, core: RaftCore) -> events.Event | None:
        """Do one effect now; gives what the core must hear next."""
        if self._stalled and not isinstance(effect, raft.PersistElection | raft.TruncateLog):
            self._stalled.append(effect)
            return self._nothing_appended(effect, core)
        try:
            return self._perform(effect, core)
        except OutOfSpaceError as error:
            fields = {"error": str(error), "log_end_offset": self.log.end_offset}
            self._effects.append(Log(LogLevel.ERROR, "disk_full", fields))
            if not isinstance(effect, raft.AppendBatch | raft.AppendLeaderChange):
                return self._nothing_appended(effect, core)
            self._stalled.append(effect)
            self.retry_ms = self._clock.now_ms + RETRY_MS
            return None

    def _perform(self, effect: raft.PersistEffect, core: RaftCore) -> events.Event | None:
        match effect:
            case raft.AppendBatch():
                now_ms = self._clock.wall_ms
                batch = encode_batch(effect.values, effect.base_offset, effect.epoch, now_ms)
                return self._append_own(batch, effect.base_offset, core)
            case raft.AppendLeaderChange():
                return self._append_own(self._leader_change(effect), effect.base_offset, core)
            case raft.AppendFetched():
                assert effect.base_offset == self.log.end_offset, f"{effect.base_offset=}"
                appended = self.log.append_fetched(effect.records, effect.epoch)
                if appended.stopped is not None:
                    fields = {"reason": appended.stopped, "log_end_offset": appended.end_offset}
                    self._effects.append(Log(LogLevel.WARN, "fetched_batches_refused", fields))
                self._needs_flush = True
                return self._appended(appended, core)
            case raft.PersistElection():
                self._quorum_state.write(
                    ElectionState(effect.epoch, effect.leader_id, effect.voted_key)
                )
                return None
            case raft.TruncateLog():
                self._stalled.clear()
                self.retry_ms = None
                self.timestamps.clear()
                end_offset = self.log.truncate_to(effect.end_offset)
                assert end_offset == effect.end_offset, f"{end_offset=} {effect.end_offset=}"
                return None
            case raft.WriteSnapshotChunk():
                return self._write_snapshot_chunk(effect)

    def _leader_change(self, effect: raft.AppendLeaderChange) -> bytes:
        value = leader_change_value(
            effect.leader_id,
            [ReplicaKey(voter) for voter in effect.voters],
            [ReplicaKey(voter) for voter in effect.granting_voters],
        )
        record = (ControlType.LEADER_CHANGE, value)
        return encode_control_batch([record], effect.base_offset, effect.epoch, self._clock.wall_ms)

    def _append_own(self, batch: bytes, base_offset: Offset, core: RaftCore) -> events.Event:
        appended = self.log.append(batch, base_offset)
        self.timestamps.append((Offset(appended.end_offset), self._clock.wall_ms))
        self._needs_flush = True
        return self._appended(appended, core)

    def _appended(self, appended: AppendInfo, core: RaftCore) -> events.Appended:
        return events.Appended(
            end_offset=Offset(appended.end_offset),
            last_epoch=LeaderEpoch(max(appended.last_epoch, 0)),
            generation=core.log_generation,
            epochs=tuple(
                events.EpochStart(LeaderEpoch(entry.epoch), Offset(entry.start_offset))
                for entry in appended.epochs
            ),
        )

    def _nothing_appended(self, effect: raft.PersistEffect, core: RaftCore) -> events.Event | None:
        """A fetch must be answered even when the disk took nothing of it."""
        if not isinstance(effect, raft.AppendFetched):
            return None
        if self._stalled and self._stalled[-1] is effect:
            self._stalled.pop()
        end_offset, last_epoch = self.log.end_offset, self.log.last_epoch
        return self._appended(AppendInfo(end_offset, end_offset, last_epoch), core)

    def retry(self, core: RaftCore) -> list[events.Event]:
        """Try again what the full disk refused, when it is time."""
        if self.retry_ms is None or self._clock.now_ms < self.retry_ms:
            return []
        self.retry_ms = None
        stalled, self._stalled = self._stalled, deque()
        results = [self.perform(effect, core) for effect in stalled]
        if not self._stalled:
            fields = {"log_end_offset": self.log.end_offset}
            self._effects.append(Log(LogLevel.WARN, "disk_has_space_again", fields))
        return [event for event in results if event is not None]

    # ---- snapshots that are fetched ----------------------------------------------------------

    def _write_snapshot_chunk(self, effect: raft.WriteSnapshotChunk) -> events.Event | None:
        if self._download is None or self._download[0] != effect.snapshot_id:
            assert effect.position_bytes == 0, f"{effect.position_bytes=}"
            self._download = (effect.snapshot_id, self.snapshots.writer(effect.snapshot_id))
        writer = self._download[1]
        if effect.position_bytes == 0 and writer.size_bytes > 0:
            writer.abort()
            writer = self.snapshots.writer(effect.snapshot_id)
            self._download = (effect.snapshot_id, writer)
        assert effect.position_bytes == writer.size_bytes, f"{effect.position_bytes=}"
        writer.append(effect.chunk)
        if not effect.done:
            return None
        writer.freeze()
        self._download = None
        self.log.truncate_fully_and_start_at(effect.snapshot_id.offset)
        if self.on_snapshot_installed is not None:
            self.on_snapshot_installed(effect.snapshot_id)
        return events.SnapshotInstalled(
            snapshot_id=effect.snapshot_id, generation=effect.generation
        )

    # ---- flushes -----------------------------------------------------------------------------

    def plan_flush(self, core: RaftCore) -> None:
        """At the end of a step: hand out a plan when something was appended and none runs."""
        if not self._needs_flush or self._flush is not None:
            return
        self._needs_flush = False
        plan = self.log.flush_plan()
        token = self._next_token
        self._next_token += 1
        self._flush = (token, plan, core.epoch, core.log_generation)
        self._effects.append(RunFlush(token, plan))

    def flush_done(self, token: int) -> events.Flushed:
        """The outstanding plan has run."""
        assert self._flush is not None, "no flush was asked for"
        expected, plan, epoch, generation = self._flush
        assert token == expected, f"{token=} {expected=}"
        self._flush = None
        self.log.flush_done(plan)
        return events.Flushed(
            end_offset=Offset(plan.end_offset), epoch=epoch, generation=generation
        )
