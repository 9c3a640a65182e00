"""Mutants of the data plane die by the invariant that they break."""

import pytest

from simulator.mutants.records import RECORDS
from simulator.records.run import run_records
from simulator.scenarios import scenario
from tests.selection import thinned
from tests.test_tidy import ROOT

BY_SEEDS = [mutant for mutant in RECORDS if mutant.scenario is None]
BY_SCENARIOS = [mutant for mutant in RECORDS if mutant.scenario is not None]


@pytest.mark.parametrize("mutant", thinned(BY_SEEDS, every=4), ids=lambda mutant: mutant.name)
def test_a_mutant_dies(mutant):
    with mutant.apply() as patches:
        outcomes = (run_records(seed, mutant.options) for seed in range(1, mutant.seeds_max + 1))
        found = next((one for one in outcomes if one.invariant is not None), None)
    assert found is not None, f"{mutant.text} survived {mutant.seeds_max} seeds"
    assert found.invariant in mutant.expected, found.text
    assert not patches.unreached


@pytest.mark.parametrize("mutant", BY_SCENARIOS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_what_a_scenario_says(mutant):
    path = ROOT / "tests" / "scenarios" / "records" / f"{mutant.scenario}.txt"
    with mutant.apply() as patches:
        assert scenario.difference(path) != "", mutant.text
    assert not patches.unreached


def test_numbers_and_names_are_unique():
    assert len({mutant.number for mutant in RECORDS}) == len(RECORDS)
    assert len({mutant.name for mutant in RECORDS}) == len(RECORDS)
