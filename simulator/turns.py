# ruff: noqa: SLF001 - the other way in which a machine steps its kernel
"""Steps in two halves, as the asyncio driver makes them (docs/decisions/0013, node/driver.py).

Everybody else's step is one event and both halves at once. Here what arrives within a turn is taken
together; what the first half sends leaves before the second; a flush that nobody needs to be sent
anything before is done between them, and what follows from it is taken too. `Kernel.take` allows
more: until what was sent can be answered, other events may come between the halves.

Kafka applies committed records on a thread that can fall behind; here they are applied in the
second half of a step. What comes nearest to a stalled thread is a second half that takes long:
committed records are published late, and what arrives meanwhile is taken together after it.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final

from kernel import effects as out
from kernel import events
from raft.core import RaftCore
from simulator.draw import Settings
from simulator.invariants import Invariants
from simulator.machine import STOPPING, Machine, Power
from simulator.probes import Probes
from storage.memory_vfs import SimulatedCrashError

STALL_US_MAX: Final = 300_000
"""Well below what the cluster has to bear from a node in the liveness phase before faults stop."""
STALL_CHANCE: Final = 0.2
APART_CHANCE: Final = 0.3
PAUSED_LOOK_US: Final = 1_000


class Turns:
    """How one machine steps; it is asked by `Machine.post`.

    Args:
        machine: whose kernel.
        settings: `turn_us`, `apply_stall_us`, `delay_us`.
        rng: of all machines.
        is_over: whether faults have stopped: then every event is taken at once, and settled.
        invariants: look at the kernel between the events of its raft core, as they would if these
            came in steps of their own.
        probes: marks.
    """

    def __init__(
        self,
        machine: Machine,
        settings: Settings,
        rng: Random,
        *,
        is_over: Callable[[], bool],
        invariants: Invariants,
        probes: Probes,
    ) -> None:
        self._machine = machine
        self._settings = settings
        self._rng = rng
        self._is_over = is_over
        self._invariants = invariants
        self._probes = probes
        self._waiting: list[events.Event] = []
        self._waiting_for = -1
        """Incarnation that the waiting events are for."""
        self._settle_us: int | None = None
        """When the second half is due; None: the kernel has settled."""
        self._is_stalled = False
        self._watched: RaftCore | None = None

    # ---- events --------------------------------------------------------------------------------

    def post(self, event: events.Event) -> None:
        """An event of the running process; it waits for the turn."""
        machine = self._machine
        if self._waiting_for != machine.incarnation:
            self._begin(machine.incarnation)
        self._waiting.append(event)
        if len(self._waiting) == 1:
            self._after(self._drawn_us(self._settings.turn_us), self._take_waiting)

    def _begin(self, incarnation: int) -> None:
        """A new process: whatever waited was for an older one."""
        self._waiting.clear()
        self._waiting_for = incarnation
        self._settle_us = None
        self._is_stalled = False

    def _after(self, delay_us: int, action: Callable[[], None]) -> None:
        incarnation = self._machine.incarnation

        def act() -> None:
            if self._machine.incarnation == incarnation:
                action()

        self._machine.scheduler.after(delay_us, act)

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
        if self._settle_us is not None and machine.scheduler.now_us > self._settle_us:
            self._settle()  # overdue by a pause
            if machine.kernel is None:
                return
        taken = self._waiting[:]
        self._waiting.clear()
        if not taken:
            return
        if len(taken) > 1:
            self._probes.hit("events_taken_together")
        if self._settle_us is not None:
            self._probes.hit("event_between_halves")
        incarnation = machine.incarnation
        self._take(taken)
        if machine.incarnation == incarnation and self._settle_us is None:
            self._plan_settling()

    def _take(self, taken: list[events.Event]) -> None:
        machine, kernel = self._machine, self._machine.kernel
        assert kernel is not None
        self._watch(kernel.replica.core)
        for event in taken:
            machine.watcher.before_step(machine, event)
        effects = self._guarded(kernel.take, taken, machine.now())
        if effects is not None:
            machine.watcher.after_step(machine, taken[-1], effects)
            self._perform(effects)

    def _perform(self, effects: list[out.Effect]) -> None:
        """As the driver: a flush is quick when nothing leaves before it and no follower waits."""
        machine = self._machine
        incarnation, has_sent = machine.incarnation, False
        done: events.Event | None = None
        for effect in effects:
            has_sent = has_sent or type(effect) in (out.SendBytes, out.SendPeerBytes)
            is_quick = type(effect) is out.RunFlush and not has_sent and not effect.has_followers
            if is_quick and self._rng.random() < 0.5:
                assert type(effect) is out.RunFlush
                if not self._ran(effect.plan.run):
                    return
                done = events.FlushDone(effect.token)
            else:
                machine._perform[type(effect)](effect)
            if machine.incarnation != incarnation:
                return
        if done is not None:
            self._probes.hit("flushed_between_halves")
            self._take([done])

    def _watch(self, core: RaftCore) -> None:
        """Several events of raft in one step: let the invariants see what each of them left."""
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

        setattr(core, "step", watched)  # noqa: B010 - an instance attribute hides the method

    # ---- the second half -----------------------------------------------------------------------

    def _plan_settling(self) -> None:
        machine, kernel = self._machine, self._machine.kernel
        assert kernel is not None
        settings, delay_us = self._settings, 0
        if not self._is_over():
            committed = kernel.replica.core.high_watermark or 0
            applies = committed > kernel.state.loader.end_offset
            if settings.apply_stall_us and applies and self._rng.random() < STALL_CHANCE:
                delay_us = min(STALL_US_MAX, self._drawn_us(settings.apply_stall_us))
                self._is_stalled = True
                self._probes.hit("apply_stalled")
            elif settings.turn_us and self._rng.random() < APART_CHANCE:
                delay_us = self._rng.randrange(settings.delay_us)
        self._settle_us = machine.scheduler.now_us + delay_us
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
        effects = self._guarded(kernel.settle)
        if effects is not None:
            machine._after(events.TimeAdvanced(), effects)
            if machine.kernel is kernel and self._waiting:
                self._after(0, self._take_waiting)

    def _guarded(self, act: Callable[..., Any], *given: Any) -> Any:
        """What an act gives; None if the process is gone by it."""
        try:
            return act(*given)
        except SimulatedCrashError as crash:
            self._machine.crashed(crash)
        except STOPPING as error:
            self._machine._stop(error)
        return None

    def _ran(self, act: Callable[[], object]) -> bool:
        """Whether the process is still there after an act."""
        incarnation = self._machine.incarnation
        self._guarded(act)
        return self._machine.incarnation == incarnation
