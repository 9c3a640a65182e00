"""The end of a broker's logs, when nothing runs in lanes: each log directory is closed.

Several threads of each close its logs, and then one records their offsets: to close a log is to
wait for its syncs, which a disk does together.

apache/kafka: core/.../log/LogManager.scala (`shutdown`)
"""

from collections import deque
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

from broker.awaited import WorkFinished
from broker.effects import Lane, Log, LogLevel, Stopped
from broker.services import Services
from storage.logs.log_directory import LogDirectory
from storage.logs.log_manager import LogManager
from storage.logs.unified_log import UnifiedLog

CLOSERS: Final = 8
"""Threads that close the logs of a log directory."""


class _Closing:
    """The closing of one log directory."""

    def __init__(self, directory: LogDirectory, went_on: Callable[[], None]) -> None:
        self._went_on = went_on
        self.directory = directory
        self.left: deque[UnifiedLog] = deque(directory.open_logs)
        """Logs that no thread has begun to close."""
        self.running = 0
        """Threads that close logs."""
        self.error: BaseException | None = None
        """The first of a thread."""

    def close_logs(self) -> None:
        """Close logs until none is left; any number of threads."""
        while True:
            try:
                log = self.left.popleft()
            except IndexError:
                return
            log.close()
            self._went_on()


class LogClosing:
    """The closing of all log directories that are online, then `Stopped`.

    Args:
        manager: of the logs.
        services: of the step.
        untouched: log directories that are as a clean shutdown left them.
    """

    def __init__(
        self, manager: LogManager, services: Services, untouched: AbstractSet[str]
    ) -> None:
        self._manager = manager
        self._services = services
        self._open = set(manager.directories)
        self._clean = sorted(untouched)

    def start(self) -> None:
        """Close them, each in its lanes."""
        for path in sorted(self._open):
            closing = _Closing(self._manager.directories[path], self._services.went_on)
            closing.running = max(1, min(CLOSERS, len(closing.left)))
            for thread in range(closing.running):
                done = partial(self._logs_closed, closing)
                self._services.run(Lane.FILES, f"{path}:{thread}", closing.close_logs, done)
        self._maybe_stopped()

    def _logs_closed(self, closing: _Closing, error: BaseException | None) -> None:
        """Record the offsets when all threads have ended; nothing is recorded behind an error."""
        closing.running -= 1
        closing.error = closing.error or error
        if closing.running:
            return
        path = closing.directory.path
        if closing.error is None:
            record = closing.directory.record_offsets
            self._services.run(Lane.FILES, path, record, self._closed(path))
        else:
            self._closed(path)(closing.error)

    def _closed(self, path: str) -> WorkFinished:
        def done(error: BaseException | None) -> None:
            self._open.remove(path)
            if error is None:
                if self._manager.closed(path):
                    self._clean.append(path)
            else:
                fields = {"path": path, "reason": str(error)}
                self._services.emit(Log(LogLevel.ERROR, "logs_not_closed", fields))
                self._manager.fail(path)
            self._maybe_stopped()

        return done

    def _maybe_stopped(self) -> None:
        if not self._open:
            self._services.emit(Stopped(tuple(sorted(self._clean))))
