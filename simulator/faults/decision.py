"""One fault of a plan: its kind, time, targets, length and strength."""

from random import Random
from typing import Final

import msgspec

OPERATIONS_AHEAD_MAX: Final = 40
"""Largest `amount` that most kinds are drawn with."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One fault."""

    at_us: int
    kind: str
    targets: tuple[int, ...]
    length_us: int
    """Time until it ends by itself: restart, resume, heal."""
    amount: int = 0
    """Strength by kind: disk operations until the crash, seconds of a jump, factor of a link."""
    messages: str = ""
    """Of `lost_messages`: one of `MESSAGES`."""

    @property
    def chance(self) -> Random:
        """Random numbers from its start: what the plan leaves open is the same in every run."""
        return Random(f"{self.at_us}/{self.amount}")  # noqa: S311 - simulated chance
