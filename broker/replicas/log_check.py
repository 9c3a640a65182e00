"""A regular check of all logs of a broker, some in a turn."""

from collections import deque
from collections.abc import Callable
from typing import Final

from broker.services import Services
from storage.checkpoints.recovery_points import TopicAndPartition
from storage.logs.log_manager import LogManager

LISTED_PER_UNIT: Final = 64
"""Logs whose names are listed at the cost of a unit."""


class LogCheck:
    """One kind of check.

    Args:
        manager: of the logs.
        services: of the step.
        check: checks a log, if it is still there, and spends what that costs.
    """

    def __init__(
        self, manager: LogManager, services: Services, check: Callable[[TopicAndPartition], None]
    ) -> None:
        self._manager = manager
        self._budget = services.budget
        self._check = check
        self._left: deque[TopicAndPartition] = deque()
        """Logs that it has not seen."""

    def begin(self) -> None:
        """Check all logs; nothing if the check before has not seen all."""
        if not self._left:
            self._left.extend(self._manager.keys())
            self._budget.spend(len(self._left) // LISTED_PER_UNIT)

    def again(self, name: TopicAndPartition) -> None:
        """Check a log once more, behind the others."""
        self._left.append(name)

    @property
    def is_busy(self) -> bool:
        """True if logs are left."""
        return bool(self._left)

    def go_on(self) -> None:
        """Check logs."""
        left, budget = self._left, self._budget
        while left and budget.has_room:
            self._check(left.popleft())
