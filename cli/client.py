"""Small blocking Kafka client: one socket, one request at a time, versions from ApiVersions.

`cli.connect` chooses the nodes. The protocol is that of `wire.connections.client_connection`:
bodies have kio's newest shape in both directions.
"""

import select
import socket
from typing import Any, Final

from cli.connect import DEFAULT_CONFIG, ClusterError, UnreachableError
from cli.connection_config import ConnectionConfig
from wire.api_table import api_name
from wire.connections.client_connection import ClientConnection, Response
from wire.errors import LocalProtocolError, RemoteProtocolError

CONNECT_TIMEOUT_S: Final = 5.0
RECEIVE_BYTES: Final = 64 * 1024


class Client:
    """Connection to one node, with the API versions negotiated."""

    def __init__(self, host: str, port: int, config: ConnectionConfig = DEFAULT_CONFIG) -> None:
        """Connect and negotiate the versions.

        Args:
            host: Host name or address.
            port: TCP port.
            config: its time-out is that of the connection too, if it is less than its own.

        Raises:
            ClusterError: the node does not answer, or not in Kafka's protocol.
        """
        self.address = f"{host}:{port}"
        self._connection = ClientConnection(config.client_id)
        timeout_s = config.request_timeout_ms / 1000
        try:
            self._socket = socket.create_connection(
                (host, port), timeout=min(CONNECT_TIMEOUT_S, timeout_s)
            )
        except OSError as error:
            raise self._error(error) from error
        self._socket.settimeout(timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._send(self._connection.opening_bytes())
            while not self._connection.is_negotiated:
                self._receive()
        except ClusterError:
            self.close()
            raise

    def supports(self, api_key: int) -> bool:
        """Return True if the node and this client have a version of the API in common."""
        return self._connection.negotiated_version(api_key) is not None

    def version_of(self, api_key: int) -> int:
        """The version that is used of an API; -1 for none."""
        version = self._connection.negotiated_version(api_key)
        return -1 if version is None else version

    def call(self, api_key: int, body: Any) -> Any:
        """Send one request and wait for its response.

        Raises:
            ClusterError: the connection broke, or the node does not serve the API.
        """
        self.begin(api_key, body)
        while not (responses := self._receive()):
            pass
        return responses[0].body

    def begin(self, api_key: int, body: Any) -> None:
        """Send one request whose response is waited for by `poll`.

        Raises:
            ClusterError: the connection broke, or the node does not serve the API.
        """
        try:
            _, content = self._connection.request(api_key, body)
        except LocalProtocolError as error:
            raise self._not_served(api_key) from error
        self._send(content)

    def poll(self, timeout_s: float) -> Any:
        """The response to the request that was begun; None if it is not there in time.

        Raises:
            ClusterError: the connection broke.
        """
        responses: list[Response] = []
        while not responses:
            if not select.select([self._socket], [], [], timeout_s)[0]:
                return None
            responses = self._receive()
        return responses[0].body

    def send(self, api_key: int, body: Any) -> None:
        """Send one request that has no response.

        Raises:
            ClusterError: the connection broke, or the node does not serve the API.
        """
        try:
            content = self._connection.request_without_response(api_key, body)
        except LocalProtocolError as error:
            raise self._not_served(api_key) from error
        self._send(content)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _send(self, content: bytes) -> None:
        try:
            self._socket.sendall(content)
        except OSError as error:
            raise self._error(error) from error

    def _receive(self) -> list[Response]:
        """Read once and return the completed responses; sends requests that this releases."""
        try:
            received = self._socket.recv(RECEIVE_BYTES)
            if not received:
                raise UnreachableError(f"{self.address} closed the connection")
            responses = self._connection.receive(received)
        except OSError as error:
            raise self._error(error) from error
        except RemoteProtocolError as error:
            raise ClusterError(
                f"{self.address} does not speak Kafka's protocol: {error}"
            ) from error
        released = self._connection.bytes_to_send()
        if released:
            self._send(released)
        return responses

    def _not_served(self, api_key: int) -> ClusterError:
        return ClusterError(
            f"{self.address} does not serve {api_name(api_key)} in a version known here"
        )

    def _error(self, error: OSError) -> UnreachableError:
        return UnreachableError(f"{self.address}: {error.strerror or error}")
