"""The end of a controlled shutdown that the controller does not permit.

apache/kafka: core/.../server/{KafkaBroker,BrokerServer}.scala (`shutdown`), which waits 5 minutes
whether a controller answers or not.
"""

from typing import Final

from kernel.effects import LogLevel

SHUTDOWN_POLL_MS: Final = 20
SHUTDOWN_MS_MAX: Final = 5 * 60_000
"""Longest controlled shutdown, while the controller answers that leaders are moving, or that others
have not read of it; then the broker stops, and its session times out."""
UNHEARD_MS_MAX: Final = 5_000
"""Longest wait in it for an answer of the active controller: without one nobody moves leaders."""


def why_given_up(unheard_ms: int, left_ms: int, *, is_refused: bool) -> tuple[LogLevel, str] | None:
    """Level and reason with which a broker stops unasked; None while it waits.

    Args:
        unheard_ms: time since the last answer of the controller.
        left_ms: time until the deadline.
        is_refused: a majority of the voters is gone, as when all nodes are stopped together.
    """
    if left_ms <= 0:
        return LogLevel.WARN, "time-out"
    if is_refused:
        return LogLevel.INFO, "no quorum"
    if unheard_ms >= UNHEARD_MS_MAX:
        return LogLevel.WARN, "the controller does not answer"
    return None
