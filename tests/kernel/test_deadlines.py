"""Deadlines that the parts of a node remember are those that they would compute anew."""

import pytest

from kernel.kernel import Kernel
from simulator.draw import Options
from simulator.run import run_seed


def forget_deadlines(kernel):
    kernel._clock.timers_moved = True
    kernel.peers._is_deadline_known = False
    kernel.state._is_deadline_known = False
    kernel.connections._oldest = None
    kernel.replica.core._is_deadline_known = False


@pytest.mark.parametrize("seed", [2, 5, 11])
def test_remembered_deadlines_are_right(monkeypatch, seed):
    earliest_deadline_ms = Kernel._earliest_deadline_ms
    seen = []

    def checked(kernel):
        remembered_ms = earliest_deadline_ms(kernel)
        each_ms = [part.next_deadline_ms() for part in kernel._timed]
        forget_deadlines(kernel)
        assert [part.next_deadline_ms() for part in kernel._timed] == each_ms
        assert earliest_deadline_ms(kernel) == remembered_ms
        seen.append(remembered_ms)
        return remembered_ms

    monkeypatch.setattr(Kernel, "_earliest_deadline_ms", checked)
    found = run_seed(seed, Options(duration_us=20_000_000, write_count=60))
    assert found.invariant is None
    assert len(seen) > 1_000


@pytest.mark.parametrize("seed", [2, 5])
def test_what_was_committed_is_never_overlooked(monkeypatch, seed):
    settle = Kernel.settle

    def checked(kernel):
        state = kernel.state
        if not state.has_news:
            assert not state._adopted
            assert state.loader.end_offset >= state._committed_end_offset
        return settle(kernel)

    monkeypatch.setattr(Kernel, "settle", checked)
    found = run_seed(seed, Options(duration_us=10_000_000, write_count=60))
    assert found.invariant is None
