"""Transfers of the leadership as faults: who is asked, for whom, and what comes of it."""

import pytest
from msgspec.structs import replace

from simulator.campaign.draw import SHORT, Options
from simulator.campaign.run import prepare, run_seed

ONLY = replace(SHORT, faults=("transfer",), node_count=3)


def test_the_voter_of_the_plan_is_elected_unless_it_leads():
    _, _, plan = prepare(4, ONLY)
    leaders = {}
    for number in (1, 2, 3):
        outcome = run_seed(4, ONLY, plan=[replace(plan[0], targets=(number,))])
        assert outcome.invariant is None, outcome.text
        assert outcome.marks["leadership_transferred"] == 1
        assert outcome.elections == 2
        leaders[number] = outcome.nodes[0].leader
    moved = [number for number, leader in leaders.items() if number == leader]
    assert len(moved) == 2, leaders


@pytest.mark.parametrize("count", [1, 3])
def test_a_sole_voter_has_nobody_to_hand_over_to(count):
    outcome = run_seed(3, Options(faults=("transfer",), node_count=count, duration_us=5_000_000))
    assert outcome.faults["transfer"] > 0
    assert bool(outcome.effective_faults.get("transfer")) is (count > 1)


def test_what_cannot_be_waited_for_is_given_up():
    options = replace(SHORT, faults=("transfer", "lost_messages", "full_link"), node_count=3)
    outcome = run_seed(7, options)
    assert outcome.invariant is None, outcome.text
    assert outcome.marks["transfer_given_up"] > 0
