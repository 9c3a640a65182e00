# ruff: noqa: SLF001 - the other way in which a machine steps its kernel
"""Steps in two halves, by the policy of the asyncio driver (kernel/turn.py, node/driver.py).

Without it, a step is one event and both halves at once. Here what arrives within a turn is taken
together, and `Turn` decides what leaves first and where the log is flushed; durations, and which
disk is quick, are drawn. `Kernel.take` allows more than the driver does: until what was sent can be
answered, other events may come between the halves.

Kafka applies committed records on a thread that can fall behind; here they are applied in the
second half of a step. The nearest to a stalled thread is a second half that takes long:
committed records are published late, and what arrives meanwhile is taken together after it.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final

from kernel import effects as out
from kernel import events
from kernel.turn import Turn
from raft.core import RaftCore
from simulator.campaign.draw import Settings
from simulator.campaign.probes import Probes
from simulator.checks.invariants import Invariants
from simulator.cluster.instance_methods import replace_method
from simulator.cluster.machine import STOPPING, Machine, Power
from simulator.cluster.memory_vfs import SimulatedCrashError

STALL_US_MAX: Final = 300_000
"""Well below the silence of a node that the cluster must tolerate."""
STALL_CHANCE: Final = 0.2
APART_CHANCE: Final = 0.3
QUICK_CHANCE: Final = 0.5
PAUSED_LOOK_US: Final = 1_000


class EventLoop:
    """Steps of one machine in two halves; `Machine.post` passes the events.

    Args:
        machine: owner of the kernel.
        settings: `turn_us`, `apply_stall_us`, `delay_us`, `has_quick_disks`.
        rng: shared by all machines.
        disks: chance of quick flushes, shared by all machines too.
        is_over: true when faults have stopped: then every event is taken at once, and settled.
        invariants: checked between the events of the raft core, as if these came in steps of
            their own.
        probes: marks to hit.
    """

    def __init__(
        self,
        machine: Machine,
        settings: Settings,
        rng: Random,
        *,
        disks: Random,
        is_over: Callable[[], bool],
        invariants: Invariants,
        probes: Probes,
    ) -> None:
        self._machine = machine
        self._scheduler = machine.scheduler
        self._watcher = machine.watcher
        self._settings = settings
        self._rng = rng
        self._disks = disks
        self._is_over = is_over
        self._invariants = invariants
        self._probes = probes
        self._waiting: list[events.Event] = []
        self._waiting_for = -1
        """Incarnation that the waiting events are for."""
        self._settle_us: int | None = None
        """Time of the second half; None: the kernel has settled."""
        self._is_stalled = False
        self._watched: RaftCore | None = None
        self._turn = Turn(self)
        self._is_taking = False
        self._behind: out.RunFlush | None = None
        """Flush to run when the turn is over."""

    # ---- events --------------------------------------------------------------------------------

    def post(self, event: events.Event) -> None:
        """Queue an event of the running process for the turn."""
        machine = self._machine
        if self._waiting_for != machine.incarnation:
            self._begin(machine.incarnation)
        self._waiting.append(event)
        if len(self._waiting) == 1:
            self._after(self._drawn_us(self._settings.turn_us), self._take_waiting)

    def _begin(self, incarnation: int) -> None:
        """Forget what waited for an older process."""
        self._waiting.clear()
        self._waiting_for = incarnation
        self._settle_us = None
        self._is_stalled = self._is_taking = False
        self._behind = None

    def _after(self, delay_us: int, action: Callable[[], None]) -> None:
        incarnation = self._machine.incarnation

        def act() -> None:
            if self._machine.incarnation == incarnation:
                action()

        self._scheduler.after(delay_us, act)

    def _drawn_us(self, mean_us: int) -> int:
        return 0 if not mean_us or self._is_over() else int(self._rng.expovariate(1.0) * mean_us)

    # ---- the first half ------------------------------------------------------------------------

    def _take_waiting(self) -> None:
        machine = self._machine
        if machine.power is Power.PAUSED:
            machine._paused[:0] = self._waiting
            self._waiting.clear()
            return
        if self._is_stalled:
            return  # taken as soon as it has settled
        self._end_former_turn()
        if machine.kernel is None or not self._waiting:
            return
        if len(self._waiting) > 1:
            self._probes.hit("events_taken_together")
        if self._settle_us is not None:
            self._probes.hit("event_between_halves")
        self._is_taking = True
        is_running = self._turn.take()
        self._is_taking = False
        if is_running and self._settle_us is None:
            self._plan_settling()

    def _end_former_turn(self) -> None:
        """Do what the turn before left and is overdue, by a pause or a slow disk."""
        if self._settle_us is not None and self._scheduler.now_us > self._settle_us:
            self._settle()
        if self._behind is not None and self._settle_us is None and self._machine.is_up:
            self._flush_behind()

    # ---- interface of a turn (kernel/turn.py) -------------------------------------------------

    def take(self) -> list[out.Effect] | None:
        """Take every event that waits; None: the process ended in it."""
        machine, kernel = self._machine, self._machine.kernel
        assert kernel is not None
        taken = self._waiting[:]
        self._waiting.clear()
        self._watch(kernel.core)
        for event in taken:
            self._watcher.before_step(machine, event)
        effects: list[out.Effect] | None = self._guarded(kernel.take, taken, machine.now())
        if effects is not None:
            self._watcher.after_step(machine, taken[-1], effects)
        return effects

    def settle(self) -> list[out.Effect] | None:
        """Settle the rest of the step; None: the process ended in it."""
        machine, kernel = self._machine, self._machine.kernel
        assert kernel is not None
        effects: list[out.Effect] | None = self._guarded(kernel.settle)
        if effects is not None:
            self._watcher.after_step(machine, events.TimeAdvanced(), effects)
        return effects

    def carry_out(self, effect: out.Effect) -> bool:
        """Perform an effect as a machine does; False: the process ended in it."""
        machine = self._machine
        incarnation = machine.incarnation
        machine._perform[type(effect)](effect)
        return machine.incarnation == incarnation

    @property
    def has_waiting(self) -> bool:
        """True if events wait for the next turn."""
        return bool(self._waiting)

    @property
    def is_disk_quick(self) -> bool:
        """True by chance; before draws 7 only where a flush that is quick is done at once."""
        if self._settings.has_quick_disks:
            return self._disks.random() < QUICK_CHANCE
        if self._turn.has_sent or not self._is_taking:
            return False
        return self._rng.random() < QUICK_CHANCE

    def flush_here(self, effect: out.RunFlush) -> bool:
        """Flush now; its end is taken in this half, or in a turn of its own."""
        incarnation = self._machine.incarnation
        self._guarded(effect.plan.run)
        if self._machine.incarnation != incarnation:
            return False
        done = events.FlushDone(effect.token)
        if self._is_taking:
            self._probes.hit("flushed_between_halves")
            self._waiting.append(done)
        else:
            self.post(done)
        return True

    def flush_on_thread(self, effect: out.RunFlush) -> None:
        """Flush on a thread, for as long as the disk of the machine takes."""
        self._machine._perform[out.RunFlush](effect)

    def flush_behind(self, effect: out.RunFlush) -> None:
        """Flush when the turn is over, a moment later or before the next one."""
        assert self._behind is None, "one flush at a time"
        self._behind = effect

    def _flush_behind(self) -> None:
        if self._machine.power is Power.PAUSED:
            self._after(PAUSED_LOOK_US, self._flush_behind)
            return
        effect, self._behind = self._behind, None
        if effect is not None:
            self._probes.hit("flushed_behind_a_turn")
            self._turn.flush_behind(effect)

    # ---- steps that the invariants see --------------------------------------------------------

    def _watch(self, core: RaftCore) -> None:
        """Check the invariants after each of several raft events in one step."""
        if self._watched is core:
            return
        self._watched = core
        step: Callable[[Any, int], Any] = core.step
        raft = core._state
        seen: list[Any] = [raft.role, raft.high_watermark]

        def watched(event: Any, now_ms: int) -> Any:
            if raft.role is not seen[0] or raft.high_watermark != seen[1]:
                seen[:] = raft.role, raft.high_watermark
                self._invariants.after_step(self._machine, events.TimeAdvanced())
            return step(event, now_ms)

        replace_method(core, "step", watched)

    # ---- the second half -----------------------------------------------------------------------

    def _plan_settling(self) -> None:
        kernel = self._machine.kernel
        assert kernel is not None
        settings, delay_us = self._settings, 0
        if not self._is_over():
            committed = kernel.core.high_watermark or 0
            applies = committed > kernel.loader.end_offset
            if settings.apply_stall_us and applies and self._rng.random() < STALL_CHANCE:
                delay_us = min(STALL_US_MAX, self._drawn_us(settings.apply_stall_us))
                self._is_stalled = True
                self._probes.hit("apply_stalled")
            elif settings.turn_us and self._rng.random() < APART_CHANCE:
                delay_us = self._rng.randrange(settings.delay_us)
        self._settle_us = self._scheduler.now_us + delay_us
        if delay_us == 0:
            self._settle()
        else:
            self._after(delay_us, self._settle)

    def _settle(self) -> None:
        machine, kernel = self._machine, self._machine.kernel
        assert kernel is not None
        if self._settle_us is None:
            return
        if machine.power is Power.PAUSED:
            self._after(PAUSED_LOOK_US, self._settle)
            return
        self._settle_us = None
        self._is_stalled = False
        if not self._turn.settle():
            return
        machine._set_timer()
        if self._behind is not None:
            late_us = 0 if self._is_over() else self._disks.randrange(self._settings.delay_us)
            self._after(late_us, self._flush_behind)
        if self._waiting:
            self._after(0, self._take_waiting)

    def _guarded(self, act: Callable[..., Any], *given: Any) -> Any:
        """Call an act; None: the process ended in it."""
        try:
            return act(*given)
        except SimulatedCrashError as crash:
            self._machine.crashed(crash)
        except STOPPING as error:
            self._machine._stop(error)
        return None
