"""Connections that are not read until their throttle time is over."""

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush

from broker.clients.client import Client


class MutedClients:
    """Ends of throttle times, each once it was set; a later one of its connection counts."""

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        self._ends: list[tuple[int, int]] = []
        """Heap of times with their connections."""

    def mute(self, client: Client, until_ms: int) -> None:
        """Take and read nothing of a connection until then, unless it is for longer already."""
        if until_ms > client.muted_until_ms:
            client.muted_until_ms = until_ms
            heappush(self._ends, (until_ms, client.connection_id))

    def next_ms(self) -> int | None:
        """Time at which the first one ends, None without any."""
        return self._ends[0][0] if self._ends else None

    def over(self, now_ms: int, clients: Mapping[int, Client]) -> Iterator[Client]:
        """Unmute the open connections whose throttle time is over."""
        ends = self._ends
        while ends and ends[0][0] <= now_ms:
            client = clients.get(heappop(ends)[1])
            if client is not None and client.muted_until_ms <= now_ms:
                client.muted_until_ms = 0
                yield client
