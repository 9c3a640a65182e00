"""Leadership as processes see it, and the epochs they know."""

from collections.abc import Iterable

from simulator.cluster.machine import Machine


def leads(machine: Machine) -> bool:
    """True if its process considers itself the leader."""
    return machine.kernel is not None and machine.kernel.core.is_leader


def epoch_of(machine: Machine) -> int:
    """Epoch of its process, -1 without one."""
    return -1 if machine.kernel is None else int(machine.kernel.core.epoch)


def has_newer_epoch(machines: Iterable[Machine], epoch: int, *, by_leader: bool) -> bool:
    """True if any process knows a later epoch, or leads one; called often."""
    for machine in machines:
        if machine.kernel is not None:
            core = machine.kernel.core
            if core.epoch > epoch and (core.is_leader or not by_leader):
                return True
    return False
