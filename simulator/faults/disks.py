"""Faults of disks: slow, full, emptied, damaged, lying, or refusing a read, a write or a sync."""

import errno
from functools import partial
from typing import Final

from msgspec.structs import replace

from raft.core import RaftCore
from simulator.checks.raft.wiped_voters import remembers
from simulator.checks.violation import Violation
from simulator.cluster.machine import Machine
from simulator.cluster.memory_vfs import SEGMENT_SUFFIX, MemoryVfs
from simulator.faults.decision import Decision
from simulator.faults.disk_damage import make_older
from simulator.faults.failing_calls import fail_read
from simulator.faults.failing_files import FailingRead, FailingWrites
from simulator.faults.fault import Reach
from simulator.faults.impact import Impact, impact_on

READS_AHEAD_MAX: Final = 5
START_READS_AHEAD_MAX: Final = 6
"""A start with one segment and no snapshot reads five times."""
WRITES_AHEAD_MAX: Final = 5


def end_disk_faults(reach: Reach) -> None:
    """End every fault of a disk: there is room and speed; what a lying disk synced is durable."""
    reach.slow_disks.clear()
    reach.unwritable.clear()
    for machine in reach.machines.values():
        if machine.vfs.sync_lies is not None:
            machine.vfs.sync_lies = None
            machine.vfs.write_back()
    reach.damages.restore_all()
    for machine in reach.machines.values():
        machine.vfs.bytes_max = None
        machine.vfs.crash_at = None
        machine.vfs.failing = None


# ---- speed and room --------------------------------------------------------------------------


def slow_disk(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Make flushes take many times as long."""
    for machine in machines:
        reach.slow_disks[machine.id] = 5 * decision.amount
        reach.later(decision, partial(_speed_up, reach, machine.id))
    return impact_on(machines, decision, f"{5 * decision.amount} times slower")


def _speed_up(reach: Reach, number: int) -> None:
    reach.slow_disks.pop(number, None)


def disk_full(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Fill the disk: no further byte fits."""
    for machine in machines:
        vfs = machine.vfs
        vfs.bytes_max = vfs.used_bytes()
        reach.later(decision, partial(_make_room, reach, machine, vfs))
    return impact_on(machines, decision)


def _make_room(reach: Reach, machine: Machine, vfs: MemoryVfs) -> None:
    """Give the filled disk room again; as `vfs`, or as a power failure left it."""
    vfs.bytes_max = None
    if machine.keeps_disk_faults:
        machine.vfs.bytes_max = None
        reach.restart(machine)


# ---- refused operations ----------------------------------------------------------------------


def sync_error(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Make the next sync fail with EIO."""
    for machine in machines:
        vfs = machine.vfs

        def fail_once(kind: str, _path: str, vfs: MemoryVfs = vfs) -> int | None:
            if kind != "sync":
                return None
            vfs.failing = None
            return errno.EIO

        vfs.failing = fail_once
        reach.restart_later(decision, machine)
    return impact_on(machines, decision, "its next sync")


def read_error(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Make one of the next reads of log or snapshots fail with EIO, which ends the process."""
    countdown = 1 + decision.amount % READS_AHEAD_MAX
    end_us = reach.scheduler.now_us + decision.length_us
    running = [machine for machine in machines if machine.is_up]
    for machine in running:
        assert machine.kernel is not None
        fail_read(
            machine.kernel,
            countdown,
            lambda: not reach.is_over() and reach.scheduler.now_us < end_us,
            reach.probes.hit,
        )
        reach.restart_later(decision, machine)
    return impact_on(running, decision, f"read {countdown} from now")


def start_read_error(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Kill a process, and make one of the first reads of the next start fail with EIO.

    Raises:
        Violation: `I18`: the process started all the same.
    """
    hit = []
    for machine in machines:
        vfs = machine.vfs
        if vfs.failing is not None or vfs.crash_at is not None:
            continue
        machine.kill()
        vfs.failing = failing = FailingRead(1 + decision.amount % START_READS_AHEAD_MAX)
        machine.start()
        vfs.failing = None
        if failing.path is not None:
            if machine.is_up:
                text = f"node {machine.id}: it started and could not read {failing.path}"
                raise Violation("I18", text)
            reach.probes.hit("start_refused_by_read_error")
        hit.append((machine, failing.path or "none that it reads"))
        reach.restart_later(decision, machine)
    paths = "; ".join(path for _, path in hit)
    return impact_on([machine for machine, _ in hit], decision, paths)


def write_error(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Make one of the next writes to the metadata log fail with EIO after half of its bytes.

    Every second time the log cannot be cut either until the fault is over: the half stays. Of
    several voters only a minority has such a disk at one time.
    """
    hit, countdown = [], 1 + decision.amount % WRITES_AHEAD_MAX
    is_lasting = decision.amount % 2 == 0
    for machine in machines:
        vfs = machine.vfs
        if vfs.failing is not None or not _may_refuse_writes(reach, machine):
            continue
        if machine.config.is_controller:
            reach.unwritable.add(machine.id)
        vfs.failing = failing = FailingWrites(countdown, is_lasting=is_lasting)
        hit.append(machine)
        reach.later(decision, partial(_take_writes, reach, machine, failing))
    what = f"write {countdown} from now"
    return impact_on(hit, decision, f"{what}, and no cut" if is_lasting else what)


def _take_writes(reach: Reach, machine: Machine, failing: FailingWrites) -> None:
    reach.unwritable.discard(machine.id)
    if machine.vfs.failing is failing:
        machine.vfs.failing = None
    reach.restart(machine)


def _may_refuse_writes(reach: Reach, machine: Machine) -> bool:
    voters = [m.id for m in reach.machines.values() if m.config.is_controller]
    if machine.id not in voters:
        return True
    return len(reach.unwritable) < max(1, (len(voters) - 1) // 2)


def lasting_disk_fault(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Fill a disk, or refuse writes to its log, before and after a power failure.

    A process that stopped by it is started first. A damaged disk, with which no process starts,
    keeps its power: a failure would remove the record that tells damage from a torn write.
    """
    kind = "disk_full" if decision.amount % 2 else "write_error"
    carry_out = disk_full if decision.amount % 2 else write_error
    lasting = replace(decision, kind=kind, amount=2 * decision.amount)
    impact = carry_out(reach, lasting, machines)
    for machine in machines:
        third_us = decision.length_us // 3
        reach.scheduler.after(third_us, partial(_fail_power, reach, machine))
        reach.restart_within(2 * third_us, machine)
    if impact is None:
        return impact_on(machines, decision, "its power fails")
    impact.how = ", ".join(filter(None, (kind, impact.how, "its power fails")))
    return impact


def _fail_power(reach: Reach, machine: Machine) -> None:
    if reach.is_over():
        return
    reach.restart(machine)
    if machine.is_up:
        machine.power_off()
        if machine.vfs.bytes_max is not None or machine.vfs.failing is not None:
            reach.probes.hit("power_failed_on_a_faulty_disk")


def keep_disk_faults(reach: Reach) -> None:
    """Make full disks, and disks that refuse all writes, stay so after a power failure."""
    for machine in reach.machines.values():
        machine.keeps_disk_faults = True


# ---- lost and changed contents ---------------------------------------------------------------


def empty_disk(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Replace the disk of an observer by a new one, formatted, of a new identity.

    Not of a voter, which is `wiped_voter`.
    """
    observers = [machine for machine in machines if not machine.config.is_controller]
    for machine in observers:
        _wipe(reach, machine)
        reach.probes.hit("disk_replaced")
        reach.restart_later(decision, machine)
    return impact_on(observers, decision)


def _wipe(reach: Reach, machine: Machine) -> None:
    machine.kill()
    reach.damages.restore(machine)
    machine.replace_disk()
    reach.on_wiped(machine)


def wiped_voter(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Replace the disk of a static voter, which is known by its id alone, by a new one.

    Only while a majority without it remembers what it acknowledged: beyond that the protocol
    promises nothing (raft/elections/proof.py).
    """
    voters = [machine for machine in reach.machines.values() if machine.config.is_controller]
    hit = []
    for machine in machines:
        others = [other for other in voters if other is not machine and remembers(other.vfs)]
        if machine in voters and len(others) > len(voters) // 2:
            _wipe(reach, machine)
            reach.probes.hit("voter_wiped")
            reach.restart_later(decision, machine)
            hit.append(machine)
    return impact_on(hit, decision)


def old_quorum_state(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Kill a process, and put the quorum-state of the epoch before in place of its own.

    Only where that breaks no promise: all voters follow one leader, and the log, which holds the
    epoch too, is on the disk.
    """
    voters = [m for m in reach.machines.values() if m.config.is_controller]
    cores = [machine.kernel.core for machine in voters if machine.kernel is not None]
    is_calm = len(cores) == len(voters) and all(
        core.leader == cores[0].leader and core.leader.leader_id is not None for core in cores
    )
    hit = []
    for machine in machines:
        if not is_calm or machine not in voters or machine.vfs.crash_at is not None:
            continue
        assert machine.kernel is not None
        if _is_epoch_in_log(machine.kernel.core) and machine.vfs.failing is None:
            machine.kill()
            machine.vfs.bytes_max = None
            make_older(machine.vfs)
            reach.restart_later(decision, machine)
            hit.append(machine)
    return impact_on(hit, decision)


def _is_epoch_in_log(core: RaftCore) -> bool:
    """True if the durable log of a follower holds the epoch of its quorum-state."""
    is_durable = core.flushed_end_offset == core.log_end_offset
    return core.last_epoch == core.epoch and is_durable and not core.is_leader


def damage(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Damage a disk; at the end of the fault it is restored, and the process started."""
    hit = []
    for machine in machines:
        if reach.damages.strike(decision.kind, machine, decision.chance):
            hit.append(machine)
            reach.later(decision, partial(_repair, reach, machine))
            if not machine.is_up:
                reach.restart_within(decision.length_us // 2, machine)  # is refused
    return impact_on(hit, decision, "; ".join(map(reach.damages.what, hit)))


def _repair(reach: Reach, machine: Machine) -> None:
    reach.damages.restore(machine)
    reach.restart(machine)


def fsync_lie(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Make syncs of the log return with nothing durable; at the end the power fails on all."""
    for machine in machines:
        machine.vfs.sync_lies = SEGMENT_SUFFIX

    def end() -> None:
        for machine in machines:
            machine.power_off()
        for machine in machines:
            reach.restart(machine)

    reach.later(decision, end)
    return impact_on(machines, decision)
