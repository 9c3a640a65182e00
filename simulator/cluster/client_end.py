"""A client's end of a connection to a node: requests out, the bodies of responses in."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

from simulator.cluster.network import Network, Pipe
from wire.connections.client_connection import ClientConnection
from wire.errors import LocalProtocolError, RemoteProtocolError


class ClientEnd(ABC):
    """One connection; what arrives on a closed one is dropped.

    Args:
        host: number of the client.
        target: node.
        network: between them.
        connect: opens the pipe.
    """

    def __init__(
        self, host: int, target: int, network: Network, connect: Callable[[Self], Pipe]
    ) -> None:
        self.host = host
        self.target = target
        self._network = network
        self._protocol = self.make_protocol()
        self.is_closed = False
        self._pipe = connect(self)

    def make_protocol(self) -> ClientConnection:
        """The protocol of the connection: the newest versions that both sides know."""
        return ClientConnection("simulated")

    def send(self, api_key: int, body: Any) -> int:
        """Send a request now, or as soon as the versions are known; return its number."""
        correlation_id, content = self._protocol.request(api_key, body)
        if content:
            self._network.send(self._pipe, content, to_server=True)
        return correlation_id

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
            if self.is_closed:  # by whom the one before was for
                break
            self.answered(response.correlation_id, response.body)

    @abstractmethod
    def answered(self, correlation_id: int, body: Any) -> None:
        """Take the response to a request."""

    def disconnect(self) -> None:
        """Close the connection, unless it is."""
        if not self.is_closed:
            self.is_closed = True
            self._network.close(self._pipe, by_server=False)
