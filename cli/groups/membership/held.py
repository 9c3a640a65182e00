"""A request that the coordinator holds: JoinGroup until all joined, SyncGroup until it is decided.

It has a connection of its own, and is waited for in pieces, so that a poll ends in time and a
signal is heeded.
(apache/kafka: clients/.../consumer/internals/AbstractCoordinator.java, sendJoinGroupRequest)
"""

from typing import Any, Final

from cli.connect import UnreachableError
from cli.groups.membership.actions import GroupConfig, Join, Sync
from cli.records.clients.clock import Clock
from cli.records.clients.records_api import Pending

JOIN_LAPSE_MS: Final = 5_000
"""Time for an answer to JoinGroup behind the rebalance timeout."""


class HeldRequest:
    """One request: `answer` until there is one, then `close`."""

    def __init__(
        self, action: Join | Sync, call: Pending, clock: Clock, config: GroupConfig
    ) -> None:
        """A request that was just sent for an action."""
        self.action = action
        self._call = call
        self._clock = clock
        self.limit_ms = clock.now_ms() + timeout_ms(action, config)
        """Time at which it is given up."""

    def answer(self, wait_ms: int) -> Any:
        """The answer; None if it is not there in time.

        Raises:
            UnreachableError: the connection broke, or the request is given up.
        """
        left_ms = max(0, self.limit_ms - self._clock.now_ms())
        answer = self._call.poll(min(wait_ms, left_ms))
        if answer is None and self._clock.now_ms() >= self.limit_ms:
            raise UnreachableError("the coordinator did not answer in time")
        return answer

    def close(self) -> None:
        """Wait no longer."""
        self._call.close()


def timeout_ms(action: Join | Sync, config: GroupConfig) -> int:
    """Time after which the request for an action is given up."""
    if isinstance(action, Sync):
        return config.request_timeout_ms
    return max(config.request_timeout_ms, config.max_poll_interval_ms + JOIN_LAPSE_MS)
