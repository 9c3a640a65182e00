"""Rate limits of new connections: `max.connection.creation.rate` and the quotas of addresses.

Kafka's rates (`sampled_rate`): measured over ten full windows and the running one, so that ten
seconds' worth may come at once. Above the rate of the node connections queue at their listener;
above the rate of its address a connection is closed, after its throttle time. The inter-broker
listener, if brokers have other listeners too, does not wait.

Source: apache/kafka: core/.../network/SocketServer.scala, ConnectionQuotas;
server-common/.../QuotaUtils.java; clients/.../metrics/stats/Rate.java
"""

from collections import OrderedDict, deque
from typing import Final

from network.connection_limits import COUNT_MAX
from network.sampled_rate import QuotaWindow, SampledRate

DELAY_MS_MAX: Final = 1_000
ADDRESSES_MAX: Final = 10_000
"""Addresses whose rates are kept, the most recently connected ones."""


def _delay_ms(meter: SampledRate, rate: float, now_ms: int) -> int:
    """Count a connection; return its throttle time, 0 if the rate allows it."""
    meter.record(1, now_ms)
    return min(DELAY_MS_MAX, meter.throttle_ms(rate, now_ms))


class Gate:
    """The queue of a kind of listener: connections are admitted in order, at the rate."""

    def __init__(self, rate: int, window: QuotaWindow) -> None:
        self.rate = rate
        """Of those to come, and of those that wait."""
        self._meter = SampledRate(window)
        self._waiting: deque[int] = deque()
        self.first_ms: int | None = None
        """Time at which the first of the queue is admitted, hence of the call of `admitted`."""

    def __len__(self) -> int:
        """Return the number of queued connections."""
        return len(self._waiting)

    @property
    def is_limited(self) -> bool:
        """True if a rate is configured, so that connections may have to wait."""
        return self.rate < COUNT_MAX

    def is_open(self, now_ms: int) -> bool:
        """Return True to admit a new connection at once; else `wait` must follow."""
        if not self.is_limited:
            return True
        if self._waiting:
            return False
        delay_ms = _delay_ms(self._meter, self.rate, now_ms)
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
                self.first_ms = now_ms + _delay_ms(self._meter, self.rate, now_ms)
        return found


class AddressRates:
    """Connection rates by address."""

    def __init__(self, window: QuotaWindow) -> None:
        self._window = window
        self._meters: OrderedDict[str, SampledRate] = OrderedDict()

    def delay_ms(self, host: str, rate: float | None, now_ms: int) -> int:
        """Count a connection; return 0 to accept it, else the delay before closing it."""
        if rate is None:
            self._meters.pop(host, None)
            return 0
        meter = self._meters.setdefault(host, SampledRate(self._window))
        self._meters.move_to_end(host)
        if len(self._meters) > ADDRESSES_MAX:
            self._meters.popitem(last=False)
        delay_ms = _delay_ms(meter, rate, now_ms)
        if delay_ms:
            meter.record(-1, now_ms)
        return delay_ms
