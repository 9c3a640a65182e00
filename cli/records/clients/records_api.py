"""Interface of the records clients to a cluster; `cli.connect.Cluster` has it."""

from typing import Any, Protocol

from cli.connect import Api


class RecordsApi(Api, Protocol):
    """Calls to nodes, and what records need besides: requests that nobody answers."""

    def send(self, api_key: int, body: Any, node: int) -> None:
        """Send a request that has no response: Produce with acks 0."""
        ...

    def version_of(self, api_key: int, node: int) -> int:
        """The version that a call to this node uses; -1 if it does not serve the API."""
        ...
