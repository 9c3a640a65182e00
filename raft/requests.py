"""Requests to other nodes: each connection is ready, awaits a response, or backs off.

INV-RPC-1: an answer is handled only while its correlation id is the one in flight on that
connection. Resetting a connection forgets the id, so late answers after a change of role are lost.
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
        """Forget what is in flight and every back-off (after a change of role)."""
        self._by_id.clear()

    def forget(self, destination_id: NodeId) -> None:
        """Make one destination ready again."""
        self._by_id.pop(destination_id, None)

    def is_untouched(self, destination_id: NodeId) -> bool:
        """Whether nothing is in flight to a destination and nothing makes it pause."""
        return destination_id not in self._by_id

    def ready_at(self, destination_id: NodeId, now_ms: int) -> int:
        """When a request may leave: not later than `now_ms` means at once."""
        connection = self._by_id.get(destination_id)
        if connection is None:
            return now_ms
        if connection.correlation_id is not None:
            return connection.sent_ms + self._request_timeout_ms
        return now_ms if connection.ready_ms is None else connection.ready_ms

    def is_ready(self, destination_id: NodeId, now_ms: int) -> bool:
        """Whether a request may leave now; one that timed out counts as answered."""
        return self.ready_at(destination_id, now_ms) <= now_ms

    def has_timed_out(self, destination_id: NodeId, now_ms: int) -> bool:
        """Whether the request in flight has waited for its whole time-out."""
        connection = self._by_id.get(destination_id)
        if connection is None or connection.correlation_id is None:
            return False
        return now_ms >= connection.sent_ms + self._request_timeout_ms

    def fetch_in_flight_until(self, now_ms: int) -> int | None:
        """When the fetch in flight times out; None when there is none (INV-RPC-2)."""
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
        """Note a request as in flight and give its correlation id."""
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
        """The request that an answer belongs to, which is no longer in flight; None if stale."""
        connection = self._by_id.get(destination_id)
        if connection is None or connection.correlation_id != correlation_id:
            return None
        request = connection.request
        assert request is not None, f"{connection=}"
        connection.correlation_id = None
        connection.request = None
        return request

    def succeeded(self, destination_id: NodeId) -> None:
        """The answer was useful: no pause."""
        self._by_id.pop(destination_id, None)

    def failed(self, destination_id: NodeId, now_ms: int) -> None:
        """Pause before the next request; longer after each failure in a row."""
        connection = self._by_id.setdefault(destination_id, ConnectionState())
        if connection.correlation_id is not None:
            return  # a newer request left meanwhile
        doublings = min(connection.failure_count, BACKOFF_DOUBLINGS_MAX)
        connection.failure_count += 1
        connection.ready_ms = now_ms + (self._retry_backoff_ms << doublings)
        assert connection.ready_ms > now_ms, f"a retry without a pause {connection=}"
