"""The log cleaner: looks at all compacted logs, cleans the dirtiest, and deletes what is too old.

A look takes some logs in a turn; then each idle cleaner gets a round of the dirtiest logs that are
cleanable. Behind the end of a round comes the next look, behind one that found nothing a pause.
Each look ends with retention of the compacted logs that no round has, as Kafka's cleaner threads
delete their old segments.

apache/kafka: storage/.../log/{LogCleaner,LogCleanerManager}.java
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from broker.cleaning.cleaner_counts import CleanerCounts, LastRound, recopy_percent
from broker.cleaning.cleaner_settings import DEFAULT, cleaner_settings
from broker.cleaning.cleaning_round import CleaningRound, RoundOwner
from broker.effects import Lane, Log, LogLevel
from broker.services import Services
from metadata.image import EMPTY, Image
from storage.checkpoints.recovery_points import TopicAndPartition
from storage.cleaner.clean_job import RoundEnded
from storage.cleaner.cleaner_manager import CleanerManager, CleaningState
from storage.cleaner.selection import LogToClean, clean_job, log_to_clean
from storage.cleaner.session import (
    CleanerDiedError,
    OpenSession,
    RoundAbortedError,
    UnexpectedCleanerError,
)
from storage.errors import CorruptFileError, CorruptLogError, OutOfSpaceError
from storage.logs.log_directory import SettingsOf
from storage.logs.log_manager import ERRORS, LogManager
from storage.logs.unified_log import UnifiedLog
from storage.segments.segment import OFFSET_MAX, floor_index
from storage.vfs import Vfs

LOOK_UNITS: Final = 2
"""Cost of a log in a look, beside that of its segments."""
SEGMENTS_PER_UNIT: Final = 2
START_UNITS: Final = 100
"""Cost of the beginning of a round."""
LISTED_PER_UNIT: Final = 64
DEATHS_MAX: Final = 3
"""Cleaners that may die in a row in rounds of a partition, before it is left alone."""


class Candidate(msgspec.Struct, frozen=True):
    """A log that a look found cleanable."""

    name: TopicAndPartition
    log: UnifiedLog
    found: LogToClean


class LogCleaner:
    """The cleaner of all logs of a broker.

    Args:
        manager: of the logs.
        vfs: of the logs.
        services: of the step.
        settings_of: of a topic.
        open_session: makes the session of a round.
        node_id: of the broker.
        properties: its server.properties.
        failed: takes a log directory offline.
        delete_old: deletes old segments of a log, and spends what that costs; told whom to ask for
            the rest.
    """

    def __init__(  # noqa: PLR0913 - made in one place
        self,
        manager: LogManager,
        vfs: Vfs,
        services: Services,
        *,
        settings_of: SettingsOf,
        open_session: OpenSession,
        node_id: int,
        properties: Mapping[str, str],
        failed: Callable[[str, BaseException], None],
        delete_old: Callable[[TopicAndPartition, Callable[[TopicAndPartition], None]], None],
    ) -> None:
        self._manager = manager
        self._vfs = vfs
        self._services = services
        self._budget = services.budget
        self._settings_of = settings_of
        self._open_session = open_session
        self._node_id = node_id
        self._properties = properties
        self._failed = failed
        self._delete_old = delete_old
        self._owner = RoundOwner(
            is_wanted=self._is_wanted,
            failed=failed,
            rate=lambda: self._settings.bytes_per_second,
            ended=self._ended,
        )
        self._configs = EMPTY.configs
        self._settings = cleaner_settings(EMPTY, node_id, properties)
        self.states = CleanerManager(vfs)
        self._left: deque[TopicAndPartition] = deque()
        """Logs that the look has not seen."""
        self._is_looking = False
        self._candidates: list[Candidate] = []
        self._to_delete: deque[TopicAndPartition] = deque()
        """Compacted logs whose old segments are to be deleted."""
        self._ratio_max = 0.0
        self._delay_ms_max = 0
        self._rounds: dict[str, CleaningRound] = {}
        """By thread."""
        self._last: dict[str, LastRound] = {}
        self._dead: set[str] = set()
        self._deaths: dict[TopicAndPartition, int] = {}
        self._due_ms: int | None = None
        self._ran_ms = services.now_ms
        self.counts = CleanerCounts()

    # -- begin and end --------------------------------------------------------------------------

    def start(self) -> None:
        """Begin, when all logs are loaded."""
        if not self._settings.is_enabled:
            return
        for path in list(self._manager.directories):
            try:
                self.states.open(path)
            except (CorruptFileError, OSError) as error:
                self._failed(path, error)
        self._due_ms = self._services.now_ms

    def stop(self) -> None:
        """Abort all rounds; begin none any more."""
        self._due_ms = None
        self._is_looking = False
        self._left.clear()
        self._to_delete.clear()
        for one in self._rounds.values():
            self.states.abort(one.name)
            one.session.abort()

    def publish(self, image: Image) -> None:
        """Take the settings of the next image; a round that runs keeps its own."""
        if image.configs is self._configs:
            return  # most images: their records are of partitions and brokers
        self._configs, before = image.configs, self._settings
        self._settings = cleaner_settings(image, self._node_id, self._properties)
        if before.is_enabled and self._due_ms is not None and before != self._settings:
            self._due_ms = min(self._due_ms, self._services.now_ms + self._settings.backoff_ms)

    # -- what happens to logs -------------------------------------------------------------------

    def is_free(self, name: TopicAndPartition) -> bool:
        """True if retention may delete segments of a log: it is not compacted, and has no round."""
        is_compacted = self._settings_of(name[0]).compaction.is_compacted
        return not is_compacted and self.states.state(name) is None

    def configured(self, name: TopicAndPartition) -> None:
        """Follow other settings of a topic: a log that is not compacted any more has no round."""
        if not self._settings_of(name[0]).compaction.is_compacted:
            self.abort(name)

    def abort(self, name: TopicAndPartition) -> None:
        """Leave out the round of a log, if it has one."""
        if self.states.abort(name):
            for one in self._rounds.values():
                if one.name == name:
                    one.session.abort()

    def deleted(self, name: TopicAndPartition) -> None:
        """Forget a log that is deleted."""
        self.abort(name)
        self._deaths.pop(name, None)
        for path in self.states.forget(name):
            self._record(path)

    def pause(self, name: TopicAndPartition) -> None:
        """Leave a log alone until `resume`: its replica moves to another log directory."""
        self.abort(name)
        self.states.abort_and_pause(name)

    def resume(self, name: TopicAndPartition) -> None:
        """Undo one `pause`."""
        self.states.resume(name)

    def moved(self, name: TopicAndPartition, source: str, target: str) -> None:
        """Take what is known of a log along to another log directory."""
        self.states.move(name, source, target)
        for path in (source, target):
            self._record(path)

    def leave(self, path: str) -> None:
        """Leave a log directory that went offline."""
        self.states.fail(path)
        for one in self._rounds.values():
            if one.path == path:
                self.abort(one.name)

    # -- looks ----------------------------------------------------------------------------------

    def next_ms(self) -> int | None:
        """Instant of the next look; None while none is due."""
        if self._is_looking or not (self._idle if self._rounds else self._settings.threads):
            return None
        return self._due_ms

    @property
    def _idle(self) -> list[str]:
        """Cleaners without a round."""
        threads = [str(number) for number in range(self._settings.threads)]
        return [each for each in threads if each not in self._rounds]

    def tick(self) -> None:
        """Begin a look, if one is due."""
        next_ms = self.next_ms()
        if next_ms is None or next_ms > self._services.now_ms or not self._settings.is_enabled:
            return
        self._is_looking = True
        self._ran_ms = self._services.now_ms
        self._candidates, self._ratio_max, self._delay_ms_max = [], 0.0, 0
        self._left = deque(self._manager.keys())
        self._to_delete.clear()
        self._budget.spend(len(self._left) // LISTED_PER_UNIT)

    @property
    def is_busy(self) -> bool:
        """True if the look goes on, or old segments are to be deleted."""
        return self._is_looking or bool(self._to_delete)

    def go_on(self) -> None:
        """Look at logs; behind the last one begin rounds, then delete old segments."""
        while self._budget.has_room and self.is_busy:
            if self._left:
                self._look(self._left.popleft())
            elif self._is_looking:
                self._end_look()
            else:
                self._delete(self._to_delete.popleft())

    def _delete(self, name: TopicAndPartition) -> None:
        is_compacted = self._settings_of(name[0]).compaction.is_compacted
        if is_compacted and self.states.state(name) is None:
            self._delete_old(name, self._to_delete.append)

    def _look(self, name: TopicAndPartition) -> None:
        self._budget.spend(LOOK_UNITS)
        log, rules = self._manager.get(*name), self._settings_of(name[0]).compaction
        path = self._manager.log_dir_of(*name)
        if log is None or path is None or not rules.is_compacted:
            return
        self._budget.spend(len(log.log.segments) // SEGMENTS_PER_UNIT)
        if self.states.is_uncleanable(path, name):
            return
        self._to_delete.append(name)
        if self.states.state(name) is not None or log.has_unwritten_aborts:
            return
        if self._manager.is_settling(name):
            return
        try:
            found = self._found(name, log, path)
        except ERRORS as error:
            self._uncleanable(name, path, error)
            return
        if not found.clean_bytes + found.cleanable_bytes:
            return
        self._ratio_max = max(self._ratio_max, found.ratio)
        self._delay_ms_max = max(self._delay_ms_max, found.delay_ms)
        if found.is_cleanable(rules) and found.cleanable_bytes:
            self._candidates.append(Candidate(name, log, found))

    def _found(self, name: TopicAndPartition, log: UnifiedLog, path: str) -> LogToClean:
        """The part of a log that a round would clean; corrects a first dirty offset."""
        segments, lowest = log.log.segments, log.take_truncation()
        bound = segments[floor_index(segments, lowest)].base_offset
        if lowest < OFFSET_MAX and self.states.lower_offset(path, name, bound):
            self._record(path)
        settings = self._settings_of(name[0])
        recorded = self.states.offset(path, name)
        found = log_to_clean(log, recorded, settings.compaction, self._services.wall_ms)
        if found.is_reset:
            if not (settings.retention.is_deleted and (recorded or 0) < log.log_start_offset):
                fields = {"log": _text(name), "recorded": recorded, "to": found.first_dirty_offset}
                self._log(LogLevel.WARN, "cleaner_offset_reset", **fields)
            self.states.set_offset(path, name, found.first_dirty_offset)
            self._record(path)
        return found

    def _end_look(self) -> None:
        """Give the idle cleaners the dirtiest logs."""
        self._is_looking = False
        best = sorted(self._candidates, key=lambda each: (-each.found.ratio, each.name))
        if best:
            self._count(compaction_delay_seconds_max=self._delay_ms_max // 1000)
        self._count(dirty_percent_max=int(100 * self._ratio_max))
        for thread in self._idle:
            if not best:
                break
            self._begin(thread, best.pop(0))
        self._candidates = []
        if self._due_ms is not None:
            self._due_ms = self._services.now_ms + self._settings.backoff_ms

    def _begin(self, thread: str, candidate: Candidate) -> None:
        name, log = candidate.name, candidate.log
        path = self._manager.log_dir_of(*name)
        if self._manager.get(*name) is not log or path is None or self.states.state(name):
            return
        rules, limits = self._settings_of(name[0]).compaction, self._settings.limits
        wall_ms = self._services.wall_ms
        job = clean_job(_text(name), log, candidate.found, rules, limits, wall_ms)
        self._budget.spend(START_UNITS + len(job.segments) // SEGMENTS_PER_UNIT)
        self.states.begin(name)
        self._dead.discard(thread)
        one = CleaningRound(
            thread=thread,
            name=name,
            path=path,
            log=log,
            job=job,
            session=self._open_session(thread, job),
            manager=self._manager,
            vfs=self._vfs,
            services=self._services,
            owner=self._owner,
        )
        self._rounds[thread] = one
        one.step()

    # -- ends of rounds -------------------------------------------------------------------------

    def _is_wanted(self, one: CleaningRound) -> bool:
        return one.is_log_same and self.states.state(one.name) is CleaningState.IN_PROGRESS

    def _ended(
        self, one: CleaningRound, event: RoundEnded | None, error: BaseException | None
    ) -> None:
        is_wanted = self._is_wanted(one)
        del self._rounds[one.thread]
        self.states.end(one.name)
        delay_ms = 0
        if event is not None and is_wanted:
            self._whole(one, event)
        elif isinstance(error, CleanerDiedError):
            self._died(one, error)
            delay_ms = self._settings.backoff_ms
        elif error is not None and is_wanted:
            self._refused(one, error)
            delay_ms = self._settings.backoff_ms
        if self._due_ms is not None:
            self._due_ms = self._services.now_ms + delay_ms

    def _whole(self, one: CleaningRound, event: RoundEnded) -> None:
        """Take in a round that has cleaned all its groups."""
        self._deaths.pop(one.name, None)
        self.states.set_offset(one.path, one.name, event.end_offset)
        self._record(one.path)
        elapsed_ms = self._services.now_ms - one.begun_ms
        self._last[one.thread] = LastRound(event.stats, elapsed_ms)
        self._last_rounds_changed()
        self._log(
            LogLevel.INFO,
            "log_cleaned",
            log=_text(one.name),
            first_dirty=one.job.first_dirty_offset,
            next_first_dirty=event.end_offset,
            elapsed_ms=elapsed_ms,
            **msgspec.structs.asdict(event.stats),
        )

    def _last_rounds_changed(self) -> None:
        last = self._last
        self._count(
            rounds=self.counts.rounds + 1,
            buffer_utilization_percent_max=int(
                100 * max(each.stats.buffer_utilization for each in last.values())
            ),
            clean_time_seconds_max=max(each.elapsed_ms for each in last.values()) // 1000,
            recopy_percent=recopy_percent(last),
        )

    def _died(self, one: CleaningRound, error: CleanerDiedError) -> None:
        """Another cleaner is started with the next round of its thread."""
        self._dead.add(one.thread)
        self._count(died=self.counts.died + 1)
        fields = {"log": _text(one.name), "thread": one.thread, "reason": str(error)}
        self._log(LogLevel.ERROR, "cleaner_died", **fields)
        deaths = self._deaths[one.name] = self._deaths.get(one.name, 0) + 1
        if deaths >= DEATHS_MAX:
            self._uncleanable(one.name, one.path, error)

    def _refused(self, one: CleaningRound, error: BaseException) -> None:
        """Follow an error of a round whose log is still there."""
        match error:
            case RoundAbortedError():
                pass
            case CorruptLogError() | UnexpectedCleanerError():
                self._uncleanable(one.name, one.path, error)
            case OutOfSpaceError():
                fields = {"log": _text(one.name), "reason": str(error)}
                self._log(LogLevel.WARN, "log_not_cleaned", **fields)
            case _ if isinstance(error, ERRORS):
                self._failed(one.path, error)
            case _:
                raise error

    def _uncleanable(self, name: TopicAndPartition, path: str, error: BaseException) -> None:
        """Leave a partition alone until the next start; the log goes on to be written and read."""
        self._deaths.pop(name, None)
        self.states.mark_uncleanable(path, name)
        fields: dict[str, object] = {"log": _text(name), "reason": str(error)}
        if isinstance(error, CorruptLogError):
            fields |= {"path": error.path, "position": error.position, "reason": error.reason}
        self._log(LogLevel.ERROR, "partition_uncleanable", **fields)

    # -- files and figures ----------------------------------------------------------------------

    def _record(self, path: str) -> None:
        """Make the first dirty offsets of a log directory durable."""
        if path not in self.states.paths:
            return

        def done(error: BaseException | None) -> None:
            if isinstance(error, OutOfSpaceError):
                fields = {"path": path, "reason": str(error)}
                self._log(LogLevel.WARN, "log_upkeep_refused", **fields)
            elif isinstance(error, ERRORS):
                self._failed(path, error)
            elif error is not None:
                raise error

        self._services.run(Lane.FILES, path, self.states.record(path), done)

    def _count(self, **values: int) -> None:
        self.counts = msgspec.structs.replace(self.counts, **values)

    def figures(self) -> CleanerCounts:
        """The figures, as of now."""
        return msgspec.structs.replace(
            self.counts,
            dead_threads=len(self._dead),
            since_last_run_ms=self._services.now_ms - self._ran_ms,
            uncleanable={path: self._uncleanable_in(path) for path in self.states.paths},
        )

    def _uncleanable_in(self, path: str) -> tuple[int, int]:
        """Number of the partitions of a log directory that are left alone, and dirty bytes."""
        names = self.states.uncleanable(path)
        size_bytes = 0
        for name in names:
            log = self._manager.get(*name)
            if log is not None:
                first = self.states.offset(path, name) or log.log_start_offset
                *closed, _ = log.log.segments
                size_bytes += sum(each.size_bytes for each in closed if each.base_offset >= first)
        return len(names), size_bytes

    def _log(self, level: LogLevel, event: str, **fields: object) -> None:
        self._services.emit(Log(level, event, fields))


def _text(name: TopicAndPartition) -> str:
    return f"{name[0]}-{name[1]}"


assert DEFAULT.threads == 1, f"{DEFAULT=}"
