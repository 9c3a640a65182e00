"""The regular upkeep of a broker's logs: retention, flushes, offsets, producers, removals.

A step deletes at most `SEGMENTS_PER_STEP` segments and looks at `LOGS_PER_STEP` logs; files are
synced, recorded and removed in lanes. What a disk refuses takes its log directory offline; a full
one only delays the records of offsets.

apache/kafka: core/.../log/LogManager.scala (`startupWithConfigOverrides`, `flushDirtyLogs`)
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from broker.config import UpkeepConfig
from broker.effects import Lane, Log, LogLevel
from broker.services import Services
from replication.leader.flush_gate import Flushed
from storage.checkpoints.recovery_points import TopicAndPartition
from storage.errors import OutOfSpaceError
from storage.logs.flush_plan import FlushPlan
from storage.logs.log_directory import LogDirectory
from storage.logs.log_manager import ERRORS, DueFile, LogManager, remove
from storage.logs.unified_log import UnifiedLog
from storage.vfs import Vfs

SEGMENTS_PER_STEP: Final = 50
LOGS_PER_STEP: Final = 100
EPOCHS_PER_STEP: Final = 8
"""Files of leader epochs that a step writes."""

Take = Callable[[LogDirectory], Callable[[], None]]


class Upkeep:
    """The upkeep of all logs of a broker, from `start` on.

    Args:
        manager: of the logs.
        vfs: of the logs.
        config: intervals.
        services: of the step.
        failed: takes a log directory offline.
        log_start_raised: told of a log that lost its first segments.
    """

    def __init__(
        self,
        manager: LogManager,
        vfs: Vfs,
        config: UpkeepConfig,
        services: Services,
        *,
        failed: Callable[[str, BaseException], None],
        log_start_raised: Callable[[TopicAndPartition], None],
    ) -> None:
        self._manager = manager
        self._vfs = vfs
        self._services = services
        self._failed = failed
        self._log_start_raised = log_start_raised
        self._schedules: dict[str, tuple[int, Callable[[], None]]] = {
            "retention": (config.retention_check_ms, self._begin_retention),
            "flush": (config.flush_check_ms, self._flush_old),
            "recovery_points": (config.recovery_point_ms, self._begin_epochs),
            "log_starts": (config.log_start_ms, self._record_log_starts),
            "high_watermarks": (config.high_watermark_ms, self._record_high_watermarks),
            "producers": (config.producer_check_ms, self._begin_expiry),
        }
        self._initial_delay_ms = config.initial_delay_ms
        self._due_ms: dict[str, int] = {}
        self._to_clean: deque[TopicAndPartition] = deque()
        """Logs that the running check of retention has not seen."""
        self._to_record: deque[TopicAndPartition] = deque()
        """Logs whose epochs are written before the recovery points are."""
        self._to_expire: deque[TopicAndPartition] = deque()
        """Logs whose producers the running check has not seen."""
        self._recording: set[tuple[str, str]] = set()
        """Files of offsets that are being written, by kind and log directory."""
        self._awaited: dict[UnifiedLog, list[Flushed]] = {}
        """Those who wait for flushes that are handed out: a log that is replaced has none."""
        self._held: dict[TopicAndPartition, list[Flushed]] = {}
        """Those who wait for a flush of a log whose directory has another name still."""

    def start(self) -> None:
        """Begin, when all logs are loaded."""
        now_ms = self._services.now_ms
        self._due_ms = dict.fromkeys(self._schedules, now_ms + self._initial_delay_ms)
        self._due_ms["high_watermarks"] = now_ms
        self._due_ms["producers"] = now_ms + self._schedules["producers"][0]

    def next_ms(self) -> int | None:
        """Instant of the next `tick`; None before the start."""
        if not self._due_ms:
            return None
        now_ms, wall_ms = self._services.now_ms, self._services.wall_ms
        if self._to_clean or self._to_record or self._to_expire:
            return now_ms
        due_ms = min(self._due_ms.values())
        removal_ms = self._manager.next_removal_ms
        if removal_ms is not None:
            due_ms = min(due_ms, now_ms + max(0, removal_ms - wall_ms))
        return due_ms

    def tick(self) -> None:
        """Do what is due."""
        now_ms = self._services.now_ms
        for name in [each for each, due_ms in self._due_ms.items() if due_ms <= now_ms]:
            interval_ms, begin = self._schedules[name]
            self._due_ms[name] = now_ms + interval_ms
            begin()
        if self._due_ms:
            self._clean_some()
            self._record_some_epochs()
            self._expire_some_producers()
            self._remove_due()

    # -- retention ------------------------------------------------------------------------------

    def _begin_retention(self) -> None:
        if not self._to_clean:
            self._to_clean.extend(sorted(self._manager.keys()))

    def _clean_some(self) -> None:
        wall_ms, left = self._services.wall_ms, SEGMENTS_PER_STEP
        for _ in range(LOGS_PER_STEP):
            if left <= 0 or not self._to_clean:
                return
            name = self._to_clean.popleft()
            path = self._manager.log_dir_of(*name)
            try:
                count = self._manager.delete_old_segments(*name, wall_ms, segments_max=left)
            except ERRORS as error:
                self._refused(path, error)
                continue
            left -= count
            if count:
                self._log_start_raised(name)
            if left == 0:
                self._to_clean.appendleft(name)

    # -- flushes --------------------------------------------------------------------------------

    def appended(self, name: TopicAndPartition, wait: Callable[[], Flushed] | None = None) -> None:
        """Hand out the flush that an append asks for, if it does.

        Args:
            name: of the partition.
            wait: called where `flush.messages` asks for it; what it returns is called at the end
                of the flush. The flush of a roll is waited for by nobody, as in Kafka.
        """
        awaited = [wait()] if wait is not None and self._manager.has_flush_due(*name) else []
        if self._manager.is_settling(name):
            self._held[name] = self._held.get(name, []) + awaited
            return
        plan = self._manager.flush_after_append(*name)
        if plan is not None:
            self._flush(name, plan, awaited)

    def hold(self, name: TopicAndPartition) -> None:
        """Leave the flushes of a log that its copy replaces: they prove nothing of the copy."""
        log = self._manager.get(*name)
        assert log is not None, f"{name=}"
        self._held[name] = self._awaited.pop(log, [])

    def settled(self, name: TopicAndPartition) -> None:
        """Flush a log that replaced another, as it was asked for since; its directory has its name.

        Those who wait are told that nothing is durable if it is gone.
        """
        held, log = self._held.pop(name, []), self._manager.get(*name)
        if log is None:
            for flushed in held:
                flushed(False)  # noqa: FBT003
        elif held:
            self._flush(name, log.flush_plan(), held)
        else:
            self.appended(name)

    def _flush_old(self) -> None:
        for name, plan in self._manager.flushes_due(self._services.wall_ms):
            self._flush(name, plan, [])

    def _flush(self, name: TopicAndPartition, plan: FlushPlan, awaited: list[Flushed]) -> None:
        log, path = self._manager.get(*name), self._manager.log_dir_of(*name)
        assert log is not None, f"{name=}"
        assert path is not None, f"{name=}"
        if awaited:
            self._awaited[log] = self._awaited.get(log, []) + awaited

        def done(error: BaseException | None) -> None:
            is_open = self._manager.get(*name) is log  # not deleted, offline or closed meanwhile
            is_durable = is_open and self._flush_ended(name, plan, error)
            left = self._awaited.get(log, [])
            for flushed in awaited:
                if flushed in left:  # else the log was replaced meanwhile
                    left.remove(flushed)
                    flushed(is_durable)
            if not left:
                self._awaited.pop(log, None)

        self._services.run(Lane.FLUSH, path, plan.run, done)

    def _flush_ended(
        self, name: TopicAndPartition, plan: FlushPlan, error: BaseException | None
    ) -> bool:
        """Take the end of a flush of a log that is still open here; True if it is durable."""
        path = self._manager.log_dir_of(*name)
        assert path is not None, f"{name=}"
        try:
            if error is not None:
                raise error
            self._manager.flushed(name, plan, self._services.wall_ms)
        except ERRORS as reason:
            self._failed(path, reason)
            return False
        return True

    # -- recorded offsets -----------------------------------------------------------------------

    def _begin_epochs(self) -> None:
        if not self._to_record:
            self._to_record.extend(sorted(self._manager.keys()))
            if not self._to_record:
                self._record_recovery_points()

    def _record_some_epochs(self) -> None:
        """Write some files of epochs; behind the last, the recovery points that rely on them."""
        if not self._to_record:
            return
        left = EPOCHS_PER_STEP
        while left and self._to_record:
            name = self._to_record.popleft()
            log, path = self._manager.get(*name), self._manager.log_dir_of(*name)
            if log is None:
                continue
            try:
                left -= log.log.record_epochs()
            except ERRORS as error:
                self._refused(path, error)
        if not self._to_record:
            self._record_recovery_points()

    def _record_recovery_points(self) -> None:
        self._record("recovery points", LogDirectory.recovery_points_record)

    def _record_log_starts(self) -> None:
        self._record("log starts", LogDirectory.log_starts_record)

    def _record_high_watermarks(self) -> None:
        self._record("high watermarks", LogDirectory.high_watermarks_record)

    def _record(self, kind: str, take: Take) -> None:
        for path in list(self._manager.directories):
            if (kind, path) in self._recording:
                continue
            try:
                write = take(self._manager.directories[path])
            except ERRORS as error:
                self._refused(path, error)
                continue
            self._recording.add((kind, path))
            self._services.run(Lane.FILES, path, write, self._recorded(kind, path))

    def _recorded(self, kind: str, path: str) -> Callable[[BaseException | None], None]:
        def done(error: BaseException | None) -> None:
            self._recording.remove((kind, path))
            self._refused(path, error)

        return done

    # -- producers ------------------------------------------------------------------------------

    def _begin_expiry(self) -> None:
        if not self._to_expire:
            self._to_expire.extend(sorted(self._manager.keys()))

    def _expire_some_producers(self) -> None:
        for _ in range(min(LOGS_PER_STEP, len(self._to_expire))):
            log = self._manager.get(*self._to_expire.popleft())
            if log is not None:  # else it was deleted or its log directory failed meanwhile
                log.producers.remove_expired(self._services.wall_ms)

    # -- removals -------------------------------------------------------------------------------

    def _remove_due(self) -> None:
        by_path: dict[str, list[DueFile]] = {}
        for due in self._manager.removable(self._services.wall_ms):
            path = next(
                each for each in self._manager.directories if due.path.startswith(f"{each}/")
            )
            by_path.setdefault(path, []).append(due)
        for path, files in by_path.items():
            self._remove(path, files)

    def _remove(self, path: str, files: list[DueFile]) -> None:
        def work() -> None:
            for each in files:
                remove(self._vfs, each)

        self._services.run(Lane.FILES, path, work, lambda error: self._refused(path, error))

    # -- failures -------------------------------------------------------------------------------

    def _refused(self, path: str | None, error: BaseException | None) -> None:
        """Follow an error of a log directory's disk, if there is one."""
        if isinstance(error, OutOfSpaceError):
            fields = {"path": path, "reason": str(error)}
            self._services.emit(Log(LogLevel.WARN, "log_upkeep_refused", fields))
        elif isinstance(error, ERRORS):
            if path is not None:
                self._failed(path, error)
        elif error is not None:
            raise error
