"""Mutants of the data plane die by the invariant that they break, or change a scenario."""

import pytest

from simulator.mutants.hunt import BASES, hunt
from simulator.mutants.records import RECORDS
from tests.selection import thinned


@pytest.mark.parametrize("mutant", thinned(RECORDS, every=16), ids=lambda mutant: mutant.name)
def test_a_mutant_dies(mutant):
    found = hunt(mutant.number, BASES[0], seconds_max=120.0)
    assert found.invariant in mutant.expected, found


def test_there_are_enough():
    assert len(RECORDS) >= 40
