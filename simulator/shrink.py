"""Make a failing run small: fewer faults, fewer writes, a shorter time, fewer nodes.

Delta debugging (Zeller, Hildebrandt, 2002) over the plan: leave out halves, then quarters, and so
on down to single faults, as long as the same invariant breaks. Another one is another bug.
"""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from simulator.draw import Options
from simulator.plan import Decision
from simulator.run import Outcome

Run = Callable[[Options, list[Decision]], Outcome]


class Shrunk(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest failing run that was found."""

    options: Options
    plan: list[Decision]
    outcome: Outcome
    run_count: int


class Shrinker:
    """One search.

    Args:
        outcome: the failure; `outcome.invariant` has to break again.
        options: what it ran with.
        run: runs a candidate.
        is_over: asked before each run; True ends the search with the best so far.
    """

    def __init__(
        self,
        outcome: Outcome,
        options: Options,
        run: Run,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        assert outcome.invariant is not None, "nothing failed"
        self._invariant = outcome.invariant
        self._run = run
        self._is_over = is_over
        self.run_count = 0
        self.outcome = outcome
        self.plan = outcome.plan
        self.options = replace(options, think_us=outcome.settings.think_us)
        """The pause of the clients stays, so that fewer writes leave the first ones as they are."""

    def shrink(self) -> Shrunk:
        """Run the whole search."""
        self._cut_tail()
        size = None
        while size != self._size() and not self._is_over():
            size = self._size()
            self._shrink_plan()
            self._shrink_writes()
            self._shrink_duration()
            self._shrink_cluster()
        return Shrunk(
            options=self.options, plan=self.plan, outcome=self.outcome, run_count=self.run_count
        )

    def _size(self) -> tuple[object, ...]:
        return len(self.plan), self.options

    def _try(self, options: Options, plan: list[Decision]) -> bool:
        """Take a candidate if it breaks the same invariant."""
        if self._is_over():
            return False
        self.run_count += 1
        outcome = self._run(options, plan)
        if outcome.invariant != self._invariant:
            return False
        self.options, self.plan, self.outcome = options, plan, outcome
        return True

    def _cut_tail(self) -> None:
        """What comes after the failure has nothing to do with it."""
        at_us = self.outcome.at_us
        earlier = [decision for decision in self.plan if decision.at_us <= at_us]
        if len(earlier) < len(self.plan):
            self._try(self.options, earlier)

    def _shrink_plan(self) -> None:
        if self.plan and self._try(self.options, []):
            return
        length = len(self.plan) // 2
        while length > 0:
            start = 0
            while start < len(self.plan):
                if not self._try(self.options, self.plan[:start] + self.plan[start + length :]):
                    start += length
            length //= 2

    def _shrink_writes(self) -> None:
        while self.options.write_count > 0:
            fewer = self.options.write_count // 2
            if not self._try(replace(self.options, write_count=fewer), self.plan):
                break

    def _shrink_duration(self) -> None:
        if self.outcome.at_us < self.options.duration_us:
            self._try(replace(self.options, duration_us=self.outcome.at_us), self.plan)
        while self.options.duration_us > 1_000_000:
            shorter = self.options.duration_us // 2
            if not self._try(replace(self.options, duration_us=shorter), self.plan):
                break

    def _shrink_cluster(self) -> None:
        settings = self.outcome.settings
        if settings.observer_count > 0:
            self._try_nodes(settings.voter_count, 0)
        for count in (1, 3):
            now = self.outcome.settings
            if count < now.voter_count and self._try_nodes(count, now.observer_count):
                break

    def _try_nodes(self, voters: int, observers: int) -> bool:
        options = replace(self.options, node_count=voters, observer_count=observers)
        plan = []
        for decision in self.plan:
            left = tuple(t for t in decision.targets if t <= voters or 100 < t <= 100 + observers)
            if left:
                plan.append(replace(decision, targets=left))
        return self._try(options, plan)
