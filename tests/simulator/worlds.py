"""A small quiet cluster to tamper with: three combined nodes, no faults, one virtual second."""

import pytest
from msgspec.structs import replace

from kernel import events
from simulator.campaign.draw import Options, draw_settings
from simulator.checks.raft.log_mirror import FOLDER, QUORUM_STATE
from simulator.checks.violation import Violation
from simulator.cluster.streams import Streams
from simulator.cluster.world import World
from simulator.faults.decision import Decision
from storage.log_dir.quorum_state_file import ElectionState, QuorumStateFile
from wire.batches.batch import encode_batch
from wire.types import NodeId, ReplicaKey

NOW_MS = 1_700_000_000_000
SECOND_US = 1_000_000

QUIET = Options(node_count=3, observer_count=1, faults=(), duration_us=1_000_000, write_count=8)
BUSIER = {"duration_us": 2_000_000, "write_count": 12}
"""For `quiet_world`: more requests, and time for snapshots."""


def quiet_settings(**more):
    streams = Streams(1)
    drawn = draw_settings(1, streams.stream("draw"), streams.stream("rare"), QUIET)
    plain = {
        "is_combined": True,
        "delay_us": 200,
        "delay_mean_us": 100,
        "flush_us": 100,
        "flush_mean_us": 50,
        "election_timeout_ms": 200,
        "fetch_timeout_ms": 2_000,
        "fetch_bytes_max": 1 << 20,
        "segment_bytes": 1 << 30,
        "record_bytes_between_snapshots": 1 << 40,
        "clock_rate_ppm_max": 0,
        "flush_reported_late_us": 0,
        "begin_epoch_late_us": 0,
        "has_extreme_timeouts": False,
        "loses_first_vote": False,
        "asks_minimal_quorum": False,
    }
    return replace(drawn, **(plain | more))


def quiet_world(plan=(), **more):
    """A world that has run its second."""
    settings = quiet_settings(**more)
    world = World(settings, Streams(1), list(plan))
    world.start()
    world.run(settings.duration_us)
    return world


def leader(world):
    return next(m for m in world.machines.values() if m.kernel and m.kernel.state.is_active)


def follower(world):
    led = leader(world).id
    return next(m for m in world.machines.values() if m.id != led and m.id in world.voters)


def observer(world):
    return next(m for m in world.machines.values() if m.id not in world.voters)


def look(world, machine):
    """Check this node as after a step."""
    world.invariants.after_step(machine, events.TimeAdvanced())


def past_of(world, machine):
    """Past of a node, to be changed: all of it is compared at the next step."""
    past = world.invariants._past[machine.id]
    past.shown = None
    return past


def state_of(machine):
    return machine.kernel.core._state


def log_of(machine):
    return machine.kernel.log


def broken(world, machine, invariant):
    with pytest.raises(Violation) as caught:
        look(world, machine)
    assert caught.value.invariant == invariant, str(caught.value)
    assert f"node {machine.id}: " in str(caught.value)
    return str(caught.value)


def store(machine, epoch, leader_id=None, voted_id=None):
    voted = None if voted_id is None else ReplicaKey(NodeId(voted_id), None)
    QuorumStateFile(machine.vfs, FOLDER).write(ElectionState(epoch, leader_id, voted))
    assert machine.vfs.durable_content(QUORUM_STATE) is not None


def append(machine, epoch, value=b"made up"):
    """One batch behind everybody's back."""
    log = log_of(machine)
    log.append(encode_batch([value], log.end_offset, epoch, NOW_MS), log.end_offset)


def strike(world, kind, *machines, amount=1, length_us=SECOND_US):
    """A fault of this kind happens to machines now."""
    decision = Decision(
        at_us=world.scheduler.now_us,
        kind=kind,
        targets=tuple(machine.id for machine in machines),
        length_us=length_us,
        amount=amount,
    )
    world.nemesis._fire(decision)


def run_on(world, length_us):
    world.run(world.scheduler.now_us + length_us)
