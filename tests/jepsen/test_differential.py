"""The checker against a brute-force one on random small histories of every model.

The quick run looks at a part; `scripts/test --all` at more than 100,000 (marker `long`).
"""

import random
import zlib

import msgspec
import pytest

from jepsen.linearizability.checker import ILLEGAL, OK, check, new_search, ordered_partitions
from jepsen.linearizability.frontier import FrontierSearch
from jepsen.linearizability.history import history_of
from jepsen.linearizability.models import model_named
from jepsen.linearizability.subsets import WIDTH_MAX, SubsetSearch
from jepsen.linearizability.transitions import Transitions
from tests.jepsen.sequential import OBJECTS, is_linearizable, random_operations

QUICK_CASES = 50
LONG_CASES = 15_500  # for each of 8 objects
NAMES = [type(each).__name__ for each in OBJECTS]


def random_case(sequential, rng):
    """A history of at most 7 operations; in half of them some answers are changed."""
    crashes = rng.choice((0.0, 0.15, 0.4))
    operations = random_operations(
        sequential, rng, count=rng.randrange(8), clients=rng.randrange(1, 5), crashes=crashes
    )
    if rng.random() < 0.5:
        return operations
    return [
        msgspec.structs.replace(each, **sequential.corrupt(each, rng))
        if each.end is not None and rng.random() < 0.4
        else each
        for each in operations
    ]


def second_engine(operations, sequential, engine, *, prune=True, split=True) -> str:
    """Verdict of an engine that follows when the first has worked for long."""
    model = model_named(sequential.model)
    legal = True
    for each in ordered_partitions(history_of(operations), model, split=split, reduce=prune):
        plan = new_search(model, each, cache_entries=10, prune=prune).plan
        table = Transitions(model, each.keys)
        for item in each.items:
            table.kind(item.parts)
        assert plan.width <= WIDTH_MAX
        search = engine(plan, table)
        while search.is_legal is None:
            search.advance(3)
        legal &= search.is_legal
    return OK if legal else ILLEGAL


def compare(sequential, seeds) -> dict[str, int]:
    """Verdicts seen; fails at the first difference, with the history that shows it."""
    seen = {OK: 0, ILLEGAL: 0}
    for seed in seeds:
        rng = random.Random(seed)
        operations = random_case(sequential, rng)
        expected = OK if is_linearizable(sequential, operations) else ILLEGAL
        for options in ({}, {"prune": False}, {"split": False}):
            result = check(operations, sequential.model, clock=None, **options)
            assert result.verdict == expected, (seed, options, operations)
            if result.partitions:
                for engine in (FrontierSearch, SubsetSearch):
                    found = second_engine(operations, sequential, engine, **options)
                    assert found == expected, (seed, engine, options)
        seen[expected] += 1
    return seen


def first_seed(sequential) -> int:
    return zlib.crc32(type(sequential).__name__.encode()) << 32


@pytest.mark.parametrize("sequential", OBJECTS, ids=NAMES)
def test_verdicts_of_a_brute_force_checker(sequential):
    start = first_seed(sequential)
    seen = compare(sequential, range(start, start + QUICK_CASES))
    assert min(seen.values()) > QUICK_CASES // 20, "one verdict is hardly ever seen"


@pytest.mark.long
@pytest.mark.parametrize("sequential", OBJECTS, ids=NAMES)
def test_verdicts_of_a_brute_force_checker_on_many_histories(sequential):
    start = first_seed(sequential) + QUICK_CASES
    seen = compare(sequential, range(start, start + LONG_CASES))
    assert min(seen.values()) > LONG_CASES // 20


def test_a_default_that_no_answer_gave_refutes_no_legal_history():
    sequential = next(each for each in OBJECTS if each.model == "config-map")
    seen = {OK: 0, ILLEGAL: 0}
    for seed in range(QUICK_CASES):
        operations = random_case(sequential, random.Random(seed))
        unnamed = [
            msgspec.structs.replace(each, value=each.value[:2])
            if each.f in ("append", "subtract")
            else each
            for each in operations
        ]
        found = check(unnamed, "config-map", clock=None)
        for options in ({"prune": False}, {"split": False}):
            assert check(unnamed, "config-map", clock=None, **options).verdict == found.verdict
        if found.partitions:
            for engine in (FrontierSearch, SubsetSearch):
                assert second_engine(unnamed, sequential, engine) == found.verdict, (seed, engine)
        assert found.verdict == OK or not is_linearizable(sequential, operations), seed
        seen[found.verdict] += 1
    assert min(seen.values()) > QUICK_CASES // 20
