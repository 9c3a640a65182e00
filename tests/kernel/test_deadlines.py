"""Kept attributes of the parts of a node equal computed ones: deadlines, ends, activity."""

import pytest

from kernel.kernel import Kernel
from raft.fetching.epoch_cache import NO_EPOCH
from simulator.campaign.draw import Options
from simulator.campaign.run import run_seed
from simulator.checks.invariants import Invariants
from tests.kernel.deadlines import check_deadlines
from tests.selection import thinned


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


def check_commits(kernel):
    """Whatever was committed before this step has been taken, unless it is to be published."""
    state = kernel.state
    if not state.has_unpublished:
        assert not state._adopted
        assert kernel.loader.end_offset >= state._committed_end_offset


def check_sight(invariants, machine):
    """The checks of the simulator have seen the node as it is after this step."""
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


@pytest.mark.parametrize(("seed", "duration_s"), thinned([(2, 10), (5, 20), (7, 20), (11, 20)], 4))
def test_what_is_kept_is_right_at_every_step(monkeypatch, seed, duration_s):
    settle, after_step = Kernel.settle, Invariants.after_step
    settled, steps = [], []

    def checked(kernel):
        check_commits(kernel)
        effects = settle(kernel)
        check_attributes(kernel)
        check_deadlines(kernel)
        settled.append(kernel)
        return effects

    def seen(invariants, machine, event):
        after_step(invariants, machine, event)
        check_sight(invariants, machine)
        steps.append(machine.id)

    monkeypatch.setattr(Kernel, "settle", checked)
    monkeypatch.setattr(Invariants, "after_step", seen)
    found = run_seed(seed, Options(duration_us=duration_s * 1_000_000, write_count=60))
    assert found.invariant is None
    assert min(len(settled), len(steps)) > 1_000
