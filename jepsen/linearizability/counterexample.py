"""Counterexample: a small part of a history that is not linearizable either, and what was tried.

1. *Prefix*: the earliest return at which the history so far is illegal (what returns later counts
   as never returned). Once a prefix is illegal every longer one is, so bisection finds it.
2. *Fewer operations*: each is left out in turn, kept out when the rest is still illegal. Leaving
   out a read proves nothing wrong: the rest of an illegal history was refuted without it. Leaving
   out a write could make a read inexplicable that was fine, so a write may only go if the rest is
   still legal up to its last return and, with real time relaxed (the last operation could have
   come first, or every operation is concurrent with every other), as legal as before. What was
   left out is listed.
3. The end is 1-minimal, or the budget is spent.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from jepsen.linearizability.checker import Budget, Result, check, new_search, ordered_partitions
from jepsen.linearizability.history import History
from jepsen.linearizability.model import ILLEGAL, UNKNOWN, Model
from jepsen.linearizability.models import model_named
from jepsen.linearizability.partition import Item, Partition
from jepsen.linearizability.search import BLOCK_STEPS, Search
from jepsen.linearizability.transitions import describe

SECONDS_MAX: Final = 10.0
SEARCH_STEPS_MAX: Final = 1 << 21
RELAXED_STEPS_MAX: Final = 1 << 15
SHOWN_MAX: Final = 10
Explains = Callable[[Sequence[Item]], bool | None]


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration at which the search ended.

    Attributes:
        state: State of the model there, as people write it.
        linearized: Operations already ordered among those open there.
        refused: Operations that could come next, each with the reason why it does not help.
    """

    state: str
    linearized: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]


class Counterexample(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a history that is not linearizable.

    Attributes:
        keys: Keys that it is about.
        operation: Index of the operation whose return cannot be satisfied.
        operations: Indexes of the operations left, by call.
        never_returned: Those of them that count as never returned.
        removed: Indexes of operations that the search left out of the prefix.
        is_minimal: True if without any one operation the rest is legal (or inexplicable).
        previous_ok: Index of the last operation that returned before, None if none did.
        configurations: Ends of the search, at most 10.
        paths: Longest partial linearizations as indexes of operations, at most 10.
        lines: The operations left as people write them, by call.
    """

    keys: tuple[Any, ...]
    operation: int
    operations: tuple[int, ...]
    never_returned: tuple[int, ...]
    removed: tuple[int, ...]
    is_minimal: bool
    previous_ok: int | None
    configurations: tuple[Configuration, ...]
    paths: tuple[tuple[int, ...], ...]
    lines: tuple[str, ...]

    def text(self) -> list[str]:
        """Make lines for people."""
        kind = "minimal counterexample" if self.is_minimal else "counterexample"
        counts = f"{len(self.operations)} operations ({len(self.removed)} left out)"
        found = [f"{kind}, {counts}, times in [ ]:"]
        found += [f"  {line}" for line in self.lines]
        for configuration in self.configurations:
            done = ", ".join(configuration.linearized)
            found.append(f"state {configuration.state}{f' after {done}' if done else ''}:")
            found += [f"  {what}: {why}" for what, why in configuration.refused]
        return found


class _Shrinker:
    """Searches on parts of one partition, within one budget."""

    def __init__(self, model: Model, partition: Partition, is_late: Callable[[], bool]) -> None:
        self._model: Final = model
        self._partition: Final = partition
        self._is_late: Final = is_late

    def is_illegal(self, items: Sequence[Item]) -> bool:
        """True if proven so within the budget."""
        return self._verdict(items, SEARCH_STEPS_MAX) is False

    def explains_early(self, items: Sequence[Item]) -> bool | None:
        """Judge the items with the last returning operation called first; None: not known."""
        last = max((item for item in items if item.end is not None), key=_end)
        first = min(item.call for item in items)
        relaxed = [item._replace(call=first) if item is last else item for item in items]
        return self._verdict(relaxed, SEARCH_STEPS_MAX)

    def explains_unordered(self, items: Sequence[Item]) -> bool | None:
        """Judge the items with all operations concurrent with each other; None: not known."""
        relaxed = [item._replace(call=0, end=None if item.end is None else 1) for item in items]
        return self._verdict(relaxed, RELAXED_STEPS_MAX)

    def explanation(self, items: Sequence[Item]) -> Explains | None:
        """Relaxation that makes the items legal, None if none does."""
        if self.explains_early(items) is True:
            return self.explains_early
        return None if self.explains_unordered(items) is False else self.explains_unordered

    def _verdict(self, items: Sequence[Item], steps_max: int) -> bool | None:
        search = new_search(
            self._model, self._partition._replace(items=tuple(items)), cache_entries=steps_max
        )
        while search.is_legal is None and search.steps < steps_max and not self._is_late():
            search.advance(BLOCK_STEPS)
        return search.is_legal

    def prefix(self) -> list[Item]:
        """Shortest prefix that is illegal; its last return is the one that breaks."""
        items = self._partition.items
        ends = sorted({item.end for item in items if item.end is not None})
        low, high = 0, len(ends) - 1
        while low < high:
            middle = (low + high) // 2
            if self.is_illegal(prefix_until(items, ends[middle])):
                high = middle
            else:
                low = middle + 1
        return prefix_until(items, ends[low]) if ends else list(items)

    def shrink(self, items: list[Item]) -> tuple[list[Item], bool]:
        """Leave out what can go; True if nothing more can."""
        explains = self.explanation(items)
        kept, is_done = self._shrunk(items, explains)
        if is_done and explains == self.explains_unordered and explains(kept) is not True:
            # Not known at first, and no order was found for what is left either: no explanation
            # has to be kept.
            kept, is_done = self._shrunk(kept, None)
        return kept, is_done

    def _shrunk(self, kept: list[Item], explains: Explains | None) -> tuple[list[Item], bool]:
        last = max((item for item in kept if item.end is not None), key=_end)
        changed = True
        while changed:
            changed = False
            for size in self._sizes(len(kept)):
                start = 0
                while start < len(kept):
                    if self._is_late():
                        return kept, False
                    gone = [item for item in kept[start : start + size] if item is not last]
                    rest = [item for item in kept if item not in gone]
                    if gone and self._may_go(gone, rest, explains):
                        kept, changed = rest, True
                    else:
                        start += size
        return kept, True

    def _may_go(
        self,
        gone: list[Item],
        rest: list[Item],
        explains: Explains | None,
    ) -> bool:
        if not self.is_illegal(rest):
            return False
        if all(
            self._model.observes(part.input, part.output) for item in gone for part in item.parts
        ):
            return True
        if explains is not None and explains(rest) is not True:
            return False
        moment = max(_end(item) for item in rest if item.end is not None)
        return self._verdict(prefix_until(rest, moment - 1), SEARCH_STEPS_MAX) is True

    def _sizes(self, count: int) -> Iterable[int]:
        size = max(1, count // 2)
        while size > 1:
            yield size
            size //= 2
        yield 1


def _end(item: Item) -> int:
    assert item.end is not None
    return item.end


def prefix_until(items: Sequence[Item], moment: int) -> list[Item]:
    """Items as known at a moment (inclusive): later calls are absent, later returns unknown."""
    return [
        item
        if item.end is not None and item.end <= moment
        else item._replace(
            end=None, parts=tuple(part._replace(output=UNKNOWN) for part in item.parts)
        )
        for item in items
        if item.call <= moment
    ]


def explain(
    history: History,
    model: Model | str,
    *,
    result: Result | None = None,
    budget: Budget | None = None,
    seconds: float = SECONDS_MAX,
    clock: Callable[[], float] = time.perf_counter,
) -> Counterexample | None:
    """Find a counterexample of an illegal history; None if it is not known to be illegal.

    Args:
        history: The history.
        model: Its model, or the name.
        result: Result of `check` for it with this model; None: check now.
        budget: Of that check.
        seconds: Time for making the counterexample small.
        clock: Seconds from any zero.

    Raises:
        HistoryError: See `check`.
    """
    model = model_named(model) if isinstance(model, str) else model
    result = check(history, model, budget=budget, clock=clock) if result is None else result
    partition = refuted_partition(history, model, result)
    if partition is None:
        return _of_violation(history, model)
    deadline = clock() + seconds
    shrinker = _Shrinker(model, partition, lambda: clock() >= deadline)
    prefix = shrinker.prefix()
    kept, is_minimal = shrinker.shrink(prefix)
    found = _described(history, model, partition, prefix, kept)
    return msgspec.structs.replace(found, is_minimal=is_minimal)


def _of_violation(history: History, model: Model) -> Counterexample | None:
    violation = model.violation(history.operations)
    if violation is None:
        return None
    prepared = model.prepare(history.operations)
    items = [
        Item(index, history.operations[index].call, history.operations[index].end, prepared[index])
        for index in violation.operations
    ]
    return Counterexample(
        keys=tuple({part.key: None for item in items for part in item.parts}),
        operation=violation.operations[-1],
        operations=violation.operations,
        never_returned=(),
        removed=(),
        is_minimal=True,
        previous_ok=None,
        configurations=(),
        paths=(),
        lines=(violation.text, *(_line(history, model, item) for item in items)),
    )


def refuted_partition(history: History, model: Model, result: Result) -> Partition | None:
    """Partition that `result` found illegal."""
    if not result.partitions:
        return None
    for partition, found in zip(ordered_partitions(history, model), result.partitions, strict=True):
        if found.verdict == "illegal":
            return partition
    return None


def _described(
    history: History, model: Model, partition: Partition, prefix: list[Item], kept: list[Item]
) -> Counterexample:
    last = max((item for item in kept if item.end is not None), key=_end)
    earlier = [item for item in kept if item.end is not None and item is not last]
    search, paths = searched(model, partition._replace(items=tuple(kept)))
    left = {item.operation for item in kept}
    return Counterexample(
        keys=partition.keys,
        operation=last.operation,
        operations=tuple(item.operation for item in kept),
        never_returned=tuple(item.operation for item in kept if item.end is None),
        removed=tuple(item.operation for item in prefix if item.operation not in left),
        is_minimal=False,
        previous_ok=max(earlier, key=_end).operation if earlier else None,
        configurations=tuple(_configurations(model, search, kept)),
        paths=tuple(tuple(kept[index].operation for index in path) for path in paths[:SHOWN_MAX]),
        lines=tuple(_line(history, model, item) for item in kept),
    )


def _line(history: History, model: Model, item: Item) -> str:
    operation = history.operations[item.operation]
    end = "..." if item.end is None else str(item.end)
    where = history.place(operation.position)
    return (
        f"process {operation.process} [{item.call}, {end}] {describe(model, item.parts)} ({where})"
    )


def searched(
    model: Model, partition: Partition, *, steps_max: int = SEARCH_STEPS_MAX
) -> tuple[Search, list[tuple[int, ...]]]:
    """Run a search to its end; return it with the longest partial linearizations on its way.

    For every item the longest linearization that contains it is kept; equal ones once, the
    longest first. The linearizations hold indexes of items.
    """
    longest: dict[int, tuple[int, ...]] = {}
    order: tuple[int, ...] = ()

    def note(calls: list[int]) -> None:
        path: tuple[int, ...] | None = None
        for call in calls:
            if len(longest.get(call, ())) < len(calls):
                path = tuple(calls) if path is None else path  # shared by all
                longest[call] = path

    search = new_search(model, partition, cache_entries=steps_max, prune=False, on_dead_end=note)
    order = search.plan.order
    while search.is_legal is None and search.steps < steps_max:
        search.advance(BLOCK_STEPS)
    paths = sorted(set(longest.values()), key=lambda path: (-len(path), path))
    return search, [tuple(order[call - 1] for call in path) for path in paths]


def _configurations(model: Model, search: Search, items: Sequence[Item]) -> list[Configuration]:
    """The configurations at the return that no search got past."""
    plan, table = search.plan, search.table
    states = table.states()
    slots_mask = (1 << plan.width) - 1
    state_mask = (1 << (search.return_shift - plan.width)) - 1
    keys = sorted(search.seen) or [1]
    pending = max(key >> search.return_shift for key in keys)
    if pending == 0:
        keys = [1, *keys]  # nothing linearized yet
    calls = [
        call
        for call in range(1, plan.calls_before[pending] + 1)
        if call not in plan.return_calls[:pending]
    ]
    found: dict[Configuration, None] = {}
    for key in [key for key in keys if key >> search.return_shift == pending]:
        state = states[key >> plan.width & state_mask]
        slots = key & slots_mask
        refused = []
        for call in calls:
            if slots & plan.bits[call]:
                continue
            parts = items[plan.order[call - 1]].parts
            after = table.after(state, parts)
            why = (
                "impossible in this state"
                if after is ILLEGAL
                else f"possible, then {table.describe_state(after)}: leads nowhere"
            )
            refused.append((describe(model, parts), why))
        done = [call for call in calls if slots & plan.bits[call]]
        found[
            Configuration(
                state=table.describe_state(state),
                linearized=tuple(
                    describe(model, items[plan.order[call - 1]].parts) for call in done
                ),
                refused=tuple(refused),
            )
        ] = None
        if len(found) == SHOWN_MAX:
            break
    return list(found)
