"""Idle shares of a thread, of the last 30 s or more."""

from inspection.recorder import SAMPLE_NS
from node.records.thread_use import IdleShares, ThreadUse


class Thread:
    """A thread whose clocks a test sets."""

    def __init__(self) -> None:
        self.now_ns = 100
        self.cpu_ns = 0
        self.use = ThreadUse(lambda: self.now_ns, lambda: self.cpu_ns)

    def passes(self, now_ns: int, turns_ns: int, cpu_ns: int) -> IdleShares:
        self.now_ns += now_ns
        self.use.turns_ns += turns_ns
        self.cpu_ns += cpu_ns
        return self.use.idle()


def test_a_thread_that_has_just_begun_is_idle() -> None:
    assert Thread().use.idle() == (1, 1)


def test_a_short_time_counts_from_the_start() -> None:
    thread = Thread()
    assert thread.passes(100, 25, 50) == (0.75, 0.5)
    assert thread.passes(100, 25, 100) == (0.75, 0.25)


def test_what_is_older_than_the_sample_before_counts_no_more() -> None:
    thread, most = Thread(), SAMPLE_NS
    assert thread.passes(most - 1, most - 1, 0) == (0, 1)
    assert thread.passes(1, 1, 0) == (0, 1), "a first sample, from here on"
    assert thread.passes(most - 1, 0, 0).turns < 0.51, "since the start"
    assert thread.passes(1, 0, most // 2) == (1, 0.5), "since the first sample"
    assert thread.passes(most - 1, 0, 0).cpu > 0.7, "still since the first"
    assert thread.passes(1, 0, 0) == (1, 1), "since the second"


def test_turns_that_run_on_are_no_less_than_all_of_the_time() -> None:
    assert Thread().passes(10, 20, 10) == (0, 0)
