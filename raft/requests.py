"""Requests to other nodes: each connection is ready, awaits a response, or backs off.

INV-RPC-1: a response is handled only while its correlation id is in flight on that connection.
Resetting a connection drops the id, so late responses after a change of role are ignored.
INV-RPC-2: at most one Fetch or FetchSnapshot is in flight over all connections.
Source: apache/kafka: raft/.../RequestManager.java.
"""

from typing import Final

import msgspec

from raft.config import BACKOFF_DOUBLINGS_MAX, RETRY_BACKOFF_MS_MIN
from raft.messages import FetchRequest, FetchSnapshotRequest, RaftRequest
from wire.types import NodeId

_FETCHES: Final = frozenset({FetchRequest, FetchSnapshotRequest})


class ConnectionState(msgspec.Struct, kw_only=True):
    """State of one destination; ready when neither field is set."""

    correlation_id: int | None = None
    request: RaftRequest | None = None
    sent_ms: int = 0
    ready_ms: int | None = None
    failure_count: int = 0


class RequestManager:
    """Requests to all destinations of a node. Correlation ids are unique over all of them."""

    def __init__(self, *, request_timeout_ms: int, retry_backoff_ms: int) -> None:
        """Start with every destination ready."""
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = max(retry_backoff_ms, RETRY_BACKOFF_MS_MIN)
        self._by_id: dict[NodeId, ConnectionState] = {}
        self._next_correlation_id = 1

    def reset(self) -> None:
        """Drop all requests in flight and all back-offs (after a change of role)."""
        self._by_id.clear()

    def forget(self, destination_id: NodeId) -> None:
        """Make one destination ready again."""
        self._by_id.pop(destination_id, None)

    def is_untouched(self, destination_id: NodeId) -> bool:
        """True if a destination has no request in flight and no back-off."""
        return destination_id not in self._by_id

    def ready_at(self, destination_id: NodeId, now_ms: int) -> int:
        """Return the earliest time of the next request; at or before `now_ms` means at once."""
        connection = self._by_id.get(destination_id)
        if connection is None:
            return now_ms
        if connection.correlation_id is not None:
            return connection.sent_ms + self._request_timeout_ms
        return now_ms if connection.ready_ms is None else connection.ready_ms

    def is_ready(self, destination_id: NodeId, now_ms: int) -> bool:
        """True if a request may be sent now; one that timed out is no longer in flight."""
        return self.ready_at(destination_id, now_ms) <= now_ms

    def is_in_flight(self, destination_id: NodeId) -> bool:
        """True if a request to the destination has no response yet, timed out or not."""
        connection = self._by_id.get(destination_id)
        return connection is not None and connection.correlation_id is not None

    def has_timed_out(self, destination_id: NodeId, now_ms: int) -> bool:
        """True if the request in flight has timed out."""
        connection = self._by_id.get(destination_id)
        if connection is None or connection.correlation_id is None:
            return False
        return now_ms >= connection.sent_ms + self._request_timeout_ms

    def fetch_in_flight_until(self, now_ms: int) -> int | None:
        """Return the time-out of the fetch in flight; None if there is none (INV-RPC-2)."""
        until: int | None = None
        for connection in self._by_id.values():
            if type(connection.request) not in _FETCHES or connection.correlation_id is None:
                continue
            deadline = connection.sent_ms + self._request_timeout_ms
            if deadline > now_ms:
                assert until is None, "two fetches in flight"
                until = deadline
        return until

    def sent(self, destination_id: NodeId, request: RaftRequest, now_ms: int) -> int:
        """Note a request as in flight and return its correlation id."""
        connection = self._by_id.get(destination_id)
        if connection is not None:
            assert self.is_ready(destination_id, now_ms), f"{destination_id=} is not ready"
        if type(request) in _FETCHES:
            assert self.fetch_in_flight_until(now_ms) is None, "INV-RPC-2"
        correlation_id = self._next_correlation_id
        self._next_correlation_id = correlation_id + 1
        if connection is None:
            self._by_id[destination_id] = ConnectionState(
                correlation_id=correlation_id, request=request, sent_ms=now_ms
            )
        else:
            connection.correlation_id = correlation_id
            connection.request = request
            connection.sent_ms = now_ms
            connection.ready_ms = None
        return correlation_id

    def take(self, destination_id: NodeId, correlation_id: int) -> RaftRequest | None:
        """Return the request of a response and end its flight; None if the response is stale."""
        connection = self._by_id.get(destination_id)
        if connection is None or connection.correlation_id != correlation_id:
            return None
        request = connection.request
        assert request is not None, f"{connection=}"
        connection.correlation_id = None
        connection.request = None
        return request

    def succeeded(self, destination_id: NodeId) -> None:
        """Make a destination ready after a successful response; its back-off restarts."""
        self._by_id.pop(destination_id, None)

    def failed(self, destination_id: NodeId, now_ms: int) -> None:
        """Back off before the next request; longer after each consecutive failure."""
        connection = self._by_id.setdefault(destination_id, ConnectionState())
        if connection.correlation_id is not None:
            return  # a newer request is in flight
        doublings = min(connection.failure_count, BACKOFF_DOUBLINGS_MAX)
        connection.failure_count += 1
        connection.ready_ms = now_ms + (self._retry_backoff_ms << doublings)
        assert connection.ready_ms > now_ms, f"a retry without a pause {connection=}"
