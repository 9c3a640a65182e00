"""The budget of a turn: a bound on what a step does of all that waits, counted in units.

A unit is a microsecond or so of Python on the machine that the costs were measured on; nothing is
timed, so that a step does the same everywhere. What waits is cut into pieces that are done whole: a
frame, some batches, an event, a change of an image. A piece is begun while there is room, and says
what it cost; so a turn spends less than `units_max` and one piece. The rest waits for the next
turn, before which the driver looks at its sockets and timers.

Parts that have something to do share a turn. Each begins with its share of what is left, and the
part behind the last one of a turn is the first of the next: none waits for ever.

A step has two halves, and what the first made leaves before the second. A part whose pieces others
wait for ends the first half by `pause`, so that they do not wait for its next pieces.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, Protocol

TURN_UNITS_MAX: Final = 600
"""Bound of a turn: less than 2 ms on a machine with much else to do, where a unit takes 3 us."""


class TurnBudget:
    """The units that a turn has spent.

    Args:
        units_max: bound of a turn.
    """

    __slots__ = ("_bound", "_is_first_half", "_limit", "spent", "units_max")

    def __init__(self, units_max: int = TURN_UNITS_MAX) -> None:
        assert units_max > 0, f"{units_max=}"
        self.units_max = units_max
        self.begin()

    def begin(self) -> None:
        """Begin a turn: all of the budget is there."""
        self.spent, self._is_first_half = 0, True
        self._bound = self._limit = self.units_max

    def pause(self) -> None:
        """Begin nothing more in the first half of the step; nothing in the second."""
        if self._is_first_half:
            self._bound = self._limit = 0

    def resume(self) -> None:
        """Begin the second half: go on with what is left of the turn."""
        self._is_first_half = False
        self._bound = self._limit = self.units_max

    def share(self, count: int) -> None:
        """Give the next of `count` parts its share of what is left."""
        assert count > 0, f"{count=}"
        self._limit = self.spent + -(-(self.units_max - self.spent) // count)

    def spend(self, units: int) -> None:
        """Note what was done."""
        self.spent += units

    @property
    def left(self) -> int:
        """Units that the part may spend, at least those of one piece."""
        return max(0, self._limit - self.spent)

    @property
    def has_room(self) -> bool:
        """True if the part may begin another piece."""
        return self.spent < self._limit

    @property
    def is_spent(self) -> bool:
        """True if nothing more is begun in this turn, or in this half of it."""
        return self.spent >= self._bound


class Part(Protocol):
    """A part with things to do that wait."""

    @property
    def is_busy(self) -> bool:
        """True if there is something to do now."""
        ...

    def go_on(self) -> None:
        """Do pieces while the budget has room, at least one, and spend what each costs."""
        ...


class Turns:
    """The parts of a value that share its turns.

    Args:
        budget: of a turn; the parts have it too.
        parts: in the order in which they are asked at first.
    """

    def __init__(self, budget: TurnBudget, parts: Iterable[Part]) -> None:
        self._budget = budget
        self._parts = deque(parts)
        self.has_rest = False
        """True if something was left to do when the parts went on last: a turn is due at once."""

    @property
    def is_busy(self) -> bool:
        """True if a part has something to do."""
        return any(part.is_busy for part in self._parts)

    def go_on(self) -> None:
        """Let all parts go on until nothing waits or the budget is spent."""
        budget, parts = self._budget, self._parts
        while not budget.is_spent:
            busy = [part for part in parts if part.is_busy]
            if not busy:
                self.has_rest = False
                return
            for position, part in enumerate(busy):
                if part.is_busy:  # what one does may leave another nothing to do
                    budget.share(len(busy) - position)
                    part.go_on()
                    if budget.is_spent:
                        parts.rotate(-1 - parts.index(part))
                        break
        self.has_rest = self.is_busy
