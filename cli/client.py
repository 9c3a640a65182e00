"""A small blocking Kafka client: one socket, one request at a time, versions by ApiVersions.

Tries the bootstrap addresses in order. Bodies have kio's newest shape in both directions; the codec
lowers and lifts them to the version that the node and we have in common.
"""

import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from cli.arguments import UsageError
from wire import codec
from wire.api_table import SCHEMAS
from wire.errors import LocalProtocolError, RemoteProtocolError

CONNECT_TIMEOUT_S: Final = 5.0
REQUEST_TIMEOUT_S: Final = 30.0
FRAME_BYTES_MAX: Final = 100 * 1024 * 1024
CLIENT_ID: Final = "kraftline-cli"
API_VERSIONS: Final = 18
API_VERSIONS_VERSION: Final = 3
UNSUPPORTED_VERSION: Final = 35


class ClusterError(Exception):
    """The cluster refused or could not be reached; the text is for the person."""


class Api(Protocol):
    """What commands need of a connection; tests pass recorded answers."""

    def call(self, api_key: int, body: Any) -> Any:
        """The response body for a request body, both of kio's newest version."""
        ...

    def supports(self, api_key: int) -> bool:
        """Whether the node lists the API."""
        ...


class Client:
    """A connection to one node that has told its API versions."""

    def __init__(self, host: str, port: int) -> None:
        """Connects and asks for the versions.

        Args:
            host: Name or address.
            port: TCP port.

        Raises:
            ClusterError: nobody answers, or not in Kafka's protocol.
        """
        self.address = f"{host}:{port}"
        self._correlation_id = 0
        self._ranges: dict[int, tuple[int, int]] = {}
        try:
            self._socket = socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S)
        except OSError as error:
            raise ClusterError(f"{self.address}: {error.strerror or error}") from error
        self._socket.settimeout(REQUEST_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._learn_versions()

    def supports(self, api_key: int) -> bool:
        """Whether the node and we have a version of the API in common."""
        return self._version(api_key) is not None

    def call(self, api_key: int, body: Any) -> Any:
        """Sends one request and waits for its answer.

        Raises:
            ClusterError: the connection broke, or the node does not serve the API.
        """
        version = self._version(api_key)
        if version is None:
            raise ClusterError(f"{self.address} does not serve API {api_key}")
        return self._exchange(api_key, version, body)

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    def _version(self, api_key: int) -> int | None:
        if api_key not in self._ranges:
            return None
        lowest, highest = self._ranges[api_key]
        version = min(highest, SCHEMAS[api_key].newest_version)
        return version if version >= lowest else None

    def _learn_versions(self) -> None:
        body = codec.default_request(API_VERSIONS)
        named = replace(body, client_software_name="kraftline", client_software_version="0.1.0")
        answer = self._exchange(API_VERSIONS, API_VERSIONS_VERSION, named)
        if int(answer.error_code) == UNSUPPORTED_VERSION:
            answer = self._exchange(API_VERSIONS, 0, body)
        if int(answer.error_code):
            raise ClusterError(f"{self.address}: ApiVersions: {error_text(answer.error_code)}")
        self._ranges = {
            int(api.api_key): (int(api.min_version), int(api.max_version))
            for api in answer.api_keys
        }

    def _exchange(self, api_key: int, version: int, body: Any) -> Any:
        self._correlation_id += 1
        try:
            frame = codec.encode_request(api_key, version, self._correlation_id, CLIENT_ID, body)
            self._socket.sendall(struct.pack(">i", len(frame)) + frame)
            (size_bytes,) = struct.unpack(">i", self._read(4))
            if not 4 <= size_bytes <= FRAME_BYTES_MAX:
                raise ClusterError(f"{self.address} does not speak Kafka's protocol")
            answer = self._read(size_bytes)
            if api_key == API_VERSIONS and answer[4:6] == struct.pack(">h", UNSUPPORTED_VERSION):
                version = 0  # a node that knows no such version answers in version 0
            correlation_id, response = codec.decode_response(api_key, version, answer)
        except OSError as error:
            raise ClusterError(f"{self.address}: {error.strerror or error}") from error
        except (RemoteProtocolError, LocalProtocolError) as error:
            raise ClusterError(f"{self.address}: {error}") from error
        if correlation_id != self._correlation_id:
            raise ClusterError(f"{self.address} answered another request")
        return response

    def _read(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            chunk = self._socket.recv(count - len(received))
            if not chunk:
                raise ClusterError(f"{self.address} closed the connection")
            received += chunk
        return bytes(received)


def parse_addresses(text: str) -> list[tuple[str, int]]:
    """`host:port,host:port` as pairs.

    Raises:
        UsageError: an entry has no port, or none that is a number.
    """
    found = []
    for entry in text.split(","):
        host, _, port = entry.strip().rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise UsageError(f"Invalid url in bootstrap.servers: {entry.strip()}")
        found.append((host.strip("[]"), int(port)))
    return found


def connections(addresses: Sequence[tuple[str, int]]) -> Iterator[Client]:
    """A connection to each address that answers, in order; each is closed when the next is taken.

    Raises:
        ClusterError: none answers.
    """
    errors = []
    reached = False
    for host, port in addresses:
        try:
            client = Client(host, port)
        except ClusterError as error:
            errors.append(str(error))
            continue
        reached = True
        try:
            yield client
        finally:
            client.close()
    if not reached:
        raise ClusterError("no node can be reached: " + "; ".join(errors))


def error_text(code: Any, message: str | None = None) -> str:
    """What a person is told of an error code."""
    return message or str(code.name).replace("_", " ").capitalize()
