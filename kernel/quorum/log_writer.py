"""Raft's persist effects on the disk: log, quorum-state, fetched snapshots; and the flushes.

Writes are synchronous, the flush of the log is not: at most one plan is outstanding, and records
that are appended while it runs belong to the next one (grouping without a linger).

A full disk stops the appends, not the node. A follower drops fetched records, or the snapshot that
it downloads, and fetches again. With other voters a leader drops its refused appends and resigns,
and no voter campaigns until its disk accepts appends, so that a voter with space leads. A sole
voter keeps them here in order, writes nothing after them, and retries every `RETRY_MS`. Votes,
truncations and the installation of a complete snapshot get their blocks from the reserve; without
it the node stops.

Fetched records that finalize an unsupported kraft.version are not written: the node ends. Of others
the voters and levels are given to the core with the append; a batch whose voters cannot be read is
refused like a damaged one.
"""

from collections import deque
from typing import Final

from msgspec.structs import replace

from kernel.effects import Effect, Exit, Log, LogLevel, RunFlush
from kernel.kraft_version import unsupported_level
from kernel.quorum.snapshot_download import SnapshotDownloads
from kernel.quorum.voter_records import control_batch_of, voter_records
from metadata.schema import MetadataRecordError
from network.clock import Clock
from network.timers import FULL_DISK
from raft import effects as raft
from raft import events
from raft.core import RaftCore
from raft.membership.voter_history import KRaftVersionAt, VoterRecord
from storage.checkpoints.epoch_checkpoint import EpochEntry
from storage.errors import OutOfSpaceError
from storage.log_dir.quorum_state_file import ElectionState, QuorumStateFile
from storage.log_dir.unproven_mark import UnprovenMark
from storage.logs.control_batches import control_batches_in
from storage.logs.flush_plan import FlushPlan
from storage.logs.log import AppendInfo
from storage.logs.log import Log as StoredLog
from storage.space_reserve import SpaceReserve
from storage.vfs import parent
from wire.batches.batch import encode_batch, iterate_batches
from wire.errors import CorruptBatchError
from wire.types import LeaderEpoch, Offset

RETRY_MS: Final = 500
_EVEN_ON_FULL_DISK: Final = (raft.PersistElection, raft.RemoveUnprovenMark, raft.TruncateLog)
"""Effects that must be durable even on a full disk; the reserve is for them."""


class LogWriter:
    """The durable half of a replica."""

    def __init__(
        self,
        log: StoredLog,
        quorum_state: QuorumStateFile,
        downloads: SnapshotDownloads,
        reserve: SpaceReserve,
        *,
        unproven: UnprovenMark,
        clock: Clock,
        effects: list[Effect],
    ) -> None:
        self.log = log
        """The log that it writes; its readers read it directly."""
        self.downloads = downloads
        self._reserve = reserve
        self._quorum_state = quorum_state
        self._unproven = unproven
        self._clock = clock
        self._timers = clock.timers
        self._effects = effects
        self.needs_flush = False
        """True if something was appended since the last plan; else `plan_flush` does nothing."""
        self._flush: tuple[int, FlushPlan, LeaderEpoch, int] | None = None
        self._next_token = 1
        self._stalled: deque[raft.PersistEffect] = deque()
        self.is_disk_full = False
        self._is_full_logged = False
        self._timestamps: deque[tuple[Offset, int]] = deque()
        """(end offset, append time) of the batches that this leader wrote, oldest first."""
        if not reserve.fill():
            self._note_full(OutOfSpaceError(reserve.path))

    # ---- writes ------------------------------------------------------------------------------

    def perform(self, effect: raft.PersistEffect, core: RaftCore) -> events.Event | None:
        """Perform one effect; return the event that the core must handle next, if any."""
        if self.is_disk_full and not isinstance(effect, _EVEN_ON_FULL_DISK):
            return self._refused(effect, core)
        try:
            done = self._perform(effect, core)
        except OutOfSpaceError as error:
            self._note_full(error)
            if not isinstance(effect, _EVEN_ON_FULL_DISK) and not self.downloads.is_installing:
                return self._refused(effect, core)
            self._reserve.release()
            done = self._perform(effect, core)
            if not isinstance(done, events.SnapshotInstalled):
                assert done is None, f"{effect=} {done=}"
                return events.DiskFull()
            return replace(done, is_disk_full=True)
        if self._is_full_logged and isinstance(done, events.Appended | events.SnapshotInstalled):
            self._is_full_logged = False
            fields = {"log_end_offset": self.log.end_offset}
            self._effects.append(Log(LogLevel.WARN, "disk_has_space_again", fields))
        return done

    def _note_full(self, error: OutOfSpaceError) -> None:
        """Log the full disk, once, and schedule a retry."""
        if not self._is_full_logged:
            fields = {"error": str(error), "log_end_offset": self.log.end_offset}
            self._effects.append(Log(LogLevel.ERROR, "disk_full", fields))
        self._is_full_logged = True
        self.is_disk_full = True
        self._timers.set(FULL_DISK, self._clock.now_ms + RETRY_MS)

    def _refused(self, effect: raft.PersistEffect, core: RaftCore) -> events.Event:
        """Return the event for an effect of which nothing was written."""
        match effect:
            case raft.AppendFetched():
                end_offset, last_epoch = self.log.end_offset, self.log.last_epoch
                appended = self._appended(AppendInfo(end_offset, end_offset, last_epoch), core)
                return replace(appended, is_disk_full=True)
            case raft.WriteSnapshotChunk():
                self.downloads.abort()
                return events.SnapshotRefused(snapshot_id=effect.snapshot_id, is_disk_full=True)
            case _:
                assert not isinstance(effect, _EVEN_ON_FULL_DISK)
        if core.is_only_voter:
            self._stalled.append(effect)
        return events.DiskFull()

    def _perform(self, effect: raft.PersistEffect, core: RaftCore) -> events.Event | None:
        """Perform one persist effect; return its event for the core, if it has one at once."""
        if type(effect) is raft.AppendFetched:
            return self._append_fetched(effect, core)
        match effect:
            case raft.AppendBatch():
                now_ms = self._clock.wall_ms
                batch = encode_batch(effect.values, effect.base_offset, effect.epoch, now_ms)
                return self._append_own(batch, effect.base_offset, core)
            case raft.AppendLeaderChange() | raft.AppendVoters():
                return self._append_control(effect, core)
            case raft.WriteSnapshotChunk():
                return self.downloads.write(effect)
            case raft.PersistElection():
                self._quorum_state.write(
                    ElectionState(effect.epoch, effect.leader_id, effect.voted_key),
                    core.kraft_version,
                )
            case raft.RemoveUnprovenMark():
                self._unproven.remove()
                fields = {"log_end_offset": self.log.end_offset}
                self._effects.append(Log(LogLevel.INFO, "voter_proven", fields))
            case raft.TruncateLog():
                self._stalled.clear()
                self._timestamps.clear()
                end_offset = self.log.truncate_to(effect.end_offset)
                assert end_offset == effect.end_offset, f"{end_offset=} {effect.end_offset=}"
        return None

    def _append_fetched(self, effect: raft.AppendFetched, core: RaftCore) -> events.Event:
        assert effect.base_offset == self.log.end_offset, f"{effect.base_offset=}"
        try:
            records = tuple(voter_records(control_batches_in(effect.records)))
        except (MetadataRecordError, CorruptBatchError) as error:
            end_offset, last_epoch = self.log.end_offset, self.log.last_epoch
            refused = AppendInfo(end_offset, end_offset, last_epoch, stopped=str(error))
            return self._fetched(refused, (), core)
        level = max([each.level for each in records if isinstance(each, KRaftVersionAt)], default=0)
        name = f"fetched at offset {effect.base_offset}"
        unsupported = unsupported_level(level, parent(self.log.directory), name)
        if unsupported is not None:
            self._effects.append(Log(LogLevel.ERROR, "unsupported", {"error": unsupported}))
            self._effects.append(Exit(1, unsupported))
            return self._refused(effect, core)
        appended = self.log.append_fetched(effect.records, effect.epoch)
        self.needs_flush = True
        return self._fetched(appended, records, core)

    def _fetched(
        self, appended: AppendInfo, records: tuple[VoterRecord, ...], core: RaftCore
    ) -> events.Appended:
        """Return the event of fetched batches, with the voters and levels of those appended."""
        if appended.stopped is not None:
            fields = {"reason": appended.stopped, "log_end_offset": appended.end_offset}
            self._effects.append(Log(LogLevel.WARN, "fetched_batches_refused", fields))
        event = self._appended(appended, core)
        if not records:
            return event
        start, end = appended.base_offset, appended.end_offset
        kept = tuple([record for record in records if start <= record.offset < end])
        return replace(event, voter_records=kept)

    def _append_control(
        self, effect: raft.AppendLeaderChange | raft.AppendVoters, core: RaftCore
    ) -> events.Appended:
        """Append a control batch of this leader; its voters and levels are in the event."""
        batch = control_batch_of(effect, self._clock.wall_ms)
        appended = self._append_own(batch, effect.base_offset, core)
        return replace(appended, voter_records=tuple(voter_records(iterate_batches(batch))))

    def _append_own(self, batch: bytes, base_offset: Offset, core: RaftCore) -> events.Appended:
        appended = self.log.append(batch, base_offset)
        self._timestamps.append((Offset(appended.end_offset), self._clock.wall_ms))
        self.needs_flush = True
        return self._appended(appended, core)

    def _appended(self, appended: AppendInfo, core: RaftCore) -> events.Appended:
        return events.Appended(
            end_offset=Offset(appended.end_offset),
            last_epoch=LeaderEpoch(max(appended.last_epoch, 0)),
            generation=core.log_generation,
            epochs=tuple(map(_epoch_start, appended.epochs)),
        )

    @property
    def is_retry_due(self) -> bool:
        """True if a retry of the refused appends is due."""
        return self._timers.at_ms[FULL_DISK] <= self._clock.now_ms

    def retry(self, core: RaftCore) -> list[events.Event]:
        """Retry the refused appends if that is due; the reserve is filled first.

        One of them may have brought a second voter before the next was refused: then the leader has
        resigned and dropped the rest.
        """
        if not self.is_retry_due:
            return []
        if not core.is_only_voter:
            self._stalled.clear()
        if not self._reserve.fill() or not self._reserve.has_space():
            self._timers.set(FULL_DISK, self._clock.now_ms + RETRY_MS)
            return []
        self._timers.clear(FULL_DISK)
        self.is_disk_full = False
        stalled, self._stalled = self._stalled, deque()
        results = [self.perform(effect, core) for effect in stalled]
        answers = [event for event in results if event is not None]
        return answers if self.is_disk_full else [*answers, events.DiskHasSpace()]

    # ---- append times ------------------------------------------------------------------------

    def timestamp_ms_of(self, end_offset: Offset) -> int:
        """Return the append time of the record before `end_offset`, and forget the older ones.

        The offset may be within a batch, which several proposals can share; it never goes back.
        """
        timestamps = self._timestamps
        while timestamps and timestamps[0][0] < end_offset:
            timestamps.popleft()
        assert timestamps, f"{end_offset=} was not appended by this leader"
        batch_end_offset, timestamp_ms = timestamps[0]
        if batch_end_offset == end_offset:
            timestamps.popleft()
        return timestamp_ms

    def forget_timestamps(self) -> None:
        """Forget all append times: another node leads, or none."""
        self._timestamps.clear()

    # ---- flushes -----------------------------------------------------------------------------

    def plan_flush(self, core: RaftCore) -> None:
        """Emit a flush plan, at the end of a step, if there were appends and none is running."""
        if not self.needs_flush or self._flush is not None:
            return
        self.needs_flush = False
        plan = self.log.flush_plan()
        token = self._next_token
        self._next_token += 1
        self._flush = (token, plan, core.epoch, core.log_generation)
        has_followers = core.is_leader and not core.is_only_voter
        self._effects.append(RunFlush(token, plan, has_followers))

    def flush_done(self, token: int) -> events.Flushed:
        """Complete the outstanding plan; return its event for the core."""
        assert self._flush is not None, "no flush was asked for"
        expected, plan, epoch, generation = self._flush
        assert token == expected, f"{token=} {expected=}"
        self._flush = None
        self.log.flush_done(plan)
        return events.Flushed(
            end_offset=Offset(plan.end_offset), epoch=epoch, generation=generation
        )


def _epoch_start(entry: EpochEntry) -> events.EpochStart:
    return events.EpochStart(LeaderEpoch(entry.epoch), Offset(entry.start_offset))
