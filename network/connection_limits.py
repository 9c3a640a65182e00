"""Limits on the number of connections and on their idle time.

As in Kafka, broker and controller listeners are counted apart (each kind has a socket server of its
own). Above `max.connections` Kafka stops accepting and lets clients wait; here the new connection
is closed, so that its client tries another node. A connection to the inter-broker listener, if
brokers have other listeners too, is accepted, and the least recently used connection of another
listener is closed instead.

Source: apache/kafka: core/.../network/SocketServer.scala, ConnectionQuotas; clients/.../Selector.
"""

import re
from collections import Counter
from ipaddress import ip_address
from typing import Final

import msgspec

from network.sampled_rate import QuotaWindow
from wire.api_table import ListenerKind

COUNT_MAX: Final = 2**31 - 1
LOG_INTERVAL_MS: Final = 10_000
"""Refusals are logged at most once in this time, with their number."""


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that limit connections."""

    request_bytes_max: int = 100 * 1024 * 1024
    """`socket.request.max.bytes`"""
    connections_max: int = COUNT_MAX
    """`max.connections`"""
    per_address_max: int = COUNT_MAX
    """`max.connections.per.ip`"""
    per_address_overrides: tuple[tuple[str, int], ...] = ()
    """`max.connections.per.ip.overrides`: address and its own limit."""
    creation_rate: int = COUNT_MAX
    """`max.connection.creation.rate`, per second and kind of listener"""
    idle_ms_max: int = 10 * 60 * 1000
    """`connections.max.idle.ms`; 0 disables it."""
    quota_samples: int = 11
    """`quota.window.num`, of the rates of connections and of clients."""
    quota_seconds: int = 1
    """`quota.window.size.seconds`"""
    protected_listener: str | None = None
    """The inter-broker listener if brokers have other listeners too, else None."""

    @property
    def quota_window(self) -> QuotaWindow:
        """The windows of rates."""
        return QuotaWindow(self.quota_samples, self.quota_seconds)


def address_limits(text: str) -> tuple[tuple[str, int], ...]:
    """The entries `ADDRESS:COUNT` of `max.connections.per.ip.overrides`; addresses are normalized.

    Raises:
        ValueError: an entry of another form, a host name, or a duplicate address.
    """
    limits: dict[str, int] = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        name, _, count = entry.rpartition(":")
        try:
            address = str(ip_address(name.strip().strip("[]")))
        except ValueError:
            address = ""
        if not address or re.fullmatch(r"[0-9]{1,10}", count.strip()) is None:
            raise ValueError(f"`{entry}` is not in the form ADDRESS:COUNT with an IP address")
        if address in limits:
            raise ValueError(f"{address} is listed twice")
        limits[address] = int(count)
    return tuple(sorted(limits.items()))


class ConnectionCounts:
    """The open connections by kind of listener and by address."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limit(limits)
        self._by_kind: Counter[ListenerKind] = Counter()
        self._by_address: Counter[tuple[ListenerKind, str]] = Counter()

    def limit(self, limits: ConnectionLimits) -> None:
        """Take other limits, for connections that are not open yet."""
        self._limits = limits
        self._per_address_max = dict(limits.per_address_overrides)

    def add(self, kind: ListenerKind, host: str) -> None:
        """Count an accepted connection."""
        self._by_kind[kind] += 1
        self._by_address[kind, host] += 1

    def remove(self, kind: ListenerKind, host: str) -> None:
        """Uncount an accepted connection that has closed."""
        assert self._by_address[kind, host] > 0, f"{kind=} {host=}"
        self._by_kind[kind] -= 1
        self._by_address[kind, host] -= 1
        if not self._by_address[kind, host]:
            del self._by_address[kind, host]

    def is_full(self, kind: ListenerKind) -> bool:
        """True if `max.connections` is reached."""
        return self._by_kind[kind] >= self._limits.connections_max

    def refusal_of_address(self, kind: ListenerKind, host: str) -> str | None:
        """Return the reason to refuse a connection of this address; None to accept it."""
        limit = self._per_address_max.get(host, self._limits.per_address_max)
        if self._by_address[kind, host] < limit:
            return None
        return f"address {host} already has the configured maximum of {limit} connections"


class RefusalLog:
    """The rate limit of log lines about refusals."""

    def __init__(self) -> None:
        self._count = 0
        self._next_ms: int | None = None

    def count_to_log(self, now_ms: int) -> int | None:
        """Count a refusal; return the number to log now, None to log later."""
        self._count += 1
        if self._next_ms is not None and now_ms < self._next_ms:
            return None
        self._next_ms = now_ms + LOG_INTERVAL_MS
        count, self._count = self._count, 0
        return count
