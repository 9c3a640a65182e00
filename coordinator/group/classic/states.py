"""States of a classic group, and the only table of its transitions.

apache/kafka: group-coordinator/.../classic/ClassicGroupState.java
"""

import enum
from collections.abc import Mapping
from typing import Final


class ClassicGroupState(enum.Enum):
    """State of a classic group; the value is its name in answers."""

    EMPTY = "Empty"
    """No members. Offsets may remain; a group that only commits offsets is always so."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are to rejoin; their JoinGroup requests wait."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """Members know the generation; their SyncGroup requests wait for the leader's."""
    STABLE = "Stable"
    """Every member may have the assignment of the generation."""
    DEAD = "Dead"
    """Deleted, or this broker is no longer its coordinator."""


EMPTY: Final = ClassicGroupState.EMPTY
PREPARING_REBALANCE: Final = ClassicGroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE: Final = ClassicGroupState.COMPLETING_REBALANCE
STABLE: Final = ClassicGroupState.STABLE
DEAD: Final = ClassicGroupState.DEAD

TRANSITIONS: Final[Mapping[ClassicGroupState, frozenset[ClassicGroupState]]] = {
    EMPTY: frozenset({PREPARING_REBALANCE, DEAD}),
    PREPARING_REBALANCE: frozenset({COMPLETING_REBALANCE, EMPTY, DEAD}),
    COMPLETING_REBALANCE: frozenset({STABLE, PREPARING_REBALANCE, DEAD}),
    STABLE: frozenset({PREPARING_REBALANCE, DEAD}),
    DEAD: frozenset({DEAD}),
}
"""By state: those that may follow it."""


def can_rebalance(state: ClassicGroupState) -> bool:
    """True if a rebalance may begin in this state."""
    return PREPARING_REBALANCE in TRANSITIONS[state]
