"""The end of a broker's logs: what runs in lanes ends first, then each log directory is closed.

apache/kafka: core/.../log/LogManager.scala (`shutdown`)
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from broker.effects import Lane, Log, LogLevel, Stopped
from broker.services import Services, WorkFinished
from storage.logs.log_manager import LogManager


class CountedWork:
    """Work handed to the lanes, counted until its end is taken in."""

    def __init__(self, services: Services) -> None:
        self._run = services.run
        self._count = 0
        self._idle: Callable[[], None] | None = None

    def run(self, lane: Lane, name: str, work: Callable[[], object], done: WorkFinished, /) -> None:
        """Hand it out, as `RunsWork` does."""

        def finished(error: BaseException | None) -> None:
            self._count -= 1
            done(error)
            self._tell_if_idle()

        self._count += 1
        self._run(lane, name, work, finished)

    def when_idle(self, idle: Callable[[], None]) -> None:
        """Tell once when nothing runs."""
        self._idle = idle
        self._tell_if_idle()

    def _tell_if_idle(self) -> None:
        if self._count == 0 and self._idle is not None:
            idle, self._idle = self._idle, None
            idle()


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
        """Close them, each in its lane."""
        for path in sorted(self._open):
            close = self._manager.directories[path].close
            self._services.run(Lane.FILES, path, close, self._closed(path))
        self._maybe_stopped()

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
