"""Files of leader epochs: written soon after the epochs of a log change, some at a time.

Kafka writes the file as an epoch begins. Here a lane does, not before the records of the epoch; a
start takes the epochs below the recovery point from the file, so the recovery point waits for it.

apache/kafka: storage/.../epoch/LeaderEpochFileCache.java (`assign`, `writeToFile`)
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from broker.effects import Lane
from broker.replicas.stored_logs import StoredLogs
from storage.checkpoints.epoch_checkpoint import EpochsWrite
from storage.checkpoints.recovery_points import TopicAndPartition
from storage.logs.log import Log

FILES_PER_WORK: Final = 8
"""Files that are written before other work of the lane."""
LOOK_UNITS: Final = 2
"""Cost of a log whose file may have other epochs."""
WRITE_UNITS: Final = 10
"""Cost of a file that is written, beside that."""


class _Directory:
    """The files of one log directory."""

    def __init__(self) -> None:
        self.waiting: deque[TopicAndPartition] = deque()
        """Logs that are to be looked at."""
        self.noted: set[TopicAndPartition] = set()
        """Those of them whose epochs are known to have changed."""
        self.is_writing = False

    @property
    def is_due(self) -> bool:
        """True if a log can be looked at now."""
        return bool(self.waiting) and not self.is_writing


class EpochFiles:
    """The files of all logs of a broker.

    Args:
        logs: of the broker.
        refused: follows the error of a write in a log directory, if there is one.
    """

    def __init__(
        self, logs: StoredLogs, refused: Callable[[str, BaseException | None], None]
    ) -> None:
        self._manager, self._vfs, self._services = logs.manager, logs.vfs, logs.services
        self._budget = self._services.budget
        self._refused = refused
        self._directories: dict[str, _Directory] = {}

    def note(self, name: TopicAndPartition) -> bool:
        """Write the epochs of a log soon, if it is open and they changed; True if so."""
        log = self._manager.get(*name)
        if log is None or not _has_changed(log.log):
            return False
        path = self._manager.log_dir_of(*name)
        assert path is not None, f"{name=}"
        directory = self._of(path)
        if name not in directory.noted:
            directory.noted.add(name)
            directory.waiting.append(name)
        return True

    def look_at_all(self, path: str) -> None:
        """Look at all logs of a log directory: a truncation changes the epochs of some."""
        self._of(path).waiting.extend(self._manager.directories[path].logs)

    def _of(self, path: str) -> _Directory:
        return self._directories.setdefault(path, _Directory())

    def is_behind(self, path: str) -> bool:
        """True while files of a log directory are to be looked at, or are written."""
        directory = self._of(path)
        return bool(directory.waiting) or directory.is_writing

    def leave(self, path: str) -> None:
        """Write nothing in a log directory that went offline."""
        self._directories.pop(path, None)

    @property
    def is_busy(self) -> bool:
        """True if a log can be looked at now."""
        return any(each.is_due for each in self._directories.values())

    def go_on(self) -> None:
        """Look at logs, and hand out the writes of their files."""
        for path, directory in self._directories.items():
            if directory.is_due:
                self._write_some(path, directory)

    def _write_some(self, path: str, directory: _Directory) -> None:
        budget, waiting = self._budget, directory.waiting
        logs = self._manager.directories[path].logs
        writes: list[EpochsWrite] = []
        while waiting and budget.has_room and len(writes) < FILES_PER_WORK:
            name = waiting.popleft()
            directory.noted.discard(name)
            budget.spend(LOOK_UNITS)
            log = logs.get(name)
            if log is None or self._manager.is_settling(name):  # gone, or its directory is renamed
                continue
            if _has_changed(log.log):
                budget.spend(WRITE_UNITS)
                writes.append(self._write(log.log))
        if writes:
            directory.is_writing = True
            done = partial(self._written, path, directory, writes)
            self._services.run(Lane.FILES, path, partial(_run, writes), done)

    def _write(self, log: Log) -> EpochsWrite:
        return log.epoch_cache.write(self._vfs, log.directory)

    def _written(
        self,
        path: str,
        directory: _Directory,
        writes: list[EpochsWrite],
        error: BaseException | None,
    ) -> None:
        directory.is_writing = False
        if error is None:
            for write in writes:
                write.done()
        self._refused(path, error)


def _has_changed(log: Log) -> bool:
    return log.epoch_cache.is_changed


def _run(writes: list[EpochsWrite]) -> None:
    for write in writes:
        write.run()
