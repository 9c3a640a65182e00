"""The nemesis, which carries out the decisions of a plan (simulator/faults/plan.py)."""

from collections.abc import Callable, Mapping
from functools import partial
from random import Random

from simulator.campaign.probes import Probes
from simulator.cluster.machine import Machine
from simulator.cluster.network import Network
from simulator.cluster.scheduler import Scheduler
from simulator.faults.decision import Decision
from simulator.faults.disk_damage import DiskDamages
from simulator.faults.disks import end_disk_faults, keep_disk_faults
from simulator.faults.fault import CarryingOut, Reach, Roles
from simulator.faults.impact import Impact, impact_on
from simulator.faults.lost_messages import LostMessages
from simulator.faults.network import end_network_faults, watch_messages
from simulator.faults.processes import end_process_faults
from simulator.faults.table import FAULTS


class Nemesis:
    """Carries out a plan."""

    def __init__(
        self,
        plan: list[Decision],
        scheduler: Scheduler,
        network: Network,
        machines: dict[int, Machine],
        probes: Probes,
        restart: Callable[[Machine], None],
        *,
        damages: DiskDamages,
        client_hosts: tuple[int, ...],
    ) -> None:
        self.plan = plan
        self.fired: dict[str, int] = {}
        """Kind -> number of faults; `struck` counts those with an impact."""
        self.struck: dict[str, int] = {}
        self.is_over = False
        self._roles = Roles()
        self._scheduler = scheduler
        self._network = network
        self._machines = machines
        self.more: Mapping[str, CarryingOut] = {}
        """Kinds of runs with records, and what carries them out."""
        self.on_fault_begins: Callable[[], None] = lambda: None
        self.on_fault: Callable[[Decision, Impact | None], None] = lambda *_: None
        """Called with the impact of a fault, None for nothing, once that is done."""
        self.on_wiped: Callable[[Machine], None] = lambda _: None
        """Called with a machine that has an empty disk now."""
        self._reach = Reach(
            scheduler=scheduler,
            network=network,
            machines=machines,
            probes=probes,
            damages=damages,
            lost=LostMessages(frozenset(machines), probes),
            client_hosts=client_hosts,
            slow_disks={},
            unwritable=set(),
            restart=restart,
            on_wiped=self._wiped,
            is_over=lambda: self.is_over,
            roles=self._roles,
            carry_out=self._carry_out,
        )
        kinds = {decision.kind for decision in plan}
        if "lost_messages" in kinds:
            watch_messages(self._reach)
        if "lasting_disk_fault" in kinds:
            keep_disk_faults(self._reach)

    @property
    def slow_disks(self) -> dict[int, int]:
        """Machine -> factor on the time of its flushes."""
        return self._reach.slow_disks

    def flush_factor(self, number: int) -> int:
        """Factor on the time of a machine's flushes."""
        return self.slow_disks.get(number, 1)

    def start(self) -> None:
        """Schedule every decision at its time."""
        for decision in self.plan:
            self._scheduler.at(decision.at_us, partial(self._fire, decision))

    def stop(self) -> None:
        """End all faults, and begin no new one: processes run, links heal, disks have room."""
        self.is_over = True
        end_network_faults(self._reach)
        end_disk_faults(self._reach)
        end_process_faults(self._reach)

    def leave_outside(self, outside: tuple[int, ...], rng: Random) -> tuple[int, ...]:
        """Keep nodes faulty after `stop`, each dead, deaf, or mute; return the silent ones."""
        silent = []
        for number in outside:
            way = rng.choice(("dead", "deaf", "mute"))
            if way != "deaf":
                silent.append(number)
            if way == "dead":
                self._machines[number].kill()
            for other in sorted(self._machines):
                if other != number and way == "deaf":
                    self._network.cut(other, number)
                elif other != number and way == "mute":
                    self._network.cut(number, other)
        return tuple(silent)

    def note_role_change(self) -> None:
        """Note that a node has another role than before."""
        self._roles.changes += 1

    def _wiped(self, machine: Machine) -> None:
        self.on_wiped(machine)

    def _fire(self, decision: Decision) -> None:
        if self.is_over:
            return
        self.fired[decision.kind] = self.fired.get(decision.kind, 0) + 1
        if self._carry_out(decision) is not None:
            self.struck[decision.kind] = self.struck.get(decision.kind, 0) + 1

    def _carry_out(self, decision: Decision) -> Impact | None:
        machines = [self._machines[number] for number in decision.targets]
        impact = impact_on(machines, decision)  # reported if it ends in a violation
        self.on_fault_begins()
        try:
            carry_out = self.more.get(decision.kind) or FAULTS[decision.kind]
            impact = carry_out(self._reach, decision, machines)
        finally:
            self.on_fault(decision, impact)
        return impact
