"""Quotas of clients: bytes produced, bytes fetched, and time of the threads (KIP-13, KIP-124).

A quota's value is that of the newest image; who shares it has one rate. What a request costs is
recorded when it is answered, and the answer has the time after which the rate is down to the quota;
the connection is not read until then. While no client has a quota of a key, nothing is recorded.

Source: apache/kafka: server/.../quota/ClientQuotaManager.java,
core/.../server/ClientRequestQuotaManager.java; 4.3
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from math import inf
from typing import Final

import msgspec

from metadata.client_quotas import ClientTags, Quotas, client_quota, keys_in_use
from metadata.image import EMPTY
from network.clock import Clock
from network.sampled_rate import THROTTLE_MS_MAX, QuotaWindow, SampledRate, SampledSum
from quorum_controller.security.authorization import Caller

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
PERCENT_PER_NS: Final = 100 / 1_000_000_000
"""Time as a percentage of a second of one thread."""
CLIENTS_MAX: Final = 10_000
"""Rates of one quota; beyond it the one not used for longest is dropped."""
IDLE_MS_MAX: Final = 3_600_000
"""Time after which an unused rate is dropped."""
THROTTLE_WINDOW: Final = QuotaWindow(samples=2, size_seconds=30)
"""Of the average throttle time: Kafka's default for metrics."""


class ClientRate(msgspec.Struct, frozen=True, gc=False):
    """The rate of a client at one time, for metrics; user and client id are empty for any."""

    quota: str
    user: str
    client_id: str
    rate: float
    throttle_ms: float | None
    """Average; None if it was not throttled of late."""


class _Rate:
    """The rate of those who share the value of a quota."""

    __slots__ = ("bound", "sampled", "throttles", "used_ms")

    def __init__(self, window: QuotaWindow) -> None:
        self.bound = inf
        self.sampled = SampledRate(window)
        self.throttles = SampledSum(THROTTLE_WINDOW)
        self.used_ms = 0


class ClientQuota:
    """The rates of all clients by one quota.

    Args:
        key: of the quota.
        window: of its rates.
        clock: of the broker.
        throttle_ms_max: limit of a throttle time.
    """

    def __init__(
        self,
        key: str,
        window: QuotaWindow,
        clock: Clock,
        throttle_ms_max: int = THROTTLE_MS_MAX,
    ) -> None:
        self.key = key
        self._window = window
        self._clock = clock
        self._throttle_ms_max = throttle_ms_max
        self._quotas = EMPTY.client_quotas
        self._rates: OrderedDict[ClientTags, _Rate] = OrderedDict()
        """Least recently used first."""
        self.is_enabled = False
        """True if any client has this quota."""

    def publish(self, quotas: Quotas, *, is_enabled: bool) -> None:
        """Take the newest quotas of all keys."""
        self._quotas = quotas
        self.is_enabled = is_enabled

    def record(self, caller: Caller, client_id: str | None, value: float) -> int:
        """Add what a request cost; return the throttle time in ms, 0 within the quota."""
        if not self.is_enabled:
            return 0
        rate, now_ms = self._rate(caller, client_id), self._clock.now_ms
        rate.sampled.record(value, now_ms)
        return min(rate.sampled.throttle_ms(rate.bound, now_ms), self._throttle_ms_max)

    def unrecord(self, caller: Caller, client_id: str | None, value: float) -> None:
        """Take back what was recorded for an answer that is not sent."""
        if self.is_enabled:
            self._rate(caller, client_id).sampled.record(-value, self._clock.now_ms)

    def throttled(self, caller: Caller, client_id: str | None, throttle_ms: int) -> None:
        """Note the throttle time of an answer, for metrics."""
        self._rate(caller, client_id).throttles.record(throttle_ms, self._clock.now_ms)

    def value_max(self, caller: Caller, client_id: str | None) -> float:
        """The largest value that need not be throttled, if nothing else came of late."""
        if not self.is_enabled:
            return inf
        window = self._window
        return self._rate(caller, client_id).bound * (window.samples - 1) * window.size_seconds

    def _rate(self, caller: Caller, client_id: str | None) -> _Rate:
        """The rate that a client has a part in, with its bound in the newest image."""
        user, name = caller.principal.partition(":")[2], client_id or ""
        found = client_quota(self._quotas, self.key, user, name)
        tags, bound = (("", name), inf) if found is None else found
        rates, now_ms = self._rates, self._clock.now_ms
        rate = rates.get(tags)
        if rate is None:
            self._make_room(now_ms)
            rate = rates[tags] = _Rate(self._window)
        rates.move_to_end(tags)
        rate.bound, rate.used_ms = bound, now_ms
        return rate

    def _make_room(self, now_ms: int) -> None:
        """Drop rates that were not used for long, and the oldest if there are too many."""
        rates = self._rates
        while rates:
            oldest = next(iter(rates.values()))
            if len(rates) < CLIENTS_MAX and now_ms - oldest.used_ms < IDLE_MS_MAX:
                break
            rates.popitem(last=False)

    def rates(self, count_max: int) -> Iterator[ClientRate]:
        """The rates used last, at most so many, for metrics."""
        now_ms = self._clock.now_ms
        for (user, client_id), rate in list(self._rates.items())[-count_max:]:
            per_second, mean_ms = rate.sampled.per_second(now_ms), rate.throttles.mean(now_ms)
            yield ClientRate(self.key, user, client_id, per_second, mean_ms)


class ClientQuotas:
    """All quotas of clients of a broker.

    Args:
        clock: of the broker.
        window: of the rates.
        nanoseconds: the clock that times the handlers of requests.
    """

    def __init__(self, clock: Clock, window: QuotaWindow, nanoseconds: Callable[[], int]) -> None:
        self._clock = clock
        self._known = EMPTY.client_quotas
        self.nanoseconds = nanoseconds
        self.produce = ClientQuota(PRODUCER_BYTE_RATE, window, clock)
        self.fetch = ClientQuota(CONSUMER_BYTE_RATE, window, clock)
        self.request = ClientQuota(REQUEST_PERCENTAGE, window, clock, window.size_ms)
        self._exempt = SampledRate(window)
        self.is_enabled = False
        """True if any client has one of these quotas."""

    def publish(self, quotas: Quotas) -> None:
        """Take the quotas of the newest image; nothing to do if none has changed."""
        if quotas is self._known:
            return
        self._known, used = quotas, keys_in_use(quotas)
        for quota in (self.produce, self.fetch, self.request):
            quota.publish(quotas, is_enabled=quota.key in used)
        self.is_enabled = (
            self.produce.is_enabled or self.fetch.is_enabled or self.request.is_enabled
        )

    def spend(self, caller: Caller, client_id: str | None, spent_ns: int, told_ms: int = 0) -> int:
        """Record the time of a request that another thread has handled; its throttle time.

        It is at least `told_ms`, the throttle time of the controller that answered the request.
        """
        request = self.request
        own_ms = request.record(caller, client_id, spent_ns * PERCENT_PER_NS)
        throttle_ms = max(own_ms, told_ms)
        if throttle_ms and request.is_enabled:
            request.throttled(caller, client_id, throttle_ms)
        return throttle_ms

    def exempt(self, percent: float) -> None:
        """Record the time of a request that is not throttled, while time has a quota."""
        if self.request.is_enabled:
            self._exempt.record(percent, self._clock.now_ms)

    def rates(self, count_max: int) -> Iterator[ClientRate]:
        """The rates used last, at most so many of each quota, for metrics."""
        for quota in (self.produce, self.fetch, self.request):
            if quota.is_enabled:
                yield from quota.rates(count_max)

    @property
    def exempt_percent(self) -> float | None:
        """Time of requests that are not throttled, for metrics; None while time has no quota."""
        return self._exempt.per_second(self._clock.now_ms) if self.request.is_enabled else None
