"""Faults of processes and their clocks: processes end, pause, and are started again."""

from functools import partial
from random import Random
from typing import Final

from simulator.checks.raft.leadership import epoch_of, has_newer_epoch, leads
from simulator.cluster.machine import Machine, Power
from simulator.faults.decision import OPERATIONS_AHEAD_MAX, Decision
from simulator.faults.failing_calls import fail_allocation
from simulator.faults.fault import Reach
from simulator.faults.impact import AT_ONCE_US, Impact, impact_on
from wire.types import Offset

STARTS: Final = range(3, 9)
"""Starts of a restart storm."""
STOPPED_US_MAX: Final = 6_000_000
"""Longest stop of a leader that nobody replaces."""
RESUMED_STEP_US: Final = 20_000
"""Step of the time for which the next one leads alone, up to OPERATIONS_AHEAD_MAX steps."""
COMMIT_STEP_US: Final = 50
COMMIT_US_MAX: Final = 500_000
"""Longest wait for a commit."""
LIFE_US_MIN: Final = 1_000
START_OPERATIONS_AHEAD_MAX: Final = 11


def end_process_faults(reach: Reach) -> None:
    """End every fault of a process: paused ones go on, dead ones start.

    One that is about to shut down is killed first: it would be missing later.
    """
    for machine in reach.machines.values():
        machine.resume()
        if machine.is_terminating:
            machine.kill()
        if not machine.is_up:
            reach.restart(machine)


# ---- once ------------------------------------------------------------------------------------


def kill(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Kill processes (SIGKILL): the page cache stays."""
    running = [machine for machine in machines if machine.is_up]
    for machine in machines:
        machine.kill()
        reach.restart_later(decision, machine)
    return impact_on(running, decision)


def power_failure(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Cut the power: what was not synced may be gone."""
    running = [machine for machine in machines if machine.is_up]
    for machine in machines:
        if machine.is_up:
            machine.power_off()
        reach.restart_later(decision, machine)
    return impact_on(running, decision)


def all_down(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Cut the power of all machines."""
    reach.probes.hit("all_nodes_down")
    return power_failure(reach, decision, machines)


def terminate(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Ask for a controlled shutdown (SIGTERM)."""
    asked = [m for m in machines if m.is_up and not m.is_terminating]
    for machine in machines:
        machine.terminate()
        reach.restart_later(decision, machine)
    return impact_on(asked, decision)


def pause(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Pause processes (SIGSTOP) until the fault is over."""
    running = [machine for machine in machines if machine.power is Power.UP]
    for machine in running:
        machine.pause()
        reach.later(decision, machine.resume)
    return impact_on(running, decision)


def stop_leader(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Stop the process that leads until another one has led for a while.

    When it goes on it does not know that, and what arrived meanwhile was sent to a leader. Every
    second time it is stopped behind a commit: its followers have an answer then, and fetch.
    """
    machines = list(reach.machines.values())
    leading = [m for m in machines if m.power is Power.UP and leads(m)]
    if not leading:
        return None
    stopped = max(leading, key=epoch_of)
    impact = Impact(nodes=(stopped.id,), how="the leader", length_us=None)
    reach.probes.hit("leader_stopped")
    stop = _Stop(reach, decision, stopped, impact)
    if decision.amount % 2:
        stop.begin()
    else:
        stop.begin_behind_a_commit()
    return impact


class _Stop:
    """One stop of a leader."""

    def __init__(self, reach: Reach, decision: Decision, leader: Machine, impact: Impact) -> None:
        self._reach = reach
        self._scheduler = reach.scheduler
        self._machines = list(reach.machines.values())
        self._leader = leader
        self._impact = impact
        self._epoch, self._incarnation = epoch_of(leader), leader.incarnation
        self._end_offset = _committed_end(leader)
        self._began_us = reach.scheduler.now_us
        self._alone_us = 1 + decision.amount * RESUMED_STEP_US

    def begin_behind_a_commit(self) -> None:
        """Stop it when its high watermark has moved, or after a while."""
        waited_us = self._scheduler.now_us - self._began_us
        if self._is_over:
            return
        if _committed_end(self._leader) != self._end_offset or waited_us >= COMMIT_US_MAX:
            self.begin()
        else:
            self._reach.after(COMMIT_STEP_US, self.begin_behind_a_commit)

    @property
    def _is_over(self) -> bool:
        return self._reach.is_over() or self._leader.incarnation != self._incarnation

    def begin(self) -> None:
        """Stop it."""
        self._began_us = self._scheduler.now_us
        self._leader.pause()
        self._watch()

    def _watch(self) -> None:
        if self._is_over:
            return
        waited_us = self._scheduler.now_us - self._began_us
        is_replaced = has_newer_epoch(self._machines, self._epoch, by_leader=True)
        if is_replaced or waited_us >= STOPPED_US_MAX:
            self._reach.after(self._alone_us, self._resume)
        else:
            self._reach.after(RESUMED_STEP_US, self._watch)

    def _resume(self) -> None:
        self._impact.length_us = self._scheduler.now_us - self._began_us
        if self._leader.incarnation == self._incarnation:
            self._leader.resume()


def _committed_end(machine: Machine) -> Offset | None:
    return None if machine.raft is None else machine.raft.high_watermark


def crash_at_operation(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Cut the power between two of the next operations on the disk."""
    running = [machine for machine in machines if machine.is_up]
    for machine in running:
        machine.vfs.crash_at = machine.vfs.operations + decision.amount
        reach.restart_later(decision, machine)
    return impact_on(running, decision, f"after {decision.amount} operations of its disk")


def kill_at_operation(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """SIGKILL a process before one of its next disk operations: the page cache stays."""
    running = [machine for machine in machines if machine.is_up]
    for machine in running:
        machine.kill_at = machine.vfs.crash_at = machine.vfs.operations + decision.amount
        reach.restart_later(decision, machine)
    return impact_on(running, decision, f"after {decision.amount} operations of its disk")


def out_of_memory(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Refuse memory for one of the next buffers, which ends the process."""
    end_us = reach.scheduler.now_us + decision.length_us
    running = [machine for machine in machines if machine.is_up]
    for machine in running:
        assert machine.kernel is not None
        fail_allocation(
            machine.kernel,
            decision.amount,
            lambda: not reach.is_over() and reach.scheduler.now_us < end_us,
            reach.probes.hit,
        )
        reach.restart_later(decision, machine)
    return impact_on(running, decision, f"buffer {decision.amount} from now")


def clock_jump(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Make the wall clock jump, forwards or backwards."""
    del reach
    jump_s = decision.amount - OPERATIONS_AHEAD_MAX // 2
    for machine in machines:
        machine.wall_offset_ms += jump_s * 1_000
    if jump_s == 0:
        return None
    return Impact(nodes=decision.targets, how=f"{jump_s:+d} s", length_us=AT_ONCE_US)


# ---- again and again -------------------------------------------------------------------------


def restart_storm(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """End and start a process several times within the length of the fault."""
    rng = decision.chance
    counts = []
    for machine in machines:
        count = rng.choice(STARTS)
        mean_us = LIFE_US_MIN + decision.length_us // (2 * count)
        _Storm(reach, machine, rng, mean_us, count).end_process()
        counts.append(f"{count} starts")
    return impact_on(machines, decision, "; ".join(counts))


class _Storm:
    """Ends and starts of one process, until so many starts are made."""

    def __init__(
        self, reach: Reach, machine: Machine, rng: Random, mean_us: int, left: int
    ) -> None:
        self._reach = reach
        self._scheduler = reach.scheduler
        self._probes = reach.probes
        self._machine = machine
        self._rng = rng
        self._mean_us = mean_us
        self._left = left

    def end_process(self) -> None:
        """End it by a kill or a power failure, and start it after a while."""
        if self._reach.is_over():
            return
        if self._machine.is_up:
            if self._rng.random() < 0.3:
                self._machine.power_off()
            else:
                self._machine.kill()
        self._scheduler.after(self._while_us(), self._start_process)

    def _start_process(self) -> None:
        if self._reach.is_over():
            return
        self._reach.restart(self._machine)
        self._left -= 1
        if self._left == 0:
            self._probes.hit("restart_storm")
            return
        self._scheduler.after(self._while_us(), self.end_process)

    def _while_us(self) -> int:
        return int(self._rng.expovariate(1.0) * self._mean_us)


def crash_at_start(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Cut the power, and cut it again while the process recovers what that left.

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
            reach.probes.hit("crashed_during_start")
            crashes[-1] += 1
        reach.later(decision, partial(reach.restart, machine))
    times = "; ".join(f"{count} of its starts" for count in crashes)
    return impact_on(machines, decision, times)
