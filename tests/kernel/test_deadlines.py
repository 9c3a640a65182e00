"""Kept attributes of the parts of a node equal computed ones: deadlines, ends, activity."""

import pytest

from kernel.kernel import Kernel
from raft.epoch_cache import NO_EPOCH
from simulator.campaign.draw import Options
from simulator.campaign.run import run_seed
from simulator.checks.invariants import Invariants
from tests.kernel.deadlines import check_deadlines


def check_attributes(kernel):
    """Check the attributes that their writers keep against the state that they are derived from."""
    log, state = kernel.core._state.log, kernel.state
    at_start = log.start_offset == log.end_offset
    snapshot = log.latest_snapshot if at_start else None
    of_snapshot = snapshot is not None and snapshot.offset == log.start_offset
    known = [entry.epoch for entry in log.epochs] or [snapshot.epoch if of_snapshot else NO_EPOCH]
    assert log.last_epoch == known[-1]
    loader = kernel.loader
    assert loader.end_offset == loader._latest.provenance.end_offset
    controller = state.controller
    if controller is not None:
        assert controller.is_active == (controller._epoch is not None)
        batches = controller._batches
        assert controller.latest is (batches[-1].pending.image if batches else controller.committed)


@pytest.mark.parametrize("seed", [2, 5, 11])
def test_deadlines_are_right(monkeypatch, seed):
    settle = Kernel.settle
    seen = []

    def checked(kernel):
        effects = settle(kernel)
        check_attributes(kernel)
        check_deadlines(kernel)
        seen.append(kernel)
        return effects

    monkeypatch.setattr(Kernel, "settle", checked)
    found = run_seed(seed, Options(duration_us=20_000_000, write_count=60))
    assert found.invariant is None
    assert len(seen) > 1_000


@pytest.mark.parametrize("seed", [2, 5])
def test_what_was_committed_is_never_overlooked(monkeypatch, seed):
    settle = Kernel.settle

    def checked(kernel):
        state = kernel.state
        if not state.has_unpublished:
            assert not state._adopted
            assert kernel.loader.end_offset >= state._committed_end_offset
        return settle(kernel)

    monkeypatch.setattr(Kernel, "settle", checked)
    found = run_seed(seed, Options(duration_us=10_000_000, write_count=60))
    assert found.invariant is None


@pytest.mark.parametrize("seed", [2, 5, 7])
def test_the_checks_have_seen_every_step(monkeypatch, seed):
    after_step = Invariants.after_step
    steps = []

    def checked(invariants, machine, event):
        after_step(invariants, machine, event)
        past, kernel = invariants._past[machine.id], machine.kernel
        core = kernel.core
        role, end_offset = core.role, kernel.log.end_offset
        voted_id = None if role.voted_key is None else role.voted_key.id
        shown = (past.epoch, past.role, past.leader_id, past.voted_id)
        assert shown == (role.epoch, type(role), role.leader_id, voted_id)
        log = (past.log_end, past.generation, past.log_start, past.log_changes)
        start_offset, changes = core.log_start_offset, machine.vfs.log_changes
        assert log == (end_offset, core.log_generation, start_offset, changes)
        assert core.high_watermark in (None, past.high_watermark)
        assert past.applied == kernel.loader.end_offset
        steps.append(machine.id)

    monkeypatch.setattr(Invariants, "after_step", checked)
    found = run_seed(seed, Options(duration_us=10_000_000, write_count=60))
    assert found.invariant is None
    assert len(steps) > 1_000
