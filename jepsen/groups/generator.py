"""Changes of the members of a group, drawn from the seed."""

from random import Random
from typing import Final, NamedTuple

from jepsen.groups.names import SESSION_MS

MEMBERS_AT_FIRST: Final = 2
MEMBERS_MAX: Final = 4
CHANGE_EVERY_S: Final = 5.0
"""Mean time between two changes of a group."""
PAUSE_S: Final = 1.5 * SESSION_MS / 1000
"""Longer than a session: others own its partitions when it goes on."""
JOIN: Final = "join"
LEAVE: Final = "leave"
KILL: Final = "kill"
PAUSE: Final = "pause"
CHANGES: Final = (JOIN, LEAVE, KILL, PAUSE)
CHANGE_WEIGHTS: Final = (40, 20, 25, 15)


class Change(NamedTuple):
    """One of `CHANGES`, after a pause; `choice` in [0, 1) is among the members."""

    pause_s: float
    kind: str
    choice: float

    def kind_for(self, alive: int, able: int) -> str:
        """Kind for a group: a full one gets no more members, an empty one gets one.

        Args:
            alive: Members of the group.
            able: Those of them that are not paused.
        """
        if not able:
            return JOIN
        return LEAVE if self.kind == JOIN and alive >= MEMBERS_MAX else self.kind


def next_change(rng: Random) -> Change:
    """Draw the next change of a group."""
    pause_s = rng.expovariate(1 / CHANGE_EVERY_S)
    (kind,) = rng.choices(CHANGES, CHANGE_WEIGHTS)
    return Change(pause_s, kind, rng.random())
