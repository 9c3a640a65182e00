"""The faults of draws 5, of links, processes and disks; what each does stands at its method.

Those of connections of clients are in simulator/client_links.py.
"""

import errno
from functools import partial
from random import Random
from typing import Final

from msgspec.structs import replace

from simulator.drawn_faults import DrawnFaults
from simulator.felt import Felt, felt_by
from simulator.invariants import Violation
from simulator.machine import Machine
from simulator.plan import Decision

READS_AHEAD_MAX: Final = 6
"""A start with one segment and no snapshot reads four times."""


class FifthFaults(DrawnFaults):
    """Carries out the decisions of draws 5."""

    def keep_disk_faults(self) -> None:
        """From now on a disk that is full, or refuses all writes, does so after a power failure."""
        for machine in self._machines.values():
            machine.keeps_disk_faults = True

    def stop(self) -> None:
        """All links are alike; cut and clogged ones are the network's to heal."""
        self._network.factors.clear()

    # ---- links -------------------------------------------------------------------------------

    def uneven_links(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        """Every link of these nodes takes so many times as long as others, each way by itself."""
        self._probes.hit("links_uneven")
        far = {machine.id for machine in machines}
        links = [(a, b) for a in self._machines for b in self._machines if a != b]
        factors = {}
        for link in links:
            if far & set(link):
                rng = Random(f"{decision.at_us}/{link}")  # noqa: S311 - simulated chance
                factors[link] = 1 + rng.randrange(max(1, decision.amount))
        self._network.factors.update(factors)

        def end() -> None:
            for link in factors:
                self._network.factors.pop(link, None)

        self._later(decision, end)
        times = ", ".join(f"{a} to {b}: {factor} times" for (a, b), factor in factors.items())
        return felt_by(decision, machines if factors else (), times)

    # ---- processes ---------------------------------------------------------------------------

    def kill_at_operation(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        """SIGKILL before one of the next operations on its disk: the page cache stays."""
        running = [machine for machine in machines if machine.is_up]
        for machine in running:
            machine.kill_at = machine.vfs.crash_at = machine.vfs.operations + decision.amount
            self._later(decision, partial(self._restart, machine))
        return felt_by(decision, running, f"after {decision.amount} operations of its disk")

    def start_read_error(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        """A process is killed, and one of the first reads of the next start fails with EIO.

        Raises:
            Violation: `I18`: the process started all the same.
        """
        hit = []
        for machine in machines:
            vfs = machine.vfs
            if vfs.failing is not None or vfs.crash_at is not None:
                continue
            machine.kill()
            vfs.failing = failing = FailingRead(1 + decision.amount % READS_AHEAD_MAX)
            machine.start()
            vfs.failing = None
            if failing.path is not None:
                if machine.is_up:
                    text = f"node {machine.id}: it started and could not read {failing.path}"
                    raise Violation("I18", text)
                self._probes.hit("start_refused_by_read_error")
            hit.append((machine, failing.path or "none that it reads"))
            self._later(decision, partial(self._restart, machine))
        paths = "; ".join(path for _, path in hit)
        return felt_by(decision, [machine for machine, _ in hit], paths)

    # ---- disks -------------------------------------------------------------------------------

    def lasting_disk_fault(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        """A disk is full, or takes no writes to the log, before and after a power failure.

        Who stopped by it is started first. A damaged disk, with which nobody starts, keeps its
        power: with it the record would go that tells damage from a torn write.
        """
        kind = "disk_full" if decision.amount % 2 else "write_error"
        lasting = replace(decision, kind=kind, amount=2 * decision.amount)
        felt = self._strike(lasting, machines)
        for machine in machines:
            third_us = decision.length_us // 3
            self._scheduler.after(third_us, partial(self._fail_power, machine))
            self._scheduler.after(2 * third_us, partial(self._start, machine))
        if felt is None:
            return felt_by(decision, machines, "its power fails")
        felt.how = ", ".join(filter(None, (kind, felt.how, "its power fails")))
        return felt

    def _fail_power(self, machine: Machine) -> None:
        if self._is_over():
            return
        self._restart(machine)
        if machine.is_up:
            machine.power_off()
            if machine.vfs.bytes_max is not None or machine.vfs.failing is not None:
                self._probes.hit("power_failed_on_a_faulty_disk")

    def _start(self, machine: Machine) -> None:
        if not self._is_over():
            self._restart(machine)


class FailingRead:
    """For `MemoryVfs.failing`: the n-th read gets EIO, once.

    Args:
        countdown: n, from 1 on.
    """

    def __init__(self, countdown: int) -> None:
        self._countdown = countdown
        self.path: str | None = None
        """What could not be read; None: there were fewer reads so far."""

    def __call__(self, kind: str, path: str, /) -> int | None:
        """The errno, None to let it happen."""
        if kind != "read":
            return None
        self._countdown -= 1
        if self._countdown != 0:
            return None
        self.path = path
        return errno.EIO
