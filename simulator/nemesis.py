"""Faults: the decisions of a plan, carried out (simulator/plan.py)."""

import errno
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

import msgspec

from kernel.kernel import Kernel
from simulator.client_links import ClientLinks
from simulator.disk_damage import DiskDamages, make_older
from simulator.draw import FIFTH_FAULTS, FOURTH_FAULTS, FSYNC_LIE
from simulator.drawn_faults import Reach
from simulator.failing_calls import fail_allocation, fail_read
from simulator.felt import AT_ONCE_US, Felt, felt_by
from simulator.fifth_faults import FifthFaults
from simulator.fourth_faults import FourthFaults
from simulator.leadership import epoch_of, has_newer_epoch, leads
from simulator.machine import Machine, Power
from simulator.network import Network
from simulator.plan import OPERATIONS_AHEAD_MAX, Decision
from simulator.probes import Probes
from simulator.scheduler import Scheduler
from storage.memory_vfs import MemoryVfs

DEPOSED_WITHIN_US: Final = 6_000_000
HEALED_EARLIEST_US: Final = 250
WATCHED_EVERY_US: Final = 500
READS_AHEAD_MAX: Final = 5

Failing = Callable[[Kernel, int, Callable[[], bool], Callable[[str], None]], None]
"""`fail_allocation`, `fail_read`."""

CarryingOut = Callable[[Decision, list[Machine]], Felt | None]
"""Of one kind: brings a fault in and gives what it did, None for nothing."""


class Nemesis:
    """Carries a plan out."""

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
        """Kind -> how many came; `felt` are those that did anything."""
        self.felt: dict[str, int] = {}
        self.is_over = False
        self._scheduler = scheduler
        self._network = network
        self._machines = machines
        self._probes = probes
        self._restart = restart
        self._damages = damages
        self.on_fault_begins: Callable[[], None] = lambda: None
        self.on_fault: Callable[[Decision, Felt | None], None] = lambda *_: None
        """Told what it did, None for nothing, once that is done."""
        self.on_wiped: Callable[[Machine], None] = lambda _: None
        """Told of a machine that has an empty disk now."""
        self.slow_disks: dict[int, int] = {}
        """Machine -> factor on the time of its flushes."""
        reach = Reach(
            scheduler=scheduler,
            network=network,
            machines=machines,
            probes=probes,
            restart=restart,
            later=self._later,
            is_over=lambda: self.is_over,
            strike=self._strike,
        )
        self._fourth = FourthFaults(reach)
        self._fifth = FifthFaults(reach)
        self._owners: dict[str, object] = {
            **dict.fromkeys((*FOURTH_FAULTS, FSYNC_LIE), self._fourth),
            **dict.fromkeys(FIFTH_FAULTS, self._fifth),
            "client_links": ClientLinks(reach, client_hosts),
        }
        """Kind -> who carries it out, where it is somebody else."""
        kinds = {decision.kind for decision in plan}
        if "lost_messages" in kinds:
            self._fourth.watch_messages()
        if "lasting_disk_fault" in kinds:
            self._fifth.keep_disk_faults()

    def start(self) -> None:
        """Every decision at its time."""
        for decision in self.plan:
            self._scheduler.at(decision.at_us, partial(self._fire, decision))

    def stop(self) -> None:
        """No new fault: links heal and are calm, disks have room, the paused go on, the dead start.

        Who is about to shut down is killed first: it would be missing later.
        """
        self.is_over = True
        self._network.is_calm = True
        self._network.heal_all()
        self.slow_disks.clear()
        self._fourth.stop()
        self._fifth.stop()
        self._damages.restore_all()
        for machine in self._machines.values():
            machine.vfs.bytes_max = None
            machine.vfs.crash_at = None
            machine.vfs.failing = None
            machine.resume()
            if machine.is_terminating:
                machine.kill()
            if not machine.is_up:
                self._restart(machine)

    def leave_outside(self, outside: tuple[int, ...], rng: Random) -> tuple[int, ...]:
        """After `stop`: these stay faulty, each dead, deaf, or mute; gives those nobody hears."""
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

    def _fire(self, decision: Decision) -> None:
        if self.is_over:
            return
        self.fired[decision.kind] = self.fired.get(decision.kind, 0) + 1
        if self._carry_out(decision) is not None:
            self.felt[decision.kind] = self.felt.get(decision.kind, 0) + 1

    def _carry_out(self, decision: Decision) -> Felt | None:
        machines = [self._machines[number] for number in decision.targets]
        felt = felt_by(decision, machines)  # what is told if it ends in a violation
        self.on_fault_begins()
        try:
            felt = self._strike(decision, machines)
        finally:
            self.on_fault(decision, felt)
        return felt

    def _strike(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        owner = self._owners.get(decision.kind)
        name = f"_do_{decision.kind}" if owner is None else decision.kind
        carry_out: CarryingOut = getattr(owner or self, name)
        return carry_out(decision, machines)

    def _later(self, decision: Decision, action: Callable[[], None]) -> None:
        def end() -> None:
            if not self.is_over:
                action()

        self._scheduler.after(decision.length_us, end)

    def _restart_later(self, decision: Decision, machine: Machine) -> None:
        self._later(decision, lambda: self._restart(machine))

    # ---- processes ---------------------------------------------------------------------------

    def _do_kill(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        running = [machine for machine in machines if machine.is_up]
        for machine in machines:
            machine.kill()
            self._restart_later(decision, machine)
        return felt_by(decision, running)

    def _do_power_failure(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        running = [machine for machine in machines if machine.is_up]
        for machine in machines:
            if machine.is_up:
                machine.power_off()
            self._restart_later(decision, machine)
        return felt_by(decision, running)

    def _do_all_down(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        self._probes.hit("all_nodes_down")
        return self._do_power_failure(decision, machines)

    def _do_terminate(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        asked = [m for m in machines if m.is_up and not m.is_terminating]
        for machine in machines:
            machine.terminate()
            self._restart_later(decision, machine)
        return felt_by(decision, asked)

    def _do_pause(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        running = [machine for machine in machines if machine.power is Power.UP]
        for machine in running:
            machine.pause()
            self._later(decision, machine.resume)
        return felt_by(decision, running)

    def _do_crash_at_operation(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        running = [machine for machine in machines if machine.is_up]
        for machine in running:
            machine.vfs.crash_at = machine.vfs.operations + decision.amount
            self._restart_later(decision, machine)
        return felt_by(decision, running, f"after {decision.amount} operations of its disk")

    def _do_out_of_memory(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        hit = self._fail_a_call(decision, machines, fail_allocation, decision.amount)
        return felt_by(decision, hit, f"buffer {decision.amount} from now")

    def _do_read_error(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        countdown = 1 + decision.amount % READS_AHEAD_MAX
        hit = self._fail_a_call(decision, machines, fail_read, countdown)
        return felt_by(decision, hit, f"read {countdown} from now")

    def _fail_a_call(
        self, decision: Decision, machines: list[Machine], fail: Failing, countdown: int
    ) -> list[Machine]:
        """One of the next calls fails, which ends the process; once the fault is over, none."""
        end_us = self._scheduler.now_us + decision.length_us
        running = [machine for machine in machines if machine.is_up]
        for machine in running:
            assert machine.kernel is not None
            fail(
                machine.kernel,
                countdown,
                lambda: not self.is_over and self._scheduler.now_us < end_us,
                self._probes.hit,
            )
            self._restart_later(decision, machine)
        return running

    def _do_empty_disk(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        """An observer loses its disk; it comes back with a new one, formatted, of a new identity.

        A voter may not: what it acknowledged and voted for is gone, and static voters are known
        by their id alone.
        """
        observers = [machine for machine in machines if not machine.config.is_controller]
        for machine in observers:
            machine.kill()
            self._damages.restore(machine)
            machine.replace_disk()
            self.on_wiped(machine)
            self._probes.hit("disk_replaced")
            self._restart_later(decision, machine)
        return felt_by(decision, observers)

    def _do_old_quorum_state(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        """A process is killed, and its quorum-state is that of the epoch before.

        Only where that breaks no promise: all voters follow one leader, and the log, which says
        the epoch too, is on the disk.
        """
        voters = [m for m in self._machines.values() if m.config.is_controller]
        cores = [machine.kernel.replica.core for machine in voters if machine.kernel is not None]
        is_calm = len(cores) == len(voters) and all(
            core.leader == cores[0].leader and core.leader.leader_id is not None for core in cores
        )
        hit = []
        for machine in machines:
            if not is_calm or machine not in voters or machine.vfs.crash_at is not None:
                continue
            assert machine.kernel is not None
            core = machine.kernel.replica.core
            is_in_log = core.last_epoch == core.epoch
            is_durable = core.flushed_end_offset == core.log_end_offset
            if is_in_log and is_durable and not core.is_leader and machine.vfs.failing is None:
                machine.kill()
                machine.vfs.bytes_max = None
                make_older(machine.vfs)
                self._restart_later(decision, machine)
                hit.append(machine)
        return felt_by(decision, hit)

    # ---- network -----------------------------------------------------------------------------

    def _do_partition(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        inside = {machine.id for machine in machines}
        links = [(a, b) for a, b in self._pairs() if (a in inside) != (b in inside)]
        return felt_by(decision, machines if self._cut(decision, links) else ())

    def _do_one_way(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        inside = {machine.id for machine in machines}
        outward = decision.amount % 2 == 0
        links = [
            (a, b)
            for a, b in self._pairs()
            if (a in inside) is outward and (b in inside) is not outward
        ]
        how = "what they send" if outward else "what they are sent"
        return felt_by(decision, machines if self._cut(decision, links) else (), how)

    def _cut(self, decision: Decision, links: list[tuple[int, int]]) -> bool:
        """Whether any of them was whole."""
        any_whole = not all(self._network.is_cut(*link) for link in links)
        for link in links:
            self._network.cut(*link)

        def heal() -> None:
            for link in links:
                self._network.heal(*link)

        self._later(decision, heal)
        return any_whole

    def _pairs(self) -> list[tuple[int, int]]:
        ids = sorted(self._machines)
        return [(a, b) for a in ids for b in ids if a != b]

    def _do_depose_leader(self, decision: Decision, _machines: list[Machine]) -> Felt | None:
        """Cut the leader off until others have a newer epoch, then let everything through.

        What it sent meanwhile arrives just then: answers of the old epoch meet nodes of the new.
        Every second time its successor is cut off in the moment in which it begins to lead, with
        a first record that nobody else has.
        """
        leading = [m for m in self._machines.values() if m.kernel is not None and leads(m)]
        if not leading:
            return None
        self._probes.hit("leader_cut_off")
        number = max(leading, key=epoch_of).id
        links = [(a, b) for a, b in self._pairs() if number in (a, b)]
        if decision.amount % 3 == 0:  # only what it says
            links = [(a, b) for a, b in links if a == number]
        how = "the leader, what it sends" if decision.amount % 3 == 0 else "the leader"
        felt = Felt(nodes=(number,), how=how, length_us=None)
        epoch, machines = epoch_of(self._machines[number]), tuple(self._machines.values())
        wants_leader = decision.amount % 2 == 1
        began_us = self._scheduler.now_us
        for link in links:
            self._network.cut(*link)

        def heal() -> None:
            felt.length_us = self._scheduler.now_us - began_us
            for link in links:
                self._network.heal(*link)

        def watch() -> None:
            if self.is_over:
                return
            is_time = has_newer_epoch(machines, epoch, by_leader=wants_leader)
            if is_time and wants_leader:
                heal()
                self._carry_out(
                    msgspec.structs.replace(
                        decision, at_us=self._scheduler.now_us, amount=decision.amount - 1
                    )
                )
            elif is_time or self._scheduler.now_us >= began_us + DEPOSED_WITHIN_US:
                self._scheduler.after(decision.amount * HEALED_EARLIEST_US, heal)
            else:
                self._scheduler.after(WATCHED_EVERY_US, watch)

        watch()
        return felt

    def _do_clog(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        if len(machines) < 2:
            return None
        until_us = self._scheduler.now_us + decision.length_us
        source, target = machines[0].id, machines[1].id
        self._network.clog(source, target, until_us)
        return felt_by(decision, machines, f"from {source} to {target}")

    def _do_swizzle(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        """Nodes lose their links one after the other, and get them back in another order."""
        rng = Random(f"{decision.at_us}/{decision.amount}")  # noqa: S311 - simulated chance
        lost: set[int] = set()

        def lose(number: int) -> None:
            lost.add(number)
            for link in self._pairs():
                if number in link and not self.is_over:
                    self._network.cut(*link)

        def get_back(number: int) -> None:
            lost.remove(number)
            for link in self._pairs():
                if number in link and not lost & set(link) and not self.is_over:
                    self._network.heal(*link)

        step_us = decision.length_us // (2 * len(machines))
        numbers = [machine.id for machine in machines]
        for place, number in enumerate(numbers):
            self._scheduler.after(place * step_us, partial(lose, number))
        rng.shuffle(numbers)
        for place, number in enumerate(numbers, len(numbers)):
            self._scheduler.after(place * step_us, partial(get_back, number))
        self._probes.hit("swizzled")
        return felt_by(decision, machines if self._pairs() else ())

    def _do_reset(self, _decision: Decision, machines: list[Machine]) -> Felt | None:
        if len(machines) < 2:
            return None
        nodes = (machines[0].id, machines[1].id)
        pipes = self._network.pipes_between(*nodes)
        for pipe in pipes:
            self._network.reset(pipe)
        how = f"connections: {len(pipes)}"
        return Felt(nodes=nodes, how=how, length_us=AT_ONCE_US) if pipes else None

    # ---- disks and clocks --------------------------------------------------------------------

    def _do_slow_disk(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        for machine in machines:
            number = machine.id
            self.slow_disks[number] = 5 * decision.amount
            self._later(decision, lambda n=number: self._speed_up(n))  # type: ignore[misc]
        return felt_by(decision, machines, f"{5 * decision.amount} times slower")

    def _speed_up(self, number: int) -> None:
        self.slow_disks.pop(number, None)

    def _do_sync_error(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        for machine in machines:
            vfs = machine.vfs

            def fail_once(kind: str, _path: str, vfs: object = vfs) -> int | None:
                if kind != "sync":
                    return None
                vfs.failing = None  # type: ignore[attr-defined]
                return errno.EIO

            vfs.failing = fail_once
            self._restart_later(decision, machine)
        return felt_by(decision, machines, "its next sync")

    def _damage(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        """A disk changes; at the end of the fault it is brought back, and the process started."""
        hit = []
        for machine in machines:
            rng = Random(f"{decision.at_us}/{decision.amount}")  # noqa: S311 - simulated chance
            if self._damages.strike(decision.kind, machine, rng):
                hit.append(machine)
                self._later(decision, partial(self._repair, machine))
                if not machine.is_up:
                    half_us = decision.length_us // 2
                    self._scheduler.after(half_us, partial(self._start_in_vain, machine))
        return felt_by(decision, hit, "; ".join(map(self._damages.what, hit)))

    _do_bit_rot = _do_lost_write = _do_misdirected_write = _damage

    def _start_in_vain(self, machine: Machine) -> None:
        if not self.is_over:
            self._restart(machine)

    def _repair(self, machine: Machine) -> None:
        self._damages.restore(machine)
        self._restart(machine)

    def _do_disk_full(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        for machine in machines:
            vfs = machine.vfs
            vfs.bytes_max = vfs.used_bytes()
            self._later(decision, partial(self._make_room, machine, vfs))
        return felt_by(decision, machines)

    def _make_room(self, machine: Machine, vfs: MemoryVfs) -> None:
        """The disk that was filled has room again; as `vfs`, or as what a power failure left."""
        vfs.bytes_max = None
        if machine.keeps_disk_faults:
            machine.vfs.bytes_max = None
            self._restart(machine)

    def _do_clock_jump(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        jump_s = decision.amount - OPERATIONS_AHEAD_MAX // 2
        for machine in machines:
            machine.wall_offset_ms += jump_s * 1_000
        if jump_s == 0:
            return None
        return Felt(nodes=decision.targets, how=f"{jump_s:+d} s", length_us=AT_ONCE_US)
