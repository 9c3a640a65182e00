"""Mutants of the table of connections: it grows for ever, which only its size shows (I19)."""

from collections.abc import Callable
from typing import Any, Final

from network.connections import Connections
from simulator.mutants.registry import Mutant, Patches


def _keeps_closed_connections(patches: Patches) -> None:
    """A closed connection leaves the counts and stays in the table."""

    def make(_: Callable[..., Any]) -> Callable[..., Any]:
        def closed(self: Connections, connection_id: int) -> None:
            client = self._clients.get(connection_id)
            self._leave_backlog(connection_id)
            if client is not None:
                self._counts.remove(client.kind, client.host)
                self._gates[client.kind].leave(connection_id)

        return closed

    patches.method(Connections, "closed", make)


CONNECTIONS: Final = (
    Mutant(
        number=48,
        name="keeps-closed-connections",
        text="a closed connection stays in the table of connections",
        expected=("I19",),
        seeds_max=50,
        patch=_keeps_closed_connections,
    ),
)
