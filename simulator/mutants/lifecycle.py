"""Mutants of the life cycle of brokers and processes: registration, sessions, exits."""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from kernel.kernel import Kernel
from kernel.lifecycle.broker_lifecycle import BrokerLifecycle
from quorum_controller.brokers.liveness import Liveness
from raft.effects import NotifyEffect, ShutdownComplete
from simulator.mutants.registry import SHORT, Mutant, Patches

Original = Callable[..., Any]


def _leaves_when_its_id_is_in_use(patches: Patches) -> None:
    """A broker does not wait for the session of its former process to end."""

    def make(original: Original) -> Original:
        def on_id_in_use(self: BrokerLifecycle) -> None:
            broker = self._config.broker
            limit_ms = max(broker.initial_registration_timeout_ms, broker.session_timeout_ms)
            self._id_in_use_ms = self._clock.now_ms - limit_ms
            original(self)

        return on_id_in_use

    patches.method(BrokerLifecycle, "_on_id_in_use", make)


def _never_exits(patches: Patches) -> None:
    """A process goes on after its replica has shut down."""

    def make(original: Original) -> Original:
        def on_notify(self: Kernel, effect: NotifyEffect) -> None:
            if not isinstance(effect, ShutdownComplete):
                original(self, effect)

        return on_notify

    patches.method(Kernel, "_on_notify", make)


def _sessions_never_end(patches: Patches) -> None:
    """A controller fences no silent broker."""
    for name in ("stale_broker", "next_deadline_ms"):
        patches.method(Liveness, name, lambda _: lambda *_: None)


def _ends_sessions_early(patches: Patches) -> None:
    """A controller waits a third of the session time-out for a broker."""

    def make(original: Original) -> Original:
        def begin(self: Liveness, session_timeout_ms: int, now_ms: int) -> None:
            original(self, session_timeout_ms // 3, now_ms)

        return begin

    patches.method(Liveness, "__init__", make)


LIFECYCLE: Final = (
    Mutant(
        number=44,
        name="leaves-when-its-id-is-in-use",
        text="a broker exits with 1 as soon as the session of its former process delays it",
        expected=("I20",),
        seeds_max=50,
        patch=_leaves_when_its_id_is_in_use,
    ),
    Mutant(
        number=45,
        name="never-exits",
        text="a process does not exit once its shutdown is complete",
        expected=("liveness",),
        seeds_max=50,
        patch=_never_exits,
        options=replace(SHORT, faults=("terminate",)),
    ),
    Mutant(
        number=46,
        name="sessions-never-end",
        text="a broker that sends no heartbeats is never fenced",
        expected=("liveness",),
        seeds_max=100,
        patch=_sessions_never_end,
    ),
    Mutant(
        number=63,
        name="ends-sessions-early",
        text="a broker is fenced after a third of the session time-out",
        expected=("I14",),
        seeds_max=50,
        patch=_ends_sessions_early,
    ),
)
