"""A client's connection to one broker: requests with an answer or its absence, any number open."""

from collections.abc import Callable
from typing import Any

from simulator.cluster.network import Network, Pipe
from simulator.cluster.scheduler import Scheduler
from wire.connections.client_connection import ClientConnection
from wire.errors import LocalProtocolError, RemoteProtocolError

Answered = Callable[[Any], None]
"""Gets the body of the response; None if the connection ended or time ran out."""


class ClientLink:
    """One connection; the first request that is not answered in time closes it.

    Args:
        host: number of the client.
        target: node.
        connect: opens the pipe.
    """

    def __init__(
        self,
        host: int,
        target: int,
        network: Network,
        scheduler: Scheduler,
        connect: "Callable[[ClientLink], Pipe]",
    ) -> None:
        self.host = host
        self.target = target
        self._network = network
        self._scheduler = scheduler
        self._protocol = ClientConnection("simulated")
        self._awaited: dict[int, Answered] = {}
        self.is_closed = False
        self._pipe = connect(self)

    def request(self, api_key: int, body: Any, answered: Answered, within_us: int) -> None:
        """Send now, or as soon as the versions are known."""
        if self.is_closed:
            answered(None)
            return
        correlation_id, content = self._protocol.request(api_key, body)
        self._awaited[correlation_id] = answered
        if content:
            self._network.send(self._pipe, content, to_server=True)
        self._scheduler.after(within_us, lambda: self._time_out(correlation_id))

    def _time_out(self, correlation_id: int) -> None:
        if correlation_id in self._awaited:
            self.close()

    def opened(self) -> None:
        """Ask for the versions."""
        self._network.send(self._pipe, self._protocol.opening_bytes(), to_server=True)

    def received(self, data: bytes) -> None:
        """Take bytes of the node."""
        if self.is_closed:
            return
        try:
            responses = self._protocol.receive(data)
        except (RemoteProtocolError, LocalProtocolError) as error:
            raise AssertionError(f"a node sent nonsense: {error}") from error
        content = self._protocol.bytes_to_send()
        if content:
            self._network.send(self._pipe, content, to_server=True)
        for response in responses:
            self._awaited.pop(response.correlation_id)(response.body)

    def closed(self, *, refused: bool) -> None:
        """End what is open."""
        del refused
        self._end()

    def close(self) -> None:
        """Close the connection."""
        if not self.is_closed:
            self._network.close(self._pipe, by_server=False)
        self._end()

    def _end(self) -> None:
        self.is_closed = True
        awaited, self._awaited = self._awaited, {}
        for answered in awaited.values():
            answered(None)
