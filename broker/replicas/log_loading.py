"""Loading of all logs at start, off the step thread, some of each log directory at a time.

A log directory that cannot be read, or has a log that cannot be opened, goes offline; the others
are loaded. A partition in two log directories ends the node: which one counts is not known.

apache/kafka: core/.../log/LogManager.scala (`loadLogs`, `isStrayKraftReplica`)
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from broker.config import RecordsConfig
from broker.effects import Lane, Log, LogLevel
from broker.replicas.broker_settings import broker_settings
from broker.services import Disk, Services
from metadata.image import Image
from storage.errors import CorruptFileError, FsyncError, OutOfSpaceError
from storage.log_dir.partition_directories import (
    PartitionDirectory,
)
from storage.logs.log_manager import ERRORS, LoadTask, LogManager
from storage.logs.recovery import RecoveryEvent, SegmentsApart, SegmentsDropped, TailCut

SCAN: Final = "scan"
"""Name of the work that looks for logs; nothing else uses the manager meanwhile."""
PROGRESS_MS: Final = 10_000
"""Time between two lines about the progress of a log directory."""
DIRECTORY_ERRORS: Final = (CorruptFileError, OutOfSpaceError, FsyncError, OSError)


class LogLoading:
    """The loading of one broker's logs; once, in the order of `log.dirs`.

    Args:
        config: of the broker.
        disk: of the broker.
        manager: empty.
        services: of the step.
        failed: takes a log directory offline.
        loaded: told when all logs are open that can be.
    """

    def __init__(
        self,
        config: RecordsConfig,
        disk: Disk,
        manager: LogManager,
        services: Services,
        *,
        failed: Callable[[str, BaseException], None],
        loaded: Callable[[], None],
    ) -> None:
        self._config = config
        self._vfs = disk.vfs
        self._guards = disk.guards
        self._clean_log_dirs = disk.clean_log_dirs
        self._manager = manager
        self._services = services
        self._failed = failed
        self._loaded = loaded
        self._scanned: dict[str, list[LoadTask]] = {}
        self._errors: dict[str, BaseException] = {}
        self._waiting: dict[str, deque[LoadTask]] = {}
        self._running: dict[str, int] = {}
        self._tasks: dict[tuple[str, int], LoadTask | None] = {}
        """The log that each thread of a log directory opens now."""
        self._threads = config.upkeep.recovery_threads
        """Of each log directory."""
        self._next_ms: int | None = None
        self._told_ms: dict[str, int] = {}
        self.is_stopped = False
        """True if no further log is opened."""

    def start(self, image: Image) -> None:
        """Look for logs; those of no partition of this broker in the image are strays."""
        self._threads = broker_settings(self._config, image).recovery_threads
        wall_ms = self._services.wall_ms
        self._services.run(
            Lane.LOADING, SCAN, lambda: self._scan(image, wall_ms), self._scan_finished
        )

    # -- off the step thread --------------------------------------------------------------------

    def _scan(self, image: Image, wall_ms: int) -> None:
        for path in self._config.log_dirs:
            try:
                self._scanned[path] = self._manager.load(
                    path,
                    partial(self._is_stray, image),
                    wall_ms,
                    is_clean=path in self._clean_log_dirs,
                    guard=self._guards.get(path),
                )
            except DIRECTORY_ERRORS as error:
                self._errors[path] = error

    def _is_stray(self, image: Image, directory: PartitionDirectory) -> bool:
        """True for a directory of no replica here, or without topic id.

        A replica has its id before its first record: without it the disk failed, or the process
        ended, before it was written (apache/kafka: LogManager.isStrayKraftReplica).
        """
        topic_id = directory.topic_id
        if topic_id is None:
            return True
        partition = image.partition(topic_id, directory.partition)
        return partition is None or self._config.node_id not in partition.replicas

    # -- on it ----------------------------------------------------------------------------------

    def _scan_finished(self, error: BaseException | None) -> None:
        if error is not None:
            raise error
        for path, tasks in self._scanned.items():
            self._waiting[path] = deque(tasks)
            self._running[path] = 0
            self._told_ms[path] = self._services.now_ms
        for path, reason in self._errors.items():
            self._fail(path, reason)
        for path, tasks in self._scanned.items():
            if path in self._errors:
                continue
            is_clean = path in self._clean_log_dirs
            self._log(
                LogLevel.INFO, "logs_found", path=path, logs=len(tasks), clean_shutdown=is_clean
            )
            for thread in range(self._threads):
                self._tasks[path, thread] = None
                self._open_next(path, thread)
        self._next_ms = self._services.now_ms + PROGRESS_MS
        self._finish_if_done()

    def _fail(self, path: str, reason: BaseException) -> None:
        self._waiting.pop(path, None)
        self._failed(path, reason)

    def _open_next(self, path: str, thread: int) -> None:
        waiting = self._waiting.get(path)
        if not waiting or self.is_stopped:
            return
        task = self._tasks[path, thread] = waiting.popleft()
        self._running[path] += 1
        self._services.run(
            Lane.LOADING,
            f"{path}:{thread}",
            task.run,
            lambda error: self._opened(task, path, thread, error),
        )

    def _opened(self, task: LoadTask, path: str, thread: int, error: BaseException | None) -> None:
        self._running[path] -= 1
        self._tasks[path, thread] = None
        if error is not None:
            raise error
        try:
            log = self._manager.loaded(task)
        except ERRORS as reason:
            self._fail(path, reason)
        else:
            if log is not None:
                self._report(task, log.recovery_report)
                self._tell_progress(path)
        self._open_next(path, thread)
        self._finish_if_done()

    def _finish_if_done(self) -> None:
        if not self.is_running:
            self._loaded()

    @property
    def is_running(self) -> bool:
        """True while a log is being opened."""
        return any(self._running.values())

    @property
    def remaining(self) -> Mapping[str, int]:
        """Number of the logs that are not open yet, by log directory once it is looked through."""
        return {path: len(each) + self._running[path] for path, each in self._waiting.items()}

    @property
    def remaining_segments(self) -> Mapping[tuple[str, int], int]:
        """Segments of the log that each thread of a log directory recovers, not checked yet."""
        return {
            place: 0 if task is None else task.progress.remaining
            for place, task in self._tasks.items()
        }

    def next_ms(self) -> int | None:
        """Instant of the next `tick`; None while no log is being opened."""
        return self._next_ms if self.is_running else None

    def tick(self) -> None:
        """Tell how far the recovery of logs is that go on for longer, if it is time."""
        if self._next_ms is None or self._services.now_ms < self._next_ms:
            return
        self._next_ms = self._services.now_ms + PROGRESS_MS
        for task in self._tasks.values():
            if task is None or not task.progress.remaining:
                continue
            segments, left = task.progress.segments, task.progress.remaining
            name = f"{task.key[0]}-{task.key[1]}"
            fields = {"log": name, "recovered": segments - left, "segments": segments}
            self._log(LogLevel.INFO, "log_recovering", path=task.directory.path, **fields)

    def _tell_progress(self, path: str) -> None:
        now_ms = self._services.now_ms
        left = self.remaining.get(path, 0)
        if left and now_ms - self._told_ms[path] < PROGRESS_MS:
            return
        self._told_ms[path] = now_ms
        total = len(self._scanned[path])
        event = "logs_loading" if left else "logs_loaded"
        self._log(LogLevel.INFO, event, path=path, loaded=total - left, logs=total)

    def _report(self, task: LoadTask, events: Sequence[RecoveryEvent]) -> None:
        for event in events:
            fields: dict[str, object] = {"log": f"{task.key[0]}-{task.key[1]}"}
            if isinstance(event, TailCut):
                fields |= {
                    "path": event.path,
                    "position": event.position,
                    "removed_bytes": event.removed_bytes,
                    "end_offset": event.end_offset,
                }
            elif isinstance(event, SegmentsDropped):
                fields |= {"paths": list(event.paths), "end_offset": event.end_offset}
            elif isinstance(event, SegmentsApart):
                fields |= {"path": event.path, "end_offset": event.end_offset}
            else:
                fields["path"] = event.path
            self._log(LogLevel.WARN, "log_recovered", **fields, reason=event.reason)

    def _log(self, level: LogLevel, event: str, **fields: object) -> None:
        self._services.emit(Log(level, event, fields))
