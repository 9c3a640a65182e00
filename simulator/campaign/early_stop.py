"""Early stop of a run, at an event or at a time, in any of its phases."""

import sys
from collections.abc import Callable
from itertools import repeat

from simulator.campaign.draw import Until
from simulator.cluster.instance_methods import replace_method
from simulator.cluster.scheduler import Scheduler


class ReachedError(Exception):
    """The event or the time is reached; nothing went wrong."""


def stop_at(scheduler: Scheduler, until: Until, event_count: Callable[[], int]) -> None:
    """Let the scheduler go no further than that from now on.

    Args:
        scheduler: the run's; its `run` raises ReachedError there, with the time at the end.
        until: an event, which still happens, or a time, what is due at it included.
        event_count: number of events so far.
    """
    run = scheduler.run

    def is_reached() -> bool:
        return until.event is not None and event_count() >= until.event

    def stepwise(end_us: int, count: int = sys.maxsize) -> bool:
        last_us = end_us if until.time_us is None else min(end_us, until.time_us)
        for _ in repeat(None, count):
            if is_reached():
                raise ReachedError
            if not run(last_us, 1):
                if until.time_us is not None and until.time_us <= end_us:
                    raise ReachedError
                return False
        return True

    replace_method(scheduler, "run", stepwise)
