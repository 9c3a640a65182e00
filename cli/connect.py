"""Calls of commands to a cluster, each to the node that answers it, and Kafka's error messages.

Nothing here loads the protocol before the first connection, so that usage errors and help appear
at once. A broker answers or forwards all requests except those about one broker; of controllers
only the leader answers, so it is looked up.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import msgspec

from cli.arguments import UsageError, check_bootstrap, shortened
from cli.connection_config import ConnectionConfig, connection_config
from cli.kafka_errors import message_of

if TYPE_CHECKING:
    from cli.client import Client
    from wire.messages.codec import Schema

DESCRIBE_CLUSTER: Final = 60
ENDPOINT_BROKERS: Final = 1
ENDPOINT_CONTROLLERS: Final = 2
DEFAULT_CONFIG: Final = ConnectionConfig()


class ClusterError(Exception):
    """A refusal of the cluster, or no connection to it; the text is shown to the person."""


class UnreachableError(ClusterError):
    """No connection to a node, or one that broke."""


class Api(Protocol):
    """Interface of commands to a cluster; tests pass recorded answers."""

    def call(self, api_key: int, body: Any, node: int | None = None) -> Any:
        """Return the response body for a request body, both of kio's newest version.

        Args:
            api_key: The API.
            body: Instance of kio's newest request class.
            node: The node that must answer; None for any (of controllers: the leader).
        """
        ...

    def supports(self, api_key: int) -> bool:
        """Return True if the node lists the API."""
        ...


Connect = Callable[[Any], AbstractContextManager[Api]]
"""Function from parsed options to the cluster they name."""


class Cluster:
    """Connections to the nodes of one cluster, opened on demand."""

    def __init__(
        self,
        addresses: Sequence[tuple[str, int]],
        *,
        is_controllers: bool,
        config: ConnectionConfig = DEFAULT_CONFIG,
    ) -> None:
        """Connect to the first address that answers.

        Args:
            addresses: Host and port of each.
            is_controllers: They are controllers.
            config: Of each connection.

        Raises:
            ClusterError: none answers.
        """
        self._clients: dict[int | None, Client] = {}
        self._is_controllers = is_controllers
        self._given = addresses
        self._config = config
        self._clients[None] = _first(addresses, config)
        if is_controllers:
            self._go_to_leader()

    def __enter__(self) -> Self:
        """Return the cluster itself."""
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Close every connection."""
        for client in self._clients.values():
            client.close()

    def supports(self, api_key: int) -> bool:
        """Return True if the node and this client have a version of the API in common."""
        return self._client(None).supports(api_key)

    def call(self, api_key: int, body: Any, node: int | None = None) -> Any:
        """Send one request and wait for its response.

        Raises:
            ClusterError: the connection broke, the node is unknown or does not serve the API.
        """
        client = self._client(node)
        try:
            return client.call(api_key, body)
        except BaseException:  # a signal too: an answer that comes later is nobody's
            self._forget(node)
            raise

    def send(self, api_key: int, body: Any, node: int) -> None:
        """Send one request that has no response.

        Raises:
            ClusterError: the connection broke, the node is unknown or does not serve the API.
        """
        client = self._client(node)
        try:
            client.send(api_key, body)
        except BaseException:
            self._forget(node)
            raise

    def version_of(self, api_key: int, node: int) -> int:
        """The version that is used of an API at a node; -1 for none."""
        return self._client(node).version_of(api_key)

    def ask(self, address: tuple[str, int], api_key: int, body: Any) -> Any:
        """Return the response of the node at an address, over a connection of its own.

        Raises:
            ClusterError: no connection, or the node does not serve the API.
        """
        from cli.client import Client  # noqa: PLC0415  # loads the protocol

        client = Client(*address, self._config)
        try:
            return client.call(api_key, body)
        finally:
            client.close()

    def begin(self, api_key: int, body: Any, node: int) -> "PendingCall":
        """Send one request over a connection of its own, where nothing waits behind it.

        Raises:
            ClusterError: the connection broke, the node is unknown or does not serve the API.
        """
        client = self._opened(node)
        try:
            client.begin(api_key, body)
        except BaseException:
            client.close()
            raise
        return PendingCall(client)

    def _forget(self, node: int | None) -> None:
        """Close a connection that failed: the next call opens a new one."""
        client = self._clients.pop(node, None)
        if client is not None:
            client.close()

    def _client(self, node: int | None) -> "Client":
        if node is None and node not in self._clients:
            self._clients[None] = _first(self._given, self._config)
        if node not in self._clients:
            self._clients[node] = self._opened(node or 0)
        return self._clients[node]

    def _opened(self, node: int) -> "Client":
        """A new connection to a node."""
        from cli.client import Client  # noqa: PLC0415  # loads the protocol

        address = self._addresses()[1].get(node)
        if address is None:
            raise UnreachableError(f"node {node} is not known to the cluster")
        return Client(*address, self._config)

    def _addresses(self) -> tuple[int, dict[int, tuple[str, int]]]:
        """Id of the active controller (-1 if unknown), and the addresses of the nodes."""
        kind = ENDPOINT_CONTROLLERS if self._is_controllers else ENDPOINT_BROKERS
        answer = self.call(DESCRIBE_CLUSTER, describe_cluster_request(kind))
        nodes = {int(node.broker_id): (str(node.host), int(node.port)) for node in answer.brokers}
        return int(answer.controller_id), nodes

    def _go_to_leader(self) -> None:
        if not self.supports(DESCRIBE_CLUSTER):
            return
        leader_id, addresses = self._addresses()
        address = addresses.get(leader_id)
        first = self._clients[None]
        if address is None or f"{address[0]}:{address[1]}" == first.address:
            return
        from cli.client import Client  # noqa: PLC0415  # loads the protocol

        # a leader that cannot be reached is no error yet: the connected node may answer as well
        with contextlib.suppress(ClusterError):
            self._clients[None] = Client(*address, self._config)
            first.close()


class PendingCall:
    """A request that was sent, and the connection that its answer comes over."""

    def __init__(self, client: "Client") -> None:
        """A request that was begun; the connection is closed with it."""
        self._client = client

    def poll(self, timeout_ms: int) -> Any:
        """The answer; None if it is not there in time.

        Raises:
            ClusterError: the connection broke.
        """
        return self._client.poll(timeout_ms / 1000)

    def close(self) -> None:
        """Wait no longer."""
        self._client.close()


def _first(addresses: Sequence[tuple[str, int]], config: ConnectionConfig) -> "Client":
    from cli.client import Client  # noqa: PLC0415  # loads the protocol

    errors = []
    for host, port in addresses:
        try:
            return Client(host, port, config)
        except ClusterError as error:
            errors.append(str(error))
    raise UnreachableError("no node can be reached: " + "; ".join(errors))


def open_cluster(options: Any) -> Cluster:
    """Connect to the cluster that --bootstrap-server or --bootstrap-controller names.

    Raises:
        UsageError: none or both are given, or not addresses; the configs cannot be followed.
        ClusterError: no node answers.
    """
    check_bootstrap(options)
    controllers = getattr(options, "bootstrap_controller", None)
    where = options.bootstrap_server if controllers is None else controllers
    return Cluster(
        parse_addresses(where),
        is_controllers=controllers is not None,
        config=connection_config(options),
    )


def parse_addresses(text: str) -> list[tuple[str, int]]:
    """Pairs of `host:port,host:port`.

    Raises:
        UsageError: an entry has no port, or not a number.
    """
    found = []
    for entry in text.split(","):
        host, _, port = entry.strip().rpartition(":")
        is_port = port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536
        if not host or not is_port:
            raise UsageError(f"Invalid url in bootstrap.servers: {shortened(entry.strip())}")
        found.append((host.strip("[]"), int(port)))
    return found


def newest(api_key: int, kind: str = "request") -> "Schema":
    """Kio's newest schema module of an API."""
    from wire.messages import codec  # noqa: PLC0415  # loads the protocol

    return codec.newest(api_key, "request" if kind == "request" else "response")


def describe_cluster_request(endpoint_type: int, *, include_fenced: bool = False) -> Any:
    """A DescribeCluster request."""
    return newest(DESCRIBE_CLUSTER).DescribeClusterRequest(
        include_cluster_authorized_operations=False,
        endpoint_type=endpoint_type,
        include_fenced_brokers=include_fenced,
    )


def described_cluster(api: Api) -> Any:
    """Response of DescribeCluster about the kind of node connected: brokers, or controllers.

    Raises:
        ClusterError: the request is refused.
    """
    answer = api.call(DESCRIBE_CLUSTER, describe_cluster_request(ENDPOINT_BROKERS))
    if int(answer.error_code) == _MISMATCHED_ENDPOINT:
        answer = api.call(DESCRIBE_CLUSTER, describe_cluster_request(ENDPOINT_CONTROLLERS))
    return check(answer)


_MISMATCHED_ENDPOINT: Final = 114


def error_text(code: Any, message: str | None = None) -> str:
    """The text for an error code: the cluster's message, otherwise Kafka's default."""
    return message_of(int(code), message)


def check(answer: Any) -> Any:
    """Return the answer if it has no error code.

    Raises:
        ClusterError: the answer has one.
    """
    if int(answer.error_code):
        raise ClusterError(error_text(answer.error_code, getattr(answer, "error_message", None)))
    return answer


def json_line(value: Any) -> str:
    """A value as one line of JSON."""
    return msgspec.json.encode(value).decode() + "\n"


def each_pair(rows: Any) -> Iterator[tuple[str, Any]]:
    """(topic, partition row) of rows that have `name` and `partitions`."""
    for row in rows:
        for partition in row.partitions:
            yield str(row.name), partition
