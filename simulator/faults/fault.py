"""Type of the functions that carry out faults, and the reach that they have."""

from collections.abc import Callable

import msgspec

from simulator.campaign.probes import Probes
from simulator.cluster.machine import Machine
from simulator.cluster.network import Network
from simulator.cluster.scheduler import Scheduler
from simulator.faults.decision import Decision
from simulator.faults.disk_damage import DiskDamages
from simulator.faults.impact import Impact
from simulator.faults.lost_messages import LostMessages


class Roles(msgspec.Struct):
    """Changes of roles, for faults that wait for one."""

    changes: int = 0
    """Number of times that a node was seen with another role than before."""


class Reach(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Objects that a fault may touch, and the state kept between two faults of one run."""

    scheduler: Scheduler
    network: Network
    machines: dict[int, Machine]
    probes: Probes
    damages: DiskDamages
    lost: LostMessages
    client_hosts: tuple[int, ...]
    slow_disks: dict[int, int]
    """Machine -> factor on the time of its flushes."""
    unwritable: set[int]
    """Voters whose disk refuses a write, until they are started again."""
    restart: Callable[[Machine], None]
    """Starts a process where none runs."""
    on_wiped: Callable[[Machine], None]
    """Called with a machine that has an empty disk now."""
    is_over: Callable[[], bool]
    """True when all faults are over."""
    roles: Roles
    carry_out: Callable[[Decision], Impact | None]
    """Carries out one more fault, as if it were in the plan."""

    def later(self, decision: Decision, action: Callable[[], None]) -> None:
        """Act when a decision is over, unless all faults are."""
        self.after(decision.length_us, action)

    def after(self, delay_us: int, action: Callable[[], None]) -> None:
        """Act after a time, unless all faults are over by then."""

        def act() -> None:
            if not self.is_over():
                action()

        self.scheduler.after(delay_us, act)

    def restart_later(self, decision: Decision, machine: Machine) -> None:
        """Start a process, if none runs, when a decision is over."""
        self.later(decision, lambda: self.restart(machine))

    def restart_within(self, delay_us: int, machine: Machine) -> None:
        """Start a process, if none runs, after a time of its own."""
        self.after(delay_us, lambda: self.restart(machine))

    def links(self) -> list[tuple[int, int]]:
        """Links from every machine to every other, in a fixed order."""
        ids = sorted(self.machines)
        return [(a, b) for a in ids for b in ids if a != b]


CarryingOut = Callable[[Reach, Decision, list[Machine]], Impact | None]
"""Carries out a fault and returns its impact, None for nothing."""
