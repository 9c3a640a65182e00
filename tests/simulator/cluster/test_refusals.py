"""Refusals that a client takes for certain, and those that may be of a request's second time."""

from msgspec.structs import replace

from simulator.campaign.draw import SHORT
from simulator.campaign.run import run_seed


def test_a_refusal_behind_an_election_says_nothing_of_the_first_time():
    """The first leader is cut off with the topic, and leads again: its second answer refuses it."""
    options = replace(SHORT, faults=("depose_leader",), node_count=4, draws=2)
    outcome = run_seed(1_000_099, options)
    assert outcome.invariant is None, outcome.text
    assert outcome.elections >= 3
