"""`check`: a verdict on a history by a race between the searches of its partitions.

One partition may be refuted after thousands of steps while another is undecided after millions,
so the partitions take turns: each gets 2^14 steps, then each 2^17, 2^20, ... and the first
refutation ends the race. Narrow and short ones come first in every round.

A search whose cache is full goes on with the second engine (`frontier`, or `subsets` where few
operations are open at a time), whose memory does not grow with the length of the history; a narrow
one that takes long does so before. What exceeds the cache there too, the steps or the time ends
as `unknown`, never as `ok`; an `illegal` found before stays `illegal`.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from jepsen.linearizability.frontier import FrontierSearch
from jepsen.linearizability.history import History, HistoryError, Operation, history_of
from jepsen.linearizability.model import Model, OperationError, Violation
from jepsen.linearizability.models import model_named
from jepsen.linearizability.partition import Partition, Standing, partitions_of
from jepsen.linearizability.search import BLOCK_STEPS, Entry, Search, plan_of
from jepsen.linearizability.subsets import WIDTH_MAX, SubsetSearch
from jepsen.linearizability.transitions import Transitions

OK: Final = "ok"
ILLEGAL: Final = "illegal"
UNKNOWN: Final = "unknown"
DEPTH_FIRST: Final = "wing-gong-lowe"
FROM_RETURN_TO_RETURN: Final = "just-in-time"
BY_SUBSETS: Final = "just-in-time, subsets"
PATIENCE_STEPS: Final = 1 << 20
PATIENCE_STEPS_PER_OPERATION: Final = 24
"""A legal history takes the depth-first search below ten steps for an operation; where it has taken
so many more, a narrow one goes on with the engine whose work does not grow with what is visited."""
FIRST_ROUND_STEPS: Final = 1 << 14
ROUND_FACTOR: Final = 8


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the cost of a check; beyond them its verdict is `unknown`.

    Attributes:
        cache_entries: Visited configurations held at one time by all searches; a search that
            goes beyond is given up. One takes 100 to 200 bytes. Exceeded by less than 2^14.
        steps: Steps of all searches together; None: no limit. The only budget whose verdict is
            the same in every run.
        seconds: Wall time from the start of the check; None: no limit (no clock is read).
    """

    cache_entries: int = 5_000_000
    steps: int | None = None
    seconds: float | None = None


class PartitionResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one partition.

    Attributes:
        keys: The keys it is about.
        standing: `exact`, or the weight of a projection onto one key (`Standing`).
        verdict: `ok`, `illegal` or `unknown`; `unknown` also if the race ended before.
        engine: The algorithm that was at work last.
        operations: Indexes of its operations in the history, by call; without dropped ones.
        dropped: Number of operations left out because they prove nothing.
        steps: Steps of the search.
        cache_size: Configurations visited.
        witness: For `ok`, indexes of operations in a legal order (None if the second engine
            decided). Operations that never returned and need not have happened are left out.
    """

    keys: tuple[Any, ...]
    standing: str
    verdict: str
    engine: str
    operations: tuple[int, ...]
    dropped: int
    steps: int
    cache_size: int
    witness: tuple[int, ...] | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Verdict on a history.

    Attributes:
        verdict: `ok`, `illegal` or `unknown`.
        partitions: One result for each search.
        engine: Names of the algorithms that decided.
        operations: Operations of the history.
        steps: Steps of all searches together.
        cache_size: Configurations visited by all searches together.
        wall_s: Wall time in seconds; 0 if no clock was given.
        reason: For `unknown`: which budget ended it, or that there is nothing to judge. For
            `illegal` without a search: why. For `ok`: what was not checked, if anything. After it,
            whatever the verdict, what the reader of the file left out.
    """

    verdict: str
    partitions: tuple[PartitionResult, ...]
    engine: str
    operations: int
    steps: int
    cache_size: int
    wall_s: float
    reason: str | None = None


class Progress(NamedTuple):
    """Progress of a race: searches decided, searches in all, steps so far."""

    decided: int
    searches: int
    steps: int


class _Runner:
    """One partition in the race: depth first, then from return to return if it took too much."""

    def __init__(self, model: Model, partition: Partition, budget: Budget, *, prune: bool) -> None:
        self.partition: Final = partition
        self.verdict = UNKNOWN
        self.witness: tuple[int, ...] | None = None
        self.engine = DEPTH_FIRST
        self._model: Final = model
        self._given_up_steps = 0
        self._patience = PATIENCE_STEPS + PATIENCE_STEPS_PER_OPERATION * len(partition.items)
        self._search: Search | FrontierSearch | SubsetSearch | None = new_search(
            model, partition, cache_entries=budget.cache_entries, prune=prune
        )
        self.steps = 0
        self.cache_size = 0
        self._note()

    @property
    def is_running(self) -> bool:
        return self._search is not None

    def advance(self, steps: int) -> None:
        assert self._search is not None
        self._search.advance(steps)
        self._note()
        search = self._search
        if isinstance(search, Search):
            is_slow = search.steps > self._patience
            if is_slow and search.plan.width <= WIDTH_MAX:
                self.give_up()

    def give_up(self) -> None:
        """Free the memory of its engine; the second one may still decide."""
        if not isinstance(self._search, Search):
            self._search = None
            return
        table, plan = Transitions(self._model, self.partition.keys), self._search.plan
        for item in self.partition.items:
            table.kind(item.parts)  # the numbers that the plan has
        self._given_up_steps = self.steps
        self.cache_size = 0
        if plan.width <= WIDTH_MAX:
            self._search, self.engine = SubsetSearch(plan, table), BY_SUBSETS
        else:
            self._search, self.engine = FrontierSearch(plan, table), FROM_RETURN_TO_RETURN

    def _note(self) -> None:
        search = self._search
        assert search is not None
        self.steps = self._given_up_steps + search.steps
        self.cache_size = len(search.seen) if isinstance(search, Search) else search.size
        if search.is_legal is None:
            return
        self.verdict = OK if search.is_legal else ILLEGAL
        if search.is_legal and isinstance(search, Search):
            items = self.partition.items
            self.witness = tuple(items[index].operation for index in search.linearization())
        self._search = None

    def result(self) -> PartitionResult:
        return PartitionResult(
            keys=self.partition.keys,
            standing=self.partition.standing.value,
            verdict=self.verdict,
            engine=self.engine,
            operations=tuple(item.operation for item in self.partition.items),
            dropped=self.partition.dropped,
            steps=self.steps,
            cache_size=self.cache_size,
            witness=self.witness,
        )


def new_search(
    model: Model,
    partition: Partition,
    *,
    cache_entries: int,
    prune: bool = True,
    on_dead_end: Callable[[list[int]], None] | None = None,
) -> Search:
    """Make the search of a partition, not yet begun; its entries are the items, by index."""
    table = Transitions(model, partition.keys)
    entries = [
        Entry(item.call, item.end, table.kind(item.parts), table.observes(item.parts))
        for item in partition.items
    ]
    plan = plan_of(entries, prune=prune)
    # A state is met through a step; the block under way may go beyond the limit of the cache.
    state_bits = (cache_entries + 2 * BLOCK_STEPS).bit_length()
    return Search(plan, table, state_bits=state_bits, on_dead_end=on_dead_end)


def check(
    history: History | Sequence[Operation],
    model: Model | str,
    *,
    budget: Budget | None = None,
    split: bool = True,
    prune: bool = True,
    clock: Callable[[], float] | None = time.perf_counter,
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Judge whether a history is linearizable.

    Args:
        history: Events, or operations in any order.
        model: A model of `jepsen.linearizability.models`, or its name.
        budget: What it may cost; `Budget()` when None.
        split: False: one search for all keys (to compare with).
        prune: False: no shortcuts, the plain algorithm (to compare with).
        clock: Seconds from any zero; None reads no clock (then `budget.seconds` must be None).
        on_progress: Called now and then during a long race.

    Raises:
        HistoryError: The input is no history of the model; the text names the place.
    """
    if not isinstance(history, History):
        history = history_of(history)
    budget = Budget() if budget is None else budget
    model = model_named(model) if isinstance(model, str) else model
    now = clock or (lambda: 0.0)
    assert clock is not None or budget.seconds is None, "a limit of time needs a clock"
    started = now()
    if not history.operations:
        return _nothing_to_judge(history)
    partitions = ordered_partitions(history, model, split=split, reduce=prune)
    violation = model.violation(history.operations)
    if violation is not None:
        return _refuted(history, violation, now() - started)
    deadline = None if budget.seconds is None else started + budget.seconds
    race = _Race(
        [_Runner(model, partition, budget, prune=prune) for partition in partitions],
        budget,
        lambda: deadline is not None and now() >= deadline,
        on_progress,
    )
    race.run()
    results = tuple(runner.result() for runner in race.runners)
    return Result(
        verdict=race.verdict(),
        partitions=results,
        engine=", ".join(sorted({each.engine for each in results})) or "none",
        operations=len(history.operations),
        steps=sum(result.steps for result in results),
        cache_size=sum(result.cache_size for result in results),
        wall_s=now() - started,
        reason=_joined(race.reason, history.left_out),
    )


def _joined(*reasons: str | None) -> str | None:
    return "; ".join(reason for reason in reasons if reason is not None) or None


def _nothing_to_judge(history: History) -> Result:
    """Accept an empty history; one whose events are of no client proves nothing."""
    why = "the history is empty"
    if history.events:
        why = f"none of {len(history.events)} events is of a client: their processes are names"
    return Result(
        verdict=UNKNOWN if history.events else OK,
        partitions=(),
        engine="none",
        operations=0,
        steps=0,
        cache_size=0,
        wall_s=0.0,
        reason=_joined(why, history.left_out),
    )


def _refuted(history: History, violation: Violation, wall_s: float) -> Result:
    places = [history.place(history.operations[i].position) for i in violation.operations]
    return Result(
        verdict=ILLEGAL,
        partitions=(),
        engine="none",
        operations=len(history.operations),
        steps=0,
        cache_size=0,
        wall_s=wall_s,
        reason=_joined(f"{violation.text} ({', '.join(places)})", history.left_out),
    )


def ordered_partitions(
    history: History, model: Model, *, split: bool = True, reduce: bool = True
) -> list[Partition]:
    """Partitions of a history in the order of the race: narrow and short ones first.

    `Result.partitions` has the same order.

    Raises:
        HistoryError: See `check`; an operation that is not the model's is named by its place.
    """
    try:
        found = partitions_of(history.operations, model, split=split, reduce=reduce)
    except OperationError as error:
        raise HistoryError(f"{history.place(error.operation.position)}: {error}") from error
    return sorted(found, key=lambda partition: (partition.width, len(partition.items)))


class _Race:
    """Searches that take turns until one refutes, all are decided or a budget is spent."""

    def __init__(
        self,
        runners: list[_Runner],
        budget: Budget,
        is_late: Callable[[], bool],
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self.runners: Final = runners
        self.reason: str | None = None
        self._budget: Final = budget
        self._is_late: Final = is_late
        self._on_progress: Final = on_progress
        self._steps = 0
        self._held = 0  # configurations in the caches of running searches
        self._is_over = False

    def verdict(self) -> str:
        """Illegal beats unknown beats ok; a projection that is joined later only refutes."""
        verdicts = [each.verdict for each in self.runners]
        if ILLEGAL in verdicts:
            return ILLEGAL
        needed = [
            each.verdict
            for each in self.runners
            if each.partition.standing is not Standing.NECESSARY
        ]
        return UNKNOWN if UNKNOWN in needed else OK

    def run(self) -> None:
        """Run until the verdict stands or the budget is spent; set `reason`."""
        turn_steps = FIRST_ROUND_STEPS
        waiting = [runner for runner in self.runners if runner.is_running]
        while waiting and not self._is_over:
            for runner in waiting:
                self._turn(runner, turn_steps)
                if runner.verdict == ILLEGAL:
                    self.reason = None
                    return
            waiting = [runner for runner in waiting if runner.is_running]
            turn_steps *= ROUND_FACTOR
        if self.verdict() == OK:
            projected = any(
                runner.partition.standing is Standing.PROJECTED for runner in self.runners
            )
            self.reason = "lists were compared name by name only" if projected else None

    def _turn(self, runner: _Runner, steps: int) -> None:
        while steps > 0 and runner.is_running and not self._is_spent(runner):
            block = min(steps, BLOCK_STEPS)
            if self._budget.steps is not None:
                block = min(block, self._budget.steps - self._steps)
            self._steps -= runner.steps
            self._held -= runner.cache_size
            runner.advance(block)
            self._steps += runner.steps
            self._held += runner.cache_size if runner.is_running else 0
            steps -= block
            if self._on_progress is not None:
                decided = sum(not each.is_running for each in self.runners)
                self._on_progress(Progress(decided, len(self.runners), self._steps))

    def _is_spent(self, runner: _Runner) -> bool:
        budget = self._budget
        if budget.steps is not None and self._steps >= budget.steps:
            self.reason = f"{budget.steps} steps are done"
            self._is_over = True
        elif self._is_late():
            self.reason = f"{budget.seconds} seconds are over"
            self._is_over = True
        elif self._held >= budget.cache_entries:
            self.reason = f"the cache of {budget.cache_entries} configurations is full"
            self._held -= runner.cache_size
            runner.give_up()
            return True
        return self._is_over
