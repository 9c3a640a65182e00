"""Liveness of sessions: a broker whose heartbeats do not arrive is fenced in bounded time.

Checked where a core has one active controller for a while and the rest is down or mute. Time is
that controller's own; a run that is too short for the session time-out shows nothing.
"""

from typing import Final

import msgspec

from simulator.checks.violation import Violation
from simulator.cluster.machine import Machine
from simulator.cluster.world import World
from wire.types import NodeId

COMMITTED_WITHIN_MS: Final = 500
"""Time from the end of a session to the commit of its record, for each broker in turn."""


class Reign(msgspec.Struct, frozen=True):
    """An active controller, and when it was seen by its own clock."""

    number: int
    epoch: int
    seen_ms: int


def reign_of(world: World) -> Reign | None:
    """Active controller with the newest epoch; None if there is none."""
    active = [machine for machine in world.machines.values() if _is_active(machine)]
    if not active:
        return None
    machine = max(active, key=_epoch_of)
    return Reign(machine.id, _epoch_of(machine), machine.now().monotonic_ms)


def check_silent(world: World, silent: tuple[int, ...], since: Reign | None) -> None:
    """Check that nodes silent since a reign was seen are fenced, if it lasted long enough.

    Raises:
        Violation: `liveness`: one is not fenced.
    """
    now = reign_of(world)
    if since is None or now is None or (now.number, now.epoch) != (since.number, since.epoch):
        return
    brokers = [number for number in silent if world.machines[number].config.is_broker]
    lasted_ms = now.seen_ms - since.seen_ms
    session_ms = world.settings.session_timeout_ms
    if not brokers or lasted_ms < session_ms + COMMITTED_WITHIN_MS * len(brokers):
        return
    known = world.ledger.image.brokers
    for number in brokers:
        broker = known.get(NodeId(number))
        if broker is not None and not broker.fenced:
            text = f"node {number} is silent for {lasted_ms} ms, its session is {session_ms} ms"
            raise Violation("liveness", f"{text}, and it is not fenced")
    world.probes.hit("silent_broker_fenced")


def _is_active(machine: Machine) -> bool:
    return machine.kernel is not None and machine.kernel.state.is_active


def _epoch_of(machine: Machine) -> int:
    assert machine.kernel is not None
    return int(machine.kernel.core.epoch)
