"""Runs that are stopped early, in every phase."""

import pytest

from simulator.campaign.draw import Options, Until
from simulator.campaign.early_stop import ReachedError, stop_at
from simulator.campaign.run import run_seed
from simulator.cluster.scheduler import Scheduler

FAST = Options(node_count=1, observer_count=0, duration_us=4_000_000, write_count=15)
"""A node that is alone: a tenth of the events."""


def test_a_run_stops_at_an_event_behind_the_faults() -> None:
    whole = run_seed(1, FAST)
    assert whole.is_complete
    duration_us = whole.settings.duration_us
    last = whole.event_count - 1
    stopped = run_seed(1, FAST, until=Until(event=last))
    assert not stopped.is_complete
    assert (stopped.invariant, stopped.event_count) == (None, last)
    assert stopped.at_us > duration_us


def test_a_run_stops_at_a_time_behind_the_faults() -> None:
    time_us = FAST.duration_us + 1_500_000
    stopped = run_seed(1, FAST, until=Until(time_us=time_us))
    assert (stopped.is_complete, stopped.at_us) == (False, time_us)


def test_a_run_that_ends_before_is_the_whole_one() -> None:
    whole = run_seed(2, FAST)
    for until in (Until(event=10**9), Until(time_us=10**12)):
        outcome = run_seed(2, FAST, until=until)
        assert outcome.is_complete
        assert (outcome.digest, outcome.event_count) == (whole.digest, whole.event_count)


def test_what_is_due_at_the_time_still_happens() -> None:
    scheduler, seen = Scheduler(), []
    for time_us in (5, 10, 11):
        scheduler.at(time_us, lambda time_us=time_us: seen.append(time_us))
    stop_at(scheduler, Until(time_us=10), lambda: 0)
    assert not scheduler.run(7)
    with pytest.raises(ReachedError):
        scheduler.run(20)
    assert (seen, scheduler.now_us) == ([5, 10], 10)
