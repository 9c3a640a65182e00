"""The longest turn: kept always, told rarely."""

import math

from broker.effects import Log, LogLevel
from broker.events import StopRequested, TimeAdvanced
from inspection.recorder import SAMPLE_NS
from node.records.longest_turn import NS_PER_MS, TOLD_NS, LongestTurn

EVENTS = [TimeAdvanced(), StopRequested(), TimeAdvanced()]


def told(cpu_ms: int) -> Log:
    fields = {"cpu_ms": cpu_ms, "events": {"TimeAdvanced": 2, "StopRequested": 1}}
    return Log(LogLevel.INFO, "long_turn_of_records", fields)


def test_the_longest_turn_is_kept() -> None:
    times_ns = [0]
    longest = LongestTurn(lambda: times_ns[0])
    assert math.isnan(longest.newest_ns())
    for cpu_ns in (3, 5, 4):
        assert longest.ended(cpu_ns, EVENTS) is None
    assert (longest.cpu_ns, longest.newest_ns()) == (5, 5)
    times_ns[0] = 2 * SAMPLE_NS - 1
    assert longest.newest_ns() == 5
    times_ns[0] += 1
    assert longest.ended(2, EVENTS) is None
    assert (longest.cpu_ns, longest.newest_ns()) == (5, 2)


def test_a_long_turn_is_told_and_then_one_that_is_twice_as_long() -> None:
    longest = LongestTurn()
    first_ms = TOLD_NS // NS_PER_MS
    assert longest.ended(TOLD_NS - 1, EVENTS) is None
    assert longest.ended(TOLD_NS, EVENTS) == told(first_ms)
    assert longest.ended(2 * TOLD_NS - 1, EVENTS) is None
    assert longest.cpu_ns == 2 * TOLD_NS - 1
    assert longest.ended(2 * TOLD_NS, EVENTS) == told(2 * first_ms)
    assert longest.ended(4 * TOLD_NS - 1, EVENTS) is None
