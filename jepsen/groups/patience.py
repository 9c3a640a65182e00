"""Wait of a run for a group at its end: by what the group commits, not from the start."""

from collections.abc import Mapping
from typing import Final

CAUGHT_UP_S: Final = 60.0
"""Without progress; longer than a session and a rebalance, also beside other work."""


class Patience:
    """Wait for one group; ends, as the offsets cannot rise above the ends of the partitions."""

    def __init__(self, now_s: float) -> None:
        """Begin to wait, at a time of any clock."""
        self._furthest = 0
        self._until_s = now_s + CAUGHT_UP_S

    def is_over(self, offsets: Mapping[str, int | None], now_s: float) -> bool:
        """True if the group has not committed more than ever for too long.

        Args:
            offsets: What it has committed, by partition; None: nothing.
            now_s: Time of the same clock.
        """
        reached = sum(offset or 0 for offset in offsets.values())
        if reached > self._furthest:
            self._furthest = reached
            self._until_s = now_s + CAUGHT_UP_S
        return now_s >= self._until_s
