"""Shrinking of a failing run: fewer and shorter faults, fewer writes, less time, fewer nodes.

Delta debugging (Zeller, Hildebrandt, 2002) over the plan: leave out halves, then quarters, and so
on down to single faults, as long as the same invariant breaks. Another one is another bug.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from simulator.campaign.draw import VARIATIONS, Options
from simulator.campaign.run import Outcome
from simulator.faults.decision import Decision

DURATION_STEP_US: Final = 100_000
Run = Callable[[Options, list[Decision]], Outcome]


class Shrunk(msgspec.Struct, frozen=True, kw_only=True):
    """Smallest failing run that was found."""

    options: Options
    plan: list[Decision]
    outcome: Outcome
    run_count: int


class Shrinker:
    """Search for a smaller failing run.

    Args:
        outcome: the failure; `outcome.invariant` has to break again.
        options: of the failing run.
        run: runs a candidate.
        is_over: called before each run; True ends the search with the best so far.
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
        """The clients' pause stays, so that fewer writes leave the first ones as they are."""

    def shrink(self) -> Shrunk:
        """Run the whole search."""
        self._cut_tail()
        size = None
        while size != self._size() and not self._is_over():
            size = self._size()
            self._shrink_plan()
            self._shrink_decisions()
            self._shrink_writes()
            self._shrink_duration()
            self._shrink_cluster()
            self._shrink_variations()
        return self.best

    @property
    def best(self) -> Shrunk:
        """Smallest failing run so far, of an interrupted search too."""
        return Shrunk(
            options=self.options, plan=self.plan, outcome=self.outcome, run_count=self.run_count
        )

    def _size(self) -> tuple[object, ...]:
        return tuple(self.plan), self.options

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
        """Leave out faults after the failure: they did not cause it."""
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

    def _shrink_decisions(self) -> None:
        """Reduce the remaining faults: shorter, fewer operations ahead, fewer targets."""
        for number in range(len(self.plan)):
            for name, least in (("length_us", 1_000), ("amount", 1)):
                self._bisect(least, getattr(self.plan[number], name), self._changed(number, name))
            for target in self.plan[number].targets[1:]:
                left = tuple(t for t in self.plan[number].targets if t != target)
                self._try(self.options, self._with(number, targets=left))

    def _changed(self, number: int, name: str) -> Callable[[int], bool]:
        return lambda value: self._try(self.options, self._with(number, **{name: value}))

    def _with(self, number: int, **more: Any) -> list[Decision]:
        return [*self.plan[:number], replace(self.plan[number], **more), *self.plan[number + 1 :]]

    def _shrink_writes(self) -> None:
        self._bisect(
            0,
            self.options.write_count,
            lambda count: self._try(replace(self.options, write_count=count), self.plan),
        )

    def _shrink_duration(self) -> None:
        if self.outcome.at_us < self.options.duration_us:
            self._try(replace(self.options, duration_us=self.outcome.at_us), self.plan)
        self._bisect(
            1,
            self.options.duration_us // DURATION_STEP_US,
            lambda steps: self._try(
                replace(self.options, duration_us=steps * DURATION_STEP_US), self.plan
            ),
        )

    def _bisect(self, least: int, most: int, fails: Callable[[int], bool]) -> None:
        """Find a small number between both that still fails; `most` is known to fail."""
        if least >= most or fails(least):
            return
        while most - least > 1 and not self._is_over():
            middle = (least + most) // 2
            if fails(middle):
                most = middle
            else:
                least = middle

    def _shrink_cluster(self) -> None:
        settings = self.outcome.settings
        if settings.observer_count > 0:
            self._try_nodes(settings.voter_count, 0)
        for count in range(1, self.outcome.settings.voter_count):
            if self._try_nodes(count, self.outcome.settings.observer_count):
                break

    def _shrink_variations(self) -> None:
        """Take usual clients and voters, where the seed drew others."""
        faults = self.outcome.settings.faults
        for name in VARIATIONS:
            if name in faults:
                left = tuple(each for each in self.outcome.settings.faults if each != name)
                self._try(replace(self.options, faults=left), self.plan)

    def _try_nodes(self, voters: int, observers: int) -> bool:
        options = replace(self.options, node_count=voters, observer_count=observers)
        plan = []
        for decision in self.plan:
            left = tuple(t for t in decision.targets if t <= voters or 100 < t <= 100 + observers)
            if left:
                plan.append(replace(decision, targets=left))
        return self._try(options, plan)
