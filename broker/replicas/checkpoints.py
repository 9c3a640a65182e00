"""Checkpoints of all logs of a broker: recovery points, log starts, high watermarks.

Of each log directory the offsets are taken some logs at a time, and its lane writes them. Recovery
points are taken once the leader epochs that changed until then are written.

apache/kafka: core/.../log/LogManager.scala (`checkpoint...InDir`), ReplicaManager.scala
(`checkpointHighWatermarks`)
"""

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Final

from broker.effects import Lane
from broker.replicas.epoch_files import EpochFiles
from broker.replicas.log_check import LISTED_PER_UNIT
from broker.services import Services
from storage.logs.log_directory import LogDirectory
from storage.logs.log_manager import LogManager
from storage.logs.offsets_record import OffsetsRecord

RECORD_UNITS: Final = 10
"""Cost of a record beside that of its logs, which is a unit each."""


class OffsetsKind(Enum):
    """Offsets that have a file in each log directory."""

    RECOVERY_POINTS = "recovery points"
    LOG_STARTS = "log starts"
    HIGH_WATERMARKS = "high watermarks"


_BEGIN: Final[dict[OffsetsKind, Callable[[LogDirectory], OffsetsRecord]]] = {
    OffsetsKind.RECOVERY_POINTS: LogDirectory.recovery_points_record,
    OffsetsKind.LOG_STARTS: LogDirectory.log_starts_record,
    OffsetsKind.HIGH_WATERMARKS: LogDirectory.high_watermarks_record,
}
_Key = tuple[str, OffsetsKind]


class Checkpoints:
    """The checkpoints of all log directories.

    Args:
        manager: of the logs.
        services: of the step.
        epochs: of the logs.
        refused: follows the error of a record in a log directory, if there is one.
    """

    def __init__(
        self,
        manager: LogManager,
        services: Services,
        epochs: EpochFiles,
        refused: Callable[[str, BaseException | None], None],
    ) -> None:
        self._manager = manager
        self._services = services
        self._budget = services.budget
        self._epochs = epochs
        self._refused = refused
        self._taken: dict[_Key, OffsetsRecord] = {}
        """Records whose offsets are not all taken, by path and kind."""
        self._begun: set[_Key] = set()
        """Those and the ones that are being written."""

    def begin(self, kind: OffsetsKind) -> None:
        """Record offsets of all log directories, but of those where that is under way."""
        for path in self._manager.directories:
            if (path, kind) in self._begun:
                continue
            self._begun.add((path, kind))
            self._taken[path, kind] = record = _BEGIN[kind](self._manager.directories[path])
            self._budget.spend(RECORD_UNITS + record.left_count // LISTED_PER_UNIT)
            if kind is OffsetsKind.RECOVERY_POINTS:
                self._epochs.look_at_all(path)

    def leave(self, path: str) -> None:
        """Record nothing of a log directory that went offline."""
        for kind in OffsetsKind:
            self._taken.pop((path, kind), None)

    def _next(self) -> _Key | None:
        """The record whose offsets can be taken; None without one."""
        for path, kind in self._taken:
            if kind is not OffsetsKind.RECOVERY_POINTS or not self._epochs.is_behind(path):
                return path, kind
        return None

    @property
    def is_busy(self) -> bool:
        """True if offsets can be taken now."""
        return self._next() is not None

    def go_on(self) -> None:
        """Take the offsets of some logs; hand out the records of which all are taken."""
        budget = self._budget
        while budget.has_room and (key := self._next()) is not None:
            record = self._taken[key]
            budget.spend(record.take(budget.left))
            if record.is_taken:
                budget.spend(RECORD_UNITS)
                del self._taken[key]
                self._services.run(Lane.FILES, key[0], record.run, partial(self._end, key))

    def _end(self, key: _Key, error: BaseException | None) -> None:
        self._begun.remove(key)
        self._refused(key[0], error)
