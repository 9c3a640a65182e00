"""Who takes itself for the leader, and which epochs processes know."""

from collections.abc import Iterable

from simulator.cluster.machine import Machine


def leads(machine: Machine) -> bool:
    """Whether its process takes itself for the leader."""
    return machine.kernel is not None and machine.kernel.replica.core.is_leader


def epoch_of(machine: Machine) -> int:
    """The epoch of its process, -1 without one."""
    return -1 if machine.kernel is None else int(machine.kernel.replica.core.epoch)


def has_newer_epoch(machines: Iterable[Machine], epoch: int, *, by_leader: bool) -> bool:
    """Whether any process knows an epoch behind this one, or leads one; asked often."""
    for machine in machines:
        if machine.kernel is not None:
            core = machine.kernel.replica.core
            if core.epoch > epoch and (core.is_leader or not by_leader):
                return True
    return False
