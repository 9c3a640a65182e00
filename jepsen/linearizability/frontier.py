"""Second engine: all configurations from one return to the next (just-in-time linearization).

Where the depth-first search remembers every configuration that it ever visited, this engine holds
only those at one return: the sets of open operations that may have been linearized by then, each
each with a state. From them it goes to those after the return: operations are linearized, in every
way, until the one that returns is among them. No configuration left: illegal. It does all the
work even when the history is legal, so it runs only when the memory of the depth-first search is
full; on long histories its own stays small. It gives no witness.

Reference: jepsen-io/knossos, `linear`; Lowe, "Testing for linearizability", 2017.
"""

from collections.abc import Generator, Iterator
from typing import Final

from jepsen.linearizability.search import BLOCK_STEPS, Plan
from jepsen.linearizability.transitions import Row, Transitions

Frontier = dict[tuple[int, int], Row]


class FrontierSearch:
    """One search that can be interrupted; the same plan and moves as `Search`."""

    def __init__(self, plan: Plan, table: Transitions) -> None:
        """Begin with nothing linearized.

        Args:
            plan: Calls and returns.
            table: Moves; not yet begun.
        """
        self.is_legal: bool | None = None
        self.steps = 0
        self.size = 0  # configurations of one return and all states met
        self._plan: Final = plan
        self._table: Final = table
        self._block = BLOCK_STEPS
        self._paused = 0  # steps at the last pause
        self._levels: Final = self._search()

    def advance(self, steps: int = BLOCK_STEPS) -> bool | None:
        """Go on for about so many steps; True legal, False illegal, None not known yet."""
        self._block = steps
        if self.is_legal is None:
            next(self._levels, None)
        return self.is_legal

    def _search(self) -> Iterator[None]:
        plan = self._plan
        start = self._table.begin(0)
        frontier: Frontier = {(1, start[0]): start}  # slots linearized, state
        opened: list[int] = []  # calls before the return that have not returned, in order
        called = 0
        for number, (call, bit) in enumerate(
            zip(plan.return_calls, plan.return_bits, strict=False)
        ):
            limit = plan.calls_before[number]
            opened.extend(range(called + 1, limit + 1))
            called = limit
            frontier = yield from self._behind(frontier, opened, bit)
            opened.remove(call)
            if not frontier:
                self.is_legal = False
                return
        self.is_legal = True

    def _behind(
        self, frontier: Frontier, opened: list[int], due: int
    ) -> Generator[None, None, Frontier]:
        """Configurations after the return of the operation in slot `due`."""
        bits, kinds, needs, forced = (
            self._plan.bits, self._plan.kinds, self._plan.needs, self._plan.forced,
        )  # fmt: skip
        candidates = sorted(opened, key=lambda call: not forced[call])
        found: Frontier = {}
        seen = set(frontier)
        waiting = [(slots, row) for (slots, _), row in frontier.items()]
        while waiting:
            if self.steps - self._paused >= self._block:
                self.size = len(seen) + len(self._table)
                self._paused = self.steps
                yield
            slots, row = waiting.pop()
            if slots & due:
                found[slots ^ due, row[0]] = row
                continue
            for call in candidates:
                bit = bits[call]
                if slots & bit:
                    continue
                self.steps += 1
                moved = row[kinds[call]]
                need = needs[call]
                if moved is None or (need and (moved is row or not need & slots)):
                    continue
                key = (slots | bit, moved[0])
                if key not in seen:
                    seen.add(key)
                    waiting.append((slots | bit, moved))
                if forced[call]:
                    break  # a legal observation: nothing else has to be tried here
        return found
