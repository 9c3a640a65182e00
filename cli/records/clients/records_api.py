"""Interface of the records clients to a cluster; `cli.connect.Cluster` has it."""

from typing import Any, Protocol

from cli.connect import Api


class Pending(Protocol):
    """A request that was sent, and is not answered at once."""

    def poll(self, timeout_ms: int) -> Any:
        """The answer; None if it is not there in time.

        Raises:
            UnreachableError: the connection broke.
        """
        ...

    def close(self) -> None:
        """Wait no longer."""
        ...


class RecordsApi(Api, Protocol):
    """Calls to nodes, and what records need besides: requests that nobody answers."""

    def send(self, api_key: int, body: Any, node: int) -> None:
        """Send a request that has no response: Produce with acks 0."""
        ...

    def version_of(self, api_key: int, node: int) -> int:
        """The version that a call to this node uses; -1 if it does not serve the API."""
        ...

    def begin(self, api_key: int, body: Any, node: int) -> Pending:
        """Send a request that the node may hold for minutes: JoinGroup, SyncGroup."""
        ...
