"""The faults of draws 4, of network, processes and disks; what each does stands at its method."""

from functools import partial
from random import Random
from typing import Final

from simulator.drawn_faults import DrawnFaults, Reach
from simulator.failing_writes import FailingWrites
from simulator.felt import Felt, felt_by
from simulator.lost_messages import LostMessages, rule_of
from simulator.machine import Machine
from simulator.network import Pipe
from simulator.plan import Decision
from storage.memory_vfs import SEGMENT_SUFFIX

WRITES_AHEAD_MAX: Final = 5
CAPACITIES: Final = (*range(2, 6), *range(2, 6), *range(2, 21))
"""Chunks that the links of a node may hold; few of them have more than five under way."""
STARTS: Final = range(3, 9)
"""Of a restart storm."""
LIFE_US_MIN: Final = 1_000
START_OPERATIONS_AHEAD_MAX: Final = 11


class FourthFaults(DrawnFaults):
    """Carries out the decisions of draws 4."""

    def __init__(self, reach: Reach) -> None:
        super().__init__(reach)
        self._lost = LostMessages(frozenset(reach.machines), reach.probes)
        self._unwritable: set[int] = set()
        """Voters whose disk refuses a write, until they are started again."""

    def watch_messages(self) -> None:
        """Remember requests from now on, so that a later fault knows their responses."""
        self._network.passes = self._lost.passed

    def stop(self) -> None:
        """All of them end; what a disk was told to keep is kept."""
        self._lost.rules.clear()
        self._network.capacities.clear()
        self._unwritable.clear()
        for machine in self._machines.values():
            if machine.vfs.sync_lies is not None:
                machine.vfs.sync_lies = None
                machine.vfs.write_back()

    # ---- network -----------------------------------------------------------------------------

    def lost_messages(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        """Frames of one kind vanish on the links from a node, or between two nodes."""
        self.watch_messages()
        rule = rule_of(decision.messages, self._links(machines, is_both_ways=False))
        self._lost.rules.append(rule)

        def end() -> None:
            self._lost.rules.remove(rule)

        self._later(decision, end)
        return felt_by(decision, machines if rule.links else (), decision.messages)

    def full_link(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        """The links of a node hold few chunks together; a connection with one more is lost.

        They fill because nothing passes between the nodes for the length of the fault, or, every
        fourth time, by what is under way anyhow. Both sides of a lost connection hear of it at
        once, or, every second time, one of them by its time-out.
        """
        rng = Random(f"{decision.at_us}/{decision.amount}")  # noqa: S311 - simulated chance
        network, number = self._network, machines[0].id

        def lose(pipe: Pipe) -> None:
            late = rng.choice((None, None, pipe.to_server, pipe.to_client))
            self._probes.hit("full_link_reset" if late is None else "full_link_told_one_side")
            network.break_off(pipe, late)

        network.on_full = lose
        network.capacities[number] = rng.choice(CAPACITIES)
        how = f"{network.capacities[number]} chunks"
        if rng.random() < 0.75:
            how += ", nothing passes"
            for link in self._links(machines, is_both_ways=True):
                network.clog(*link, self._scheduler.now_us + decision.length_us)

        def end() -> None:
            network.capacities.pop(number, None)

        self._later(decision, end)
        return felt_by(decision, machines[:1], how)

    def _links(self, machines: list[Machine], *, is_both_ways: bool) -> frozenset[tuple[int, int]]:
        """Between two nodes both ways; of a single one to all others, and back if asked for."""
        first, *rest = [machine.id for machine in machines]
        others = rest or [number for number in self._machines if number != first]
        links = {(first, other) for other in others}
        if is_both_ways or rest:
            links |= {(other, first) for other in others}
        return frozenset(links)

    # ---- processes ---------------------------------------------------------------------------

    def restart_storm(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        """A process is ended and started several times within the length of the fault."""
        rng = Random(f"{decision.at_us}/{decision.amount}")  # noqa: S311 - simulated chance
        counts = []
        for machine in machines:
            count = rng.choice(STARTS)
            mean_us = LIFE_US_MIN + decision.length_us // (2 * count)
            self._end_process(machine, rng, mean_us, count)
            counts.append(f"{count} starts")
        return felt_by(decision, machines, "; ".join(counts))

    def _end_process(self, machine: Machine, rng: Random, mean_us: int, left: int) -> None:
        if self._is_over():
            return
        if machine.is_up:
            if rng.random() < 0.3:
                machine.power_off()
            else:
                machine.kill()
        start = partial(self._start_process, machine, rng, mean_us, left - 1)
        self._scheduler.after(int(rng.expovariate(1.0) * mean_us), start)

    def _start_process(self, machine: Machine, rng: Random, mean_us: int, left: int) -> None:
        if self._is_over():
            return
        self._restart(machine)
        if left == 0:
            self._probes.hit("restart_storm")
            return
        again = partial(self._end_process, machine, rng, mean_us, left)
        self._scheduler.after(int(rng.expovariate(1.0) * mean_us), again)

    def crash_at_start(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        """The power fails, and fails again while the process recovers what that left.

        One to three times, each at one of the first operations of the start on its disk.
        """
        crashes = []
        for machine in machines:
            crashes.append(0)
            if machine.is_up:
                machine.power_off()
            for _ in range(1 + decision.amount % 3):
                vfs = machine.vfs
                vfs.crash_at = vfs.operations + 1 + decision.amount % START_OPERATIONS_AHEAD_MAX
                machine.start()
                if machine.vfs is vfs:  # it came further than that, or was refused
                    vfs.crash_at = None
                    break
                self._probes.hit("crashed_during_start")
                crashes[-1] += 1
            self._later(decision, partial(self._restart, machine))
        times = "; ".join(f"{count} of its starts" for count in crashes)
        return felt_by(decision, machines, times)

    # ---- disks -------------------------------------------------------------------------------

    def write_error(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        """One of the next writes to the metadata log fails with EIO after half of its bytes.

        Every second time nothing of the log can be cut either until the fault is over: the half
        stays. Of several voters a minority has such a disk at one time.
        """
        hit, countdown = [], 1 + decision.amount % WRITES_AHEAD_MAX
        is_lasting = decision.amount % 2 == 0
        for machine in machines:
            vfs = machine.vfs
            if vfs.failing is not None or not self._may_fail(machine):
                continue
            if machine.config.is_controller:
                self._unwritable.add(machine.id)
            vfs.failing = failing = FailingWrites(countdown, is_lasting=is_lasting)
            hit.append(machine)

            def end(machine: Machine = machine, failing: object = failing) -> None:
                self._unwritable.discard(machine.id)
                if machine.vfs.failing is failing:
                    machine.vfs.failing = None
                self._restart(machine)

            self._later(decision, end)
        what = f"write {countdown} from now"
        return felt_by(decision, hit, f"{what}, and no cut" if is_lasting else what)

    def _may_fail(self, machine: Machine) -> bool:
        voters = [m.id for m in self._machines.values() if m.config.is_controller]
        if machine.id not in voters:
            return True
        return len(self._unwritable) < max(1, (len(voters) - 1) // 2)

    def fsync_lie(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        """Syncs of the log return and nothing is durable; at the end the power fails on all."""
        for machine in machines:
            machine.vfs.sync_lies = SEGMENT_SUFFIX

        def end() -> None:
            for machine in machines:
                machine.power_off()
            for machine in machines:
                self._restart(machine)

        self._later(decision, end)
        return felt_by(decision, machines)
