"""The recorder over recorded numbers, and over real replicas in virtual time."""

import math

import pytest

from inspection.recorder import KEPT, SAMPLE_NS, Histogram, Recorder, Window
from raft.core import RaftCore
from tests.kernel.harness import World

S = 1_000_000_000
MS = 1_000_000


def test_a_window_without_values_has_no_average_and_no_highest() -> None:
    window = Window(0)
    assert math.isnan(window.average(S))
    assert math.isnan(window.highest(S))
    assert window.per_second(S) == 0


def test_a_window_keeps_values_for_two_samples_at_most() -> None:
    window = Window(0)
    window.add(4, 1 * S)
    window.add(8, 2 * S)
    assert (window.average(3 * S), window.highest(3 * S)) == (6, 8)
    window.add(3, 31 * S)  # a second sample begins
    assert (window.average(32 * S), window.highest(32 * S)) == (5, 8)
    window.add(1, 62 * S)  # a third: the first is gone
    assert (window.average(63 * S), window.highest(63 * S)) == (2, 3)
    assert math.isnan(window.average(200 * S))


def test_values_after_a_long_silence_stand_alone() -> None:
    window = Window(0)
    window.add(100, 1 * S)
    window.add(2, 500 * S)
    assert (window.total(500 * S), window.highest(500 * S)) == (2, 2)


@pytest.mark.parametrize(
    ("at_s", "expected"), [(10, 300 / 40), (29, 300 / 59), (40, 300 / 40), (59, 300 / 59)]
)
def test_a_rate_is_by_the_time_of_its_samples(at_s: int, expected: float) -> None:
    window = Window(0)
    window.add(300, 1 * S)
    if at_s >= 30:
        window.add(0, 30 * S)
    assert window.per_second(at_s * S) == pytest.approx(expected)


def test_a_rate_is_zero_again_when_nothing_comes() -> None:
    window = Window(0)
    window.add(300, 1 * S)
    assert window.per_second(10 * SAMPLE_NS) == 0


def test_quantiles_are_interpolated_as_in_kafka() -> None:
    histogram = Histogram()
    assert histogram.quantiles((0.5, 0.99)) == [0, 0]
    histogram.add_all(range(1, 101))
    assert histogram.quantiles((0.5, 0.75, 0.95, 0.99, 0.999)) == pytest.approx(
        [50.5, 75.75, 95.95, 99.99, 100]
    )
    histogram.add_all([7] * KEPT)
    assert histogram.quantiles((0.0, 1.0)) == [7, 7]
    histogram.add(9)
    assert histogram.quantiles((0.0, 1.0)) == [7, 9]
    assert histogram.count == 100 + KEPT + 1


def test_queue_times_turns_and_idleness() -> None:
    recorder = Recorder(0)
    recorder.taken([1 * S, 2 * S, 2 * S], 3 * S)
    recorder.worked(core_of(World(1)), 3 * S, 5 * S)
    assert recorder.queue_ns.count == 3
    assert recorder.queue_ns.quantiles((0.5,)) == [1 * S]
    assert recorder.turn_ns.quantiles((0.5,)) == [2 * S]
    assert recorder.idle_ratio(10 * S) == pytest.approx(0.8)
    assert Recorder(0).idle_ratio(0) == 1


def core_of(world: World) -> RaftCore:
    """The replica of the first node, just started."""
    world.start_all()
    return world.kernel(1).core


class Observed:
    """A world of three whose replicas are observed after every step of time."""

    def __init__(self) -> None:
        self.world = World(3)
        self.recorders = {node_id: Recorder(0) for node_id in (1, 2, 3)}
        self.world.start_all()

    def run_until(self, condition) -> None:
        def observed() -> bool:
            self.observe()
            return condition()

        self.world.run_until(observed)
        self.observe()

    def observe(self) -> None:
        now_ns = self.now_ns
        for node_id in self.world.alive:
            core = self.world.kernel(node_id).core
            self.recorders[node_id].observe(core, now_ns, now_ns)

    @property
    def now_ns(self) -> int:
        return self.world._now().monotonic_ms * MS


def test_a_quorum_of_three_appends_fetches_and_commits() -> None:
    observed = Observed()
    world = observed.world
    observed.run_until(world.is_ready)
    leader = world.active()
    assert leader is not None
    now_ns = observed.now_ns
    kernel = world.kernel(leader)
    by_id = observed.recorders
    assert by_id[leader].appended_records.total(now_ns) == kernel.core.log_end_offset
    assert by_id[leader].fetched_records.total(now_ns) == 0
    assert 1 * MS <= by_id[leader].commit_ns.average(now_ns) <= 2000 * MS
    for follower in {1, 2, 3} - {leader}:
        end_offset = world.kernel(follower).core.log_end_offset
        assert by_id[follower].fetched_records.total(now_ns) == end_offset
        assert by_id[follower].appended_records.total(now_ns) == 0
        assert math.isnan(by_id[follower].commit_ns.average(now_ns))
    assert by_id[leader].election_ns.average(now_ns) >= 1 * MS, "votes travel"


def test_every_new_leader_is_counted_and_no_leader_is_not() -> None:
    observed = Observed()
    world = observed.world
    observed.run_until(world.is_ready)
    first = world.active()
    assert first is not None
    before = {node_id: recorder.leaders_seen for node_id, recorder in observed.recorders.items()}
    assert set(before.values()) == {1}
    world.kill(first)
    observed.run_until(lambda: world.active() not in (None, first))
    second = world.active()
    assert second is not None
    assert observed.recorders[second].leaders_seen == 2
    assert observed.recorders[first].leaders_seen == 1


def test_what_an_old_leader_did_not_commit_is_no_commit_of_the_new_one() -> None:
    observed = Observed()
    world = observed.world
    observed.run_until(world.is_ready)
    leader = world.active()
    assert leader is not None
    for other in {1, 2, 3} - {leader}:
        world.pause(other)
    recorder = observed.recorders[leader]
    commits = recorder.commit_ns.total(observed.now_ns)
    core = world.kernel(leader).core
    committed = core.high_watermark
    observed.run_until(lambda: not core.is_leader)
    assert committed is not None
    assert committed < core.log_end_offset
    assert recorder.commit_ns.total(observed.now_ns) == commits
    assert not recorder._uncommitted
