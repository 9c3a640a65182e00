"""Second engine, for narrow histories: the configurations of one return as bits of one int.

As in `frontier`: all configurations from one return to the next. A configuration is a state and
the set of open operations that are linearized. With n slots there are 2^n such sets, so the sets
that go with one state are an int of 2^n bits, and linearizing an operation in slot s is, for all of
them at once, a shift by 2^s:

    sets without s:   known & LACKS[s]          sets with s added:   (those) << (1 << s)

The sets are closed under linearizing whenever an operation is called, so that a return only keeps
those that hold its slot and gives the slot back. The work for one operation does not depend on
how many configurations there are: a history that is refuted only at its end, which makes the
depth-first search visit all of them, takes time proportional to its length.

A legal observation is linearized in every set at once: a set without it leads nowhere that the
set with it does not (the shortcut of `search`, with the same proof).
"""

from collections.abc import Generator
from typing import Final, NamedTuple

from jepsen.linearizability.search import BLOCK_STEPS, Plan
from jepsen.linearizability.transitions import Row, Transitions

WIDTH_MAX: Final = 13
"""Slots of a plan, the constant one included: 2^12 bits for each state."""


class _Opened(NamedTuple):
    """An operation that was called and has not returned."""

    call: int
    kind: int
    shift: int  # 1 << slot
    need: int | None  # the sets in which it may be linearized; None: all
    is_forced: bool


class SubsetSearch:
    """One search that can be interrupted; the same plan and moves as `Search`."""

    def __init__(self, plan: Plan, table: Transitions) -> None:
        """Begin with nothing linearized.

        Args:
            plan: Calls and returns; its width at most `WIDTH_MAX`.
            table: Moves; not yet begun.
        """
        assert plan.width <= WIDTH_MAX, f"{plan.width=}"
        self.is_legal: bool | None = None
        self.steps = 0
        self.size = 0  # states that are possible now and all states met
        self._plan: Final = plan
        self._table: Final = table
        self._block = BLOCK_STEPS
        self._paused = 0  # steps at the last pause
        slots = max(plan.width - 1, 1)
        whole = (1 << (1 << slots)) - 1
        self._has: Final = [_with_slot(slot, slots) for slot in range(slots)]
        self._lacks: Final = [whole ^ has for has in self._has]
        self._rows: Final[dict[int, Row]] = {}
        self._known: dict[int, int] = {}  # by number of the state: its sets
        self._opened: Final[list[_Opened]] = []  # the forced first
        self._returns: Final = self._search()

    def advance(self, steps: int = BLOCK_STEPS) -> bool | None:
        """Go on for about so many steps; True legal, False illegal, None not known yet."""
        self._block = steps
        if self.is_legal is None:
            next(self._returns, None)
        return self.is_legal

    def _search(self) -> Generator[None, None, None]:
        plan = self._plan
        start = self._table.begin(0)
        self._rows[start[0]] = start
        self._known[start[0]] = 1
        called = 0
        for number, due in enumerate(plan.return_calls):
            limit = plan.calls_before[number]
            for call in range(called + 1, limit + 1):
                self._call(call)
                if self.steps - self._paused >= self._block:
                    self.size = len(self._known) + len(self._table)
                    self._paused = self.steps
                    yield
            called = max(called, limit)
            self._return(due)
            if not self._known:
                self.is_legal = False
                return
        self.is_legal = True

    def _call(self, call: int) -> None:
        """Open one more operation, which may be linearized from now on."""
        plan = self._plan
        slot = plan.bits[call].bit_length() - 2
        need = plan.needs[call]
        opened = _Opened(
            call,
            plan.kinds[call],
            1 << slot,
            self._has[need.bit_length() - 2] if need > 1 else None,
            plan.forced[call],
        )
        self._opened.insert(0 if opened.is_forced else len(self._opened), opened)
        fresh: dict[int, int] = {}
        for number, sets in list(self._known.items()):
            self._linearize(opened, self._rows[number], sets, is_crashed=bool(need), fresh=fresh)
        while fresh:
            waiting, fresh = fresh, {}
            for number, sets in waiting.items():
                row = self._rows[number]
                for each in self._opened:
                    is_crashed = bool(plan.needs[each.call])
                    self._linearize(each, row, sets, is_crashed=is_crashed, fresh=fresh)

    def _linearize(
        self, opened: _Opened, row: Row, sets: int, *, is_crashed: bool, fresh: dict[int, int]
    ) -> None:
        """Linearize it in those of a state's sets that allow it; `fresh` gets what is new."""
        self.steps += 1
        moved = row[opened.kind]
        if moved is None or (is_crashed and moved is row):
            return
        sets &= self._lacks[opened.shift.bit_length() - 1]
        if opened.need is not None:
            sets &= opened.need
        if not sets:
            return
        number = moved[0]
        if opened.is_forced:
            known = self._known.get(row[0], 0)
            self._known[row[0]] = known & ~sets
        after = self._observed(moved, sets << opened.shift)
        new = after & ~self._known.get(number, 0)
        if new:
            self._rows[number] = moved
            self._known[number] = self._known.get(number, 0) | new
            fresh[number] = fresh.get(number, 0) | new

    def _observed(self, row: Row, sets: int) -> int:
        """Add every open observation that is legal in the state to the sets."""
        for each in self._opened:
            if not each.is_forced:
                break
            if row[each.kind] is not None:
                lacking = sets & self._lacks[each.shift.bit_length() - 1]
                if lacking:
                    sets = (sets ^ lacking) | lacking << each.shift
        return sets

    def _return(self, due: int) -> None:
        """Keep only the sets that hold the operation, without its slot."""
        number = next(n for n, each in enumerate(self._opened) if each.call == due)
        shift = self._opened.pop(number).shift
        has = self._has[shift.bit_length() - 1]
        self._known = {
            state: kept >> shift for state, sets in self._known.items() if (kept := sets & has)
        }


def _with_slot(slot: int, slots: int) -> int:
    """Bits of those of the 2^slots sets that hold a slot."""
    run = 1 << slot  # so many sets without it, then so many with it
    pattern, length = ((1 << run) - 1) << run, 2 * run
    while length < 1 << slots:
        pattern |= pattern << length
        length *= 2
    return pattern
