"""The end of a broker's logs, when nothing runs in lanes: each log directory is closed.

apache/kafka: core/.../log/LogManager.scala (`shutdown`)
"""

from collections.abc import Set as AbstractSet

from broker.awaited import WorkFinished
from broker.effects import Lane, Log, LogLevel, Stopped
from broker.services import Services
from storage.logs.log_manager import LogManager


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
