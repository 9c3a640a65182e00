"""Events whose effects on a broker can wait for another turn, in the order in which they came."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from broker.events import Event, PeerBytes
from network.turn_budget import TurnBudget

EVENT_UNITS: Final = 20
"""Cost of an event beside what its parts spend."""
BYTES_PER_UNIT: Final = 1024
"""Bytes of a peer that cost a unit: they are copied to their frame."""


class EventQueue:
    """Events that wait.

    Args:
        takes: function of each kind of event.
        budget: of the turn.
    """

    def __init__(self, takes: Mapping[type, Callable[[Any], None]], budget: TurnBudget) -> None:
        self._takes = takes
        self._budget = budget
        self._events: deque[Event] = deque()

    def put(self, event: Event) -> None:
        """Take an event behind all others."""
        self._events.append(event)

    @property
    def is_busy(self) -> bool:
        """True if events wait."""
        return bool(self._events)

    def go_on(self) -> None:
        """Take events while the budget has room."""
        events, budget = self._events, self._budget
        while events and budget.has_room:
            event = events.popleft()
            size_bytes = len(event.data) if isinstance(event, PeerBytes) else 0
            budget.spend(EVENT_UNITS + size_bytes // BYTES_PER_UNIT)
            self._takes[type(event)](event)
