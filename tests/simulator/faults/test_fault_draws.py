"""Faults with a stream of their own: who gets one, and that it shifts no other seed."""

import functools

import pytest
from msgspec.structs import replace

from simulator.campaign.draw import VARIATIONS, Options
from simulator.campaign.run import prepare, run_seed, settings_of
from simulator.campaign.schedule import Schedule, read_schedule, write_schedule
from simulator.campaign.shrink import Shrinker
from simulator.faults.kinds import kinds_since
from tests.selection import thinned

FAST = Options(duration_us=4_000_000, write_count=15)


ADDED_IN_4, ADDED_IN_5 = kinds_since(4), kinds_since(5)
NEW = {4: ADDED_IN_4, 5: (*ADDED_IN_5, *VARIATIONS), 8: kinds_since(8), 9: kinds_since(9)}


@functools.cache
def run_of_seed_4(kind):
    """The run of two tests with nothing but one kind of fault."""
    return run_seed(4, replace(FAST, faults=(kind,)))


def has_any(seed, names):
    return bool(set(settings_of(seed, FAST)[0].faults) & set(names))


def test_each_is_on_in_one_of_twelve_seeds_and_one_of_draws_4_in_a_third():
    on = [set(settings_of(seed, Options())[0].faults) for seed in range(1_200)]
    for name in (*NEW[4], *NEW[5], *NEW[8], *NEW[9]):
        assert 70 <= sum(name in each for each in on) <= 130
    assert 350 <= sum(bool(each & set(ADDED_IN_4)) for each in on) <= 490


@pytest.mark.parametrize("draws", [4, 5, 8, 9])
def test_a_seed_without_them_is_the_same_plan_as_before(draws):
    count, new = 0, NEW[draws]
    for seed in range(60):
        settings, _, plan = prepare(seed, Options(draws=draws))
        before, _, earlier = prepare(seed, Options(draws=draws - 1))
        if not set(settings.faults) & set(VARIATIONS):
            kept = tuple(name for name in settings.faults if name not in new)
            assert replace(settings, faults=kept) == before
            assert [decision for decision in plan if decision.kind not in new] == earlier
            count += 1
    assert count > 30


SEEDS_WITHOUT = [
    (seed, draws)
    for draws, new in NEW.items()
    for seed in range(700, 730)
    if not has_any(seed, new)
]


@pytest.mark.parametrize(("seed", "draws"), thinned(SEEDS_WITHOUT, 100))
def test_a_seed_without_them_has_the_digest_that_it_had(seed, draws):
    now, before = (run_seed(seed, replace(FAST, draws=each)) for each in (draws, draws - 1))
    assert (now.digest, now.event_count) == (before.digest, before.event_count)


@pytest.mark.parametrize("kind", ["restart_storm", *ADDED_IN_5])
def test_they_need_no_draw_to_be_asked_for(kind):
    settings, _, plan = prepare(1, Options(faults=(kind,), draws=1))
    assert settings.faults == (kind,)
    assert {decision.kind for decision in plan} == {kind}


@pytest.mark.parametrize("kind", thinned([*NEW[4], *NEW[5]], 4))
def test_a_seed_with_nothing_but_one_of_them_holds(kind):
    outcome = run_of_seed_4(kind)
    assert outcome.invariant is None, outcome.text
    assert set(outcome.faults) == {kind} - set(VARIATIONS)
    assert all(count > 0 for count in outcome.faults.values())


@pytest.mark.parametrize("kind", thinned(ADDED_IN_5, 8))
def test_a_schedule_repeats_them(kind, tmp_path):
    options = replace(FAST, faults=(kind,))
    before = run_of_seed_4(kind)
    path = tmp_path / "run.jsonl"
    write_schedule(path, Schedule(seed=4, options=options, plan=before.plan))
    found = read_schedule(path)
    assert run_seed(4, found.options, plan=found.plan).digest == before.digest


@pytest.mark.long
@pytest.mark.parametrize("kind", ADDED_IN_5)
def test_a_failure_by_them_is_made_smaller(kind):
    """One that wants nothing but that such a fault does something."""
    options = replace(FAST, faults=(kind,), write_count=3)

    def run(tried, plan):
        outcome = run_seed(4, tried, plan=plan)
        assert outcome.invariant is None, outcome.text
        return replace(outcome, invariant="I7" if outcome.effective_faults.get(kind) else None)

    failed = run(options, prepare(4, options)[2])
    shrunk = Shrinker(failed, options, run).shrink()
    (left,) = shrunk.plan
    assert (left.kind, left.amount, len(left.targets)) == (kind, 1, 1)
