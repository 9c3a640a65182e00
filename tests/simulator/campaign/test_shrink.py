"""Delta debugging over plans: made-up failures with a known smallest cause."""

import functools

import pytest
from msgspec.structs import replace

from simulator.campaign.draw import Options
from simulator.campaign.run import run_seed
from simulator.campaign.shrink import Shrinker
from simulator.faults.decision import Decision


@functools.cache
def passed():
    """An outcome to be changed."""
    return run_seed(1, Options(node_count=3, faults=(), duration_us=1_000, write_count=0))


def decision(number, kind="kill", targets=(1,)):
    return Decision(at_us=1_000 * number, kind=kind, targets=targets, length_us=5)


def failing(plan, options, invariant="I7", at_us=500_000):
    return replace(
        passed(), invariant=invariant, text="made up", at_us=at_us, plan=plan,
        settings=replace(
            passed().settings,
            voter_count=options.node_count or 5,
            observer_count=2 if options.observer_count is None else options.observer_count,
        ),
    )  # fmt: skip


def runner(fails, runs):
    """A run that fails with what `fails(options, plan)` gives."""

    def run(options, plan):
        runs.append(plan)
        invariant = fails(options, plan)
        return failing(plan, options, invariant)

    return run


def shrink(plan, fails, is_over=lambda: False, **more):
    runs, options = [], Options(duration_us=600_000)
    shrinker = Shrinker(failing(plan, options, **more), options, runner(fails, runs), is_over)
    return shrinker.shrink(), runs


PLAN = [decision(number) for number in range(1, 33)]


def test_two_faults_that_are_needed_are_found_among_many():
    needed = {PLAN[4], PLAN[27]}
    shrunk, runs = shrink(PLAN, lambda _, plan: "I7" if needed <= set(plan) else None)
    assert shrunk.plan == [PLAN[4], PLAN[27]]
    assert shrunk.outcome.invariant == "I7"
    assert shrunk.run_count == len(runs) < 120


def test_what_comes_after_the_failure_goes_at_once():
    late = [*PLAN, decision(900)]
    _, runs = shrink(late, lambda _, plan: "I7" if plan else None)
    assert runs[0] == PLAN


def test_another_invariant_is_another_bug():
    def fails(_, plan):
        return "I7" if PLAN[3] in plan else "I10"

    shrunk, _ = shrink(PLAN, fails)
    assert shrunk.plan == [PLAN[3]]


def test_writes_and_duration_go_down():
    def fails(options, _):
        return "I7" if options.write_count >= 20 and options.duration_us >= 100_000 else None

    shrunk, _ = shrink([], fails, at_us=599_000)
    assert shrunk.options.write_count == 20
    assert shrunk.options.think_us == passed().settings.think_us
    assert shrunk.options.duration_us <= 600_000


def test_nodes_that_are_not_needed_go_with_the_faults_that_hit_them():
    plan = [decision(1, "partition", (1, 4, 101)), decision(2, "kill", (5,))]

    def fails(_, kept):
        return "I7" if any(1 in d.targets for d in kept) else None

    shrunk, _ = shrink(plan, fails)
    assert (shrunk.options.node_count, shrunk.options.observer_count) == (1, 0)
    assert shrunk.plan == [decision(1, "partition", (1,))]


def test_the_budget_ends_the_search_with_the_best_so_far():
    left = iter(range(5))
    shrunk, runs = shrink(
        PLAN, lambda _, plan: "I7" if plan else None, is_over=lambda: next(left, None) is None
    )
    assert len(runs) <= 5
    assert 0 < len(shrunk.plan) < len(PLAN)


def test_nothing_to_shrink_where_nothing_failed():
    with pytest.raises(AssertionError, match="nothing failed"):
        Shrinker(passed(), Options(), lambda options, plan: passed())


@pytest.mark.parametrize("needed", [0, 1, 7, 13, 200])
def test_as_few_writes_as_it_takes_are_left(needed):
    def fails(options, _):
        return "I7" if options.write_count >= needed else None

    shrunk, runs = shrink([], fails)
    assert shrunk.options.write_count == needed
    assert len(runs) < 30


def test_a_fault_is_no_longer_and_no_stronger_than_it_takes():
    plan = [replace(decision(5, targets=(1, 2, 3)), length_us=900_000, amount=40)]

    def fails(_, left):
        it = left[0] if left else decision(1)
        is_enough = it.length_us >= 300_000 and it.amount >= 11 and 2 in it.targets
        return "I7" if is_enough else None

    (kept,) = shrink(plan, fails)[0].plan
    assert 300_000 <= kept.length_us <= 300_001
    assert kept.amount == 11
    assert 2 in kept.targets
    assert len(kept.targets) <= 2


def test_an_even_number_of_voters_is_tried_too():
    def fails(options, _):
        return "I7" if (options.node_count or 5) in (2, 5) else None

    assert shrink([], fails)[0].options.node_count == 2
