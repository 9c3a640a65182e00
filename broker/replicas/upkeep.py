"""The regular upkeep of a broker's logs: retention, flushes, offsets, producers, removals.

What is due begins at a `tick`, and goes on in turns, one kind after the other, within their budget;
files are synced, recorded and removed in lanes. What a disk refuses takes its log directory
offline; a full one only delays the records of offsets.

apache/kafka: core/.../log/LogManager.scala (`startupWithConfigOverrides`, `flushDirtyLogs`)
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from broker.cleaning.log_cleaner import LogCleaner
from broker.config import RecordsConfig
from broker.effects import Log, LogLevel
from broker.replicas.checkpoints import Checkpoints, OffsetsKind
from broker.replicas.epoch_files import EpochFiles
from broker.replicas.log_check import LogCheck
from broker.replicas.log_flushes import LogFlushes
from broker.replicas.removals import Removals
from broker.replicas.stored_logs import StoredLogs
from broker.services import Disk, Services
from network.turn_budget import Part
from storage.checkpoints.recovery_points import TopicAndPartition
from storage.errors import OutOfSpaceError
from storage.logs.log_directory import SettingsOf
from storage.logs.log_manager import ERRORS, LogManager

RETENTION_UNITS: Final = 8
"""Cost of a log in a check of retention, beside that of its segments."""
SEGMENTS_PER_UNIT: Final = 2
SEGMENT_UNITS: Final = 100
"""Cost of a segment that is deleted: its files are renamed, and another is made for the last."""
SEGMENTS_PER_CHECK: Final = 4
"""Segments of a log that are deleted before the budget is asked again."""
FLUSH_UNITS: Final = 2
"""Cost of a log in a check of flushes."""
PRODUCERS_UNITS: Final = 2
"""Cost of a log in a check of its producers, beside theirs."""
PRODUCERS_PER_UNIT: Final = 8


class Upkeep:
    """The upkeep of all logs of a broker, from `start` on.

    Args:
        manager: of the logs.
        disk: of the logs.
        config: of the broker.
        services: of the step.
        settings_of: of a topic.
        flushes: of the logs.
        failed: takes a log directory offline.
        log_start_raised: told of a log that lost its first segments.
    """

    def __init__(
        self,
        manager: LogManager,
        disk: Disk,
        config: RecordsConfig,
        services: Services,
        *,
        settings_of: SettingsOf,
        flushes: LogFlushes,
        failed: Callable[[str, BaseException], None],
        log_start_raised: Callable[[TopicAndPartition], None],
    ) -> None:
        vfs, intervals = disk.vfs, config.upkeep
        self._manager = manager
        self._services = services
        self._budget = services.budget
        self._flushes = flushes
        self._failed = failed
        self._log_start_raised = log_start_raised
        self._retention = LogCheck(manager, services, self._clean)
        self._old_flushes = LogCheck(manager, services, self._flush_if_old)
        self._producers = LogCheck(manager, services, self._expire_producers)
        logs = StoredLogs(manager, vfs, services)
        self.epochs = EpochFiles(logs, self._refused)
        self._checkpoints = Checkpoints(manager, services, self.epochs, self._refused)
        self._removals = Removals(logs, self._refused)
        self.cleaner = LogCleaner(
            manager,
            vfs,
            services,
            settings_of=settings_of,
            open_session=disk.open_session,
            node_id=config.node_id,
            properties=dict(config.properties),
            failed=failed,
            delete_old=self._delete_old,
        )
        self._parts: deque[Part] = deque(
            (self.epochs, self._checkpoints, self._retention, self._old_flushes, self._producers)
        )
        self._parts.extend((self._removals, self.cleaner))
        begin = self._checkpoints.begin
        self._schedules: dict[str, tuple[int, Callable[[], None]]] = {
            "retention": (intervals.retention_check_ms, self._retention.begin),
            "flush": (intervals.flush_check_ms, self._old_flushes.begin),
            "recovery_points": (
                intervals.recovery_point_ms,
                partial(begin, OffsetsKind.RECOVERY_POINTS),
            ),
            "log_starts": (intervals.log_start_ms, partial(begin, OffsetsKind.LOG_STARTS)),
            "high_watermarks": (
                intervals.high_watermark_ms,
                partial(begin, OffsetsKind.HIGH_WATERMARKS),
            ),
            "producers": (intervals.producer_check_ms, self._producers.begin),
        }
        self._initial_delay_ms = intervals.initial_delay_ms
        self._due_ms: dict[str, int] = {}
        self._is_stirred = False
        """False while nothing has happened by which a part can have become busy; at a start what is
        due ticks at once."""

    def start(self) -> None:
        """Begin, when all logs are loaded."""
        now_ms = self._services.now_ms
        self._due_ms = dict.fromkeys(self._schedules, now_ms + self._initial_delay_ms)
        self._due_ms["high_watermarks"] = now_ms
        self._due_ms["producers"] = now_ms + self._schedules["producers"][0]
        self.cleaner.start()

    def stop(self) -> None:
        """Do nothing any more."""
        self.cleaner.stop()
        self._due_ms.clear()

    def note_epochs(self, name: TopicAndPartition) -> None:
        """Write the leader epochs of a log soon, if they are others."""
        self._is_stirred |= self.epochs.note(name)

    def leave(self, path: str) -> None:
        """Look after a log directory that went offline no more."""
        self.epochs.leave(path)
        self._checkpoints.leave(path)
        self.cleaner.leave(path)

    def next_ms(self) -> int | None:
        """Instant of the next `tick`; None unless it has begun."""
        if not self._due_ms:
            return None
        first_ms = min(self._due_ms.values())
        for other_ms in (self._removals.next_ms(), self.cleaner.next_ms()):
            if other_ms is not None and other_ms < first_ms:
                first_ms = other_ms
        return first_ms

    def tick(self) -> None:
        """Begin what is due for the longest time: it lists all logs."""
        self._is_stirred = True
        now_ms = self._services.now_ms
        name = min(self._due_ms, key=self._due_ms.__getitem__, default=None)
        if name is not None and self._due_ms[name] <= now_ms:
            interval_ms, begin = self._schedules[name]
            self._due_ms[name] = now_ms + interval_ms
            begin()
        self.cleaner.tick()

    @property
    def is_busy(self) -> bool:
        """True if something has begun and not ended, and does not wait for a lane."""
        if not self._is_stirred:  # every turn asks some times
            return False
        self._is_stirred = bool(self._due_ms) and any(part.is_busy for part in self._parts)
        return self._is_stirred

    def go_on(self) -> None:
        """Let the kind go on that has waited for the longest time."""
        while not self._parts[0].is_busy:
            self._parts.rotate(-1)
        self._parts[0].go_on()
        self._parts.rotate(-1)

    # -- checks of a log ------------------------------------------------------------------------

    def _clean(self, name: TopicAndPartition) -> None:
        if self.cleaner.is_free(name):
            self._delete_old(name, self._retention.again)

    def _delete_old(
        self, name: TopicAndPartition, again: Callable[[TopicAndPartition], None]
    ) -> None:
        """Delete old segments of a log; `again` is asked to where there are more."""
        log = self._manager.get(*name)
        self._budget.spend(RETENTION_UNITS)
        if log is None:  # it was deleted or its log directory failed meanwhile
            return
        self._budget.spend(len(log.log.segments) // SEGMENTS_PER_UNIT)
        path = self._manager.log_dir_of(*name)
        assert path is not None, f"{name=}"
        try:
            count = self._manager.delete_old_segments(
                *name, self._services.wall_ms, segments_max=SEGMENTS_PER_CHECK
            )
        except ERRORS as error:
            self._refused(path, error)
            return
        self._budget.spend(count * SEGMENT_UNITS)
        if count:
            self._log_start_raised(name)
        if count == SEGMENTS_PER_CHECK:
            again(name)

    def _flush_if_old(self, name: TopicAndPartition) -> None:
        self._budget.spend(FLUSH_UNITS)
        self._flushes.flush_if_old(name)

    def _expire_producers(self, name: TopicAndPartition) -> None:
        self._budget.spend(PRODUCERS_UNITS)
        log = self._manager.get(*name)
        if log is not None:
            self._budget.spend(len(log.producers) // PRODUCERS_PER_UNIT)
            log.producers.remove_expired(self._services.wall_ms)

    # -- failures -------------------------------------------------------------------------------

    def _refused(self, path: str, error: BaseException | None) -> None:
        """Follow the end of work in a lane: an error of a log directory's disk, if there is one."""
        self._is_stirred = True
        if isinstance(error, OutOfSpaceError):
            fields = {"path": path, "reason": str(error)}
            self._services.emit(Log(LogLevel.WARN, "log_upkeep_refused", fields))
        elif isinstance(error, ERRORS):
            self._failed(path, error)
        elif error is not None:
            raise error
