"""Both ends of the connections of a machine, each bound to an incarnation of its process."""

from typing import TYPE_CHECKING

from kernel import events

if TYPE_CHECKING:
    from simulator.cluster.machine import Machine


class Inbound:
    """The server's side of a connection, bound to an incarnation."""

    def __init__(self, machine: "Machine", connection_id: int, incarnation: int) -> None:
        self._machine = machine
        self._connection_id = connection_id
        self._incarnation = incarnation

    @property
    def host(self) -> int:
        """Number of the machine."""
        return self._machine.id

    def opened(self) -> None:
        """Do nothing: `accept` has posted the event."""

    def received(self, data: bytes) -> None:
        """Post bytes of the client."""
        event = events.BytesReceived(self._connection_id, data)
        self._machine.post(event, self._incarnation)

    def closed(self, *, refused: bool) -> None:
        """Drop the connection: the client closed it or is gone."""
        del refused
        self._machine.drop_inbound(self._connection_id, self._incarnation)


class Outbound:
    """The client's side of a connection to another node."""

    def __init__(self, machine: "Machine", peer_id: int, incarnation: int) -> None:
        self._machine = machine
        self._peer_id = peer_id
        self._incarnation = incarnation

    @property
    def host(self) -> int:
        """Number of the machine."""
        return self._machine.id

    def opened(self) -> None:
        """Post that the connection is established."""
        self._machine.post(events.PeerConnected(self._peer_id), self._incarnation)

    def received(self, data: bytes) -> None:
        """Post bytes of the other node."""
        self._machine.post(events.PeerBytes(self._peer_id, data), self._incarnation)

    def closed(self, *, refused: bool) -> None:
        """Drop the connection: the other node closed or refused it, or is gone."""
        self._machine.drop_outbound(self._peer_id, self._incarnation, refused=refused)
