"""Removal of deleted files and directories of logs, `file.delete.delay.ms` after their deletion.

apache/kafka: core/.../log/LogManager.scala (`deleteLogs`), LocalLog.java (`deleteSegmentFiles`)
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from broker.effects import Lane
from broker.replicas.stored_logs import StoredLogs
from storage.logs.log_manager import DueFile, remove

REMOVAL_UNITS: Final = 3
"""Cost of a file or directory; a lane removes it."""


class Removals:
    """The removals in all log directories of a broker.

    Args:
        logs: of the broker.
        refused: follows the error of a removal in a log directory, if there is one.
    """

    def __init__(
        self, logs: StoredLogs, refused: Callable[[str, BaseException | None], None]
    ) -> None:
        self._manager, self._vfs, self._services = logs.manager, logs.vfs, logs.services
        self._budget = self._services.budget
        self._refused = refused

    def next_ms(self) -> int | None:
        """Instant of the next one; None without any."""
        wall_ms = self._manager.next_removal_ms
        if wall_ms is None:
            return None
        return self._services.now_ms + wall_ms - self._services.wall_ms

    @property
    def is_busy(self) -> bool:
        """True if one is due."""
        next_ms = self.next_ms()
        return next_ms is not None and next_ms <= self._services.now_ms

    def go_on(self) -> None:
        """Hand out some removals."""
        count_max = -(-self._budget.left // REMOVAL_UNITS)
        found = self._manager.removable(self._services.wall_ms, count_max)
        self._budget.spend(len(found) * REMOVAL_UNITS)
        by_path: dict[str, list[DueFile]] = {}
        for due in found:
            path = next(
                each for each in self._manager.directories if due.path.startswith(f"{each}/")
            )
            by_path.setdefault(path, []).append(due)
        for path, files in by_path.items():
            work, done = partial(self._remove, files), partial(self._refused, path)
            self._services.run(Lane.FILES, path, work, done)

    def _remove(self, files: list[DueFile]) -> None:
        for each in files:
            remove(self._vfs, each)
