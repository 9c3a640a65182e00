"""Interface of the watcher of every step: the world, with its invariants."""

from typing import TYPE_CHECKING, Protocol

from kernel import effects as out
from kernel import events

if TYPE_CHECKING:
    from simulator.cluster.machine import Machine


class Watcher(Protocol):
    """Observer of every step of a machine."""

    def created(self, machine: "Machine") -> None:
        """Attach to a process that has its kernel and has not taken its first step."""
        ...

    def before_step(self, machine: "Machine", event: events.Event | None) -> None:
        """Look at a machine before it takes an event; None: the process starts."""
        ...

    def after_step(
        self, machine: "Machine", event: events.Event | None, effects: list[out.Effect]
    ) -> None:
        """Look at a step before its effects are performed."""
        ...

    def process_ended(self, machine: "Machine", reason: str, error: BaseException | None) -> None:
        """Note the end of a process: killed, without power, stopped by an error, or shut down."""
        ...
