"""Who looks at every step of a machine: the world, with its invariants."""

from typing import TYPE_CHECKING, Protocol

from kernel import effects as out
from kernel import events

if TYPE_CHECKING:
    from simulator.cluster.machine import Machine


class Watcher(Protocol):
    """Who looks at every step."""

    def created(self, machine: "Machine") -> None:
        """A process has its kernel and has not taken its first step."""
        ...

    def before_step(self, machine: "Machine", event: events.Event | None) -> None:
        """An event is about to be taken; None: the process starts."""
        ...

    def after_step(
        self, machine: "Machine", event: events.Event | None, effects: list[out.Effect]
    ) -> None:
        """A step is done; its effects have not been performed."""
        ...

    def process_ended(self, machine: "Machine", reason: str, error: BaseException | None) -> None:
        """The process is gone: killed, without power, stopped by an error, or shut down."""
        ...
