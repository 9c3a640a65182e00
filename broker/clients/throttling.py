"""The quotas of one request: what it cost is recorded when it is answered, with its throttle time.

The answer leaves at once and says the time; until then the connection is not read. The time of the
threads counts from the begin of the request to the end of its handler, at most to its answer: not
while it waits for records or replicas. Of two quotas that are exceeded the longer time counts.

apache/kafka: core/.../server/{KafkaApis,RequestHandlerHelper}.scala, 4.3
"""

from collections.abc import Callable

from broker.clients.client_quotas import PERCENT_PER_NS, ClientQuota, ClientQuotas
from quorum_controller.security.authorization import Caller


class Throttle:
    """The quotas of one request, which begins now.

    Args:
        quotas: of the broker.
        caller: the client's principal.
        client_id: of the request.
        mute: called before the answer with the ms for which the connection is not to be read.
    """

    __slots__ = (
        "_caller",
        "_client_id",
        "_fetch",
        "_mute",
        "_produce",
        "_quotas",
        "_request",
        "_spent_ns",
        "_started_ns",
    )

    def __init__(
        self,
        quotas: ClientQuotas,
        caller: Caller,
        client_id: str | None,
        mute: Callable[[int], None],
    ) -> None:
        self._quotas = quotas
        self._produce, self._fetch, self._request = quotas.produce, quotas.fetch, quotas.request
        self._caller = caller
        self._client_id = client_id
        self._mute = mute
        self._started_ns = quotas.nanoseconds()
        self._spent_ns: int | None = None

    def handled(self) -> None:
        """Note the end of the handler: what follows is not of this request."""
        self._spent_ns = self._quotas.nanoseconds() - self._started_ns

    def resumed(self) -> None:
        """Go on behind a pause in the handler, which does not count."""
        assert self._spent_ns is not None, "a pause begins with `handled`"
        self._started_ns = self._quotas.nanoseconds() - self._spent_ns
        self._spent_ns = None

    @property
    def fetch_bytes_max(self) -> float:
        """Bytes above which a Fetch would be throttled whatever came before: it never ended."""
        return self._fetch.value_max(self._caller, self._client_id)

    def produced(self, request_bytes: int, *, has_answer: bool) -> int:
        """The throttle time of a Produce; without an answer its time does not count."""
        bytes_ms = self._produce.record(self._caller, self._client_id, request_bytes)
        if not has_answer:
            self.exempted()
        return self._throttled(self._produce, bytes_ms, self._time_ms() if has_answer else 0)

    def fetched(self, response_bytes: int) -> int:
        """The throttle time of a Fetch; above 0 the answer has no records, whose bytes go back."""
        fetch = self._fetch
        time_ms = self._time_ms()
        bytes_ms = fetch.record(self._caller, self._client_id, response_bytes)
        throttle_ms = self._throttled(fetch, bytes_ms, time_ms)
        if throttle_ms:
            fetch.unrecord(self._caller, self._client_id, response_bytes)
        return throttle_ms

    def answered(self) -> int:
        """The throttle time of any other request."""
        return self._throttled(self._request, 0, self._time_ms())

    def exempted(self) -> None:
        """Record a request that is not throttled."""
        self._quotas.exempt(self._percent())

    def _time_ms(self) -> int:
        return self._request.record(self._caller, self._client_id, self._percent())

    def _percent(self) -> float:
        """The time of this request as a percentage of a second of one thread."""
        spent_ns = self._spent_ns
        if spent_ns is None:
            spent_ns = self._quotas.nanoseconds() - self._started_ns
        return spent_ns * PERCENT_PER_NS

    def _throttled(self, quota: ClientQuota, bytes_ms: int, time_ms: int) -> int:
        """The longer of two throttle times, which is noted with its quota."""
        throttle_ms = max(bytes_ms, time_ms)
        if throttle_ms:
            noted = quota if bytes_ms > time_ms else self._request
            noted.throttled(self._caller, self._client_id, throttle_ms)
            self._mute(throttle_ms)
        return throttle_ms
