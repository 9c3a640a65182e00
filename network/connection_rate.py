"""Rate limits of new connections: `max.connection.creation.rate` and the quotas of addresses.

Kafka's rates: measured over the last ten full seconds and the running one, so that ten seconds'
worth may come at once. Above the rate of the node connections queue at their listener; above the
rate of its address a connection is closed, after its throttle time. The inter-broker listener, if
brokers have other listeners too, does not wait.

Source: apache/kafka: core/.../network/SocketServer.scala, ConnectionQuotas;
server-common/.../QuotaUtils.java; clients/.../metrics/stats/Rate.java
"""

from collections import OrderedDict, deque
from typing import Final

from network.connection_limits import COUNT_MAX

WINDOW_MS: Final = 1_000
WINDOWS: Final = 11
"""`quota.window.num`, the running window included."""
DELAY_MS_MAX: Final = 1_000
ADDRESSES_MAX: Final = 10_000
"""Addresses whose rates are kept, the most recently connected ones."""


class RateMeter:
    """Meter of connections per second, in windows of one second."""

    def __init__(self) -> None:
        self._windows: deque[list[int]] = deque()
        """Windows as [start in ms, count], oldest first."""

    def delay_ms(self, rate: float, now_ms: int) -> int:
        """Count a connection; return its throttle time, 0 if the rate allows it."""
        windows = self._windows
        while windows and windows[0][0] + WINDOWS * WINDOW_MS <= now_ms:
            windows.popleft()
        if not windows or windows[-1][0] + WINDOW_MS <= now_ms:
            windows.append([now_ms, 0])
        windows[-1][1] += 1
        measured_ms = max(now_ms - windows[0][0], (WINDOWS - 1) * WINDOW_MS)
        count = sum(window[1] for window in windows)
        allowed = rate * measured_ms / 1_000
        if count <= allowed:
            return 0
        if allowed == 0:
            return DELAY_MS_MAX
        return min(DELAY_MS_MAX, max(1, round((count - allowed) / allowed * measured_ms)))

    def uncount(self) -> None:
        """Uncount the last connection: it was not accepted."""
        self._windows[-1][1] -= 1


class Gate:
    """The queue of a kind of listener: connections are admitted in order, at the rate."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._meter = RateMeter()
        self._waiting: deque[int] = deque()
        self.first_ms: int | None = None
        """Time at which the first of the queue is admitted, hence of the call of `admitted`."""

    def __len__(self) -> int:
        """Return the number of queued connections."""
        return len(self._waiting)

    @property
    def is_limited(self) -> bool:
        """True if a rate is configured, so that connections may have to wait."""
        return self._rate < COUNT_MAX

    def is_open(self, now_ms: int) -> bool:
        """Return True to admit a new connection at once; else `wait` must follow."""
        if not self.is_limited:
            return True
        if self._waiting:
            return False
        delay_ms = self._meter.delay_ms(self._rate, now_ms)
        self.first_ms = now_ms + delay_ms if delay_ms else None
        return delay_ms == 0

    def wait(self, connection_id: int) -> None:
        """Queue a connection that `is_open` did not admit."""
        assert self.first_ms is not None, "the gate is open"
        self._waiting.append(connection_id)

    def leave(self, connection_id: int) -> None:
        """Remove a closed connection from the queue; it still counts for the rate."""
        if connection_id in self._waiting:
            self._waiting.remove(connection_id)
            if not self._waiting:
                self.first_ms = None

    def admitted(self, now_ms: int) -> list[int]:
        """Take the connections to admit now from the queue, in order."""
        found = []
        while self.first_ms is not None and self.first_ms <= now_ms:
            found.append(self._waiting.popleft())
            self.first_ms = None
            if self._waiting:
                self.first_ms = now_ms + self._meter.delay_ms(self._rate, now_ms)
        return found


class AddressRates:
    """Connection rates by address."""

    def __init__(self) -> None:
        self._meters: OrderedDict[str, RateMeter] = OrderedDict()

    def delay_ms(self, host: str, rate: float | None, now_ms: int) -> int:
        """Count a connection; return 0 to accept it, else the delay before closing it."""
        if rate is None:
            self._meters.pop(host, None)
            return 0
        meter = self._meters.setdefault(host, RateMeter())
        self._meters.move_to_end(host)
        if len(self._meters) > ADDRESSES_MAX:
            self._meters.popitem(last=False)
        delay_ms = meter.delay_ms(rate, now_ms)
        if delay_ms:
            meter.uncount()
        return delay_ms
