"""Requests that the kernel answers: their numbers, times and errors, as Kafka's RequestMetrics.

Numbers and times are of the controller listeners: requests at a broker listener are timed by the
records' thread, which has their sockets. Errors are of both. Times are of one clock, in ns.

apache/kafka: core/.../network/RequestChannel.scala (updateRequestMetrics, updateErrorMetrics), 4.3
"""

from collections import deque
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from network.answers import Encoded, NoResponse
from wire.api_keys import METADATA
from wire.api_table import counted_version
from wire.connections.connection import Request
from wire.errors import ErrorCode, RemoteProtocolError
from wire.messages import codec
from wire.messages.error_codes import error_codes
from wire.messages.fetch_messages import FetchResponse

KEPT: Final = 1024
"""Rows of an API; Kafka's histograms keep 1,028 values."""

ServedRow: TypeAlias = tuple[int, int, int, int, int]
"""Instants at which a request was received, begun, handled and answered (ns), and its bytes."""


class Timed:
    """A request whose answer is to come."""

    __slots__ = ("answered_ns", "begun_ns", "handled_ns", "is_counted", "received_ns")

    def __init__(self, received_ns: int, begun_ns: int, *, is_counted: bool) -> None:
        self.received_ns = received_ns
        self.begun_ns = begun_ns
        self.handled_ns: int | None = None
        """End of its handler, which may be before the answer."""
        self.answered_ns = 0
        self.is_counted = is_counted
        """True if the records' thread does not time it."""


class ServedRequests:
    """Numbers, times and errors of what was answered since the start."""

    def __init__(self) -> None:
        self.requests: dict[tuple[int, int], int] = {}
        """Number by API key and version."""
        self.errors: dict[tuple[int, int], int] = {}
        """Number in answers by API key and code; 0 is no error."""
        self.rows: dict[int, deque[ServedRow]] = {}
        """The newest of each API key."""

    def _timed(self, request: Request, times: Timed) -> None:
        api_key = request.api_key
        kind = (api_key, counted_version(api_key, request.api_version))
        self.requests[kind] = self.requests.get(kind, 0) + 1
        rows = self.rows.get(api_key)
        if rows is None:
            rows = self.rows[api_key] = deque(maxlen=KEPT)
        handled_ns, size_bytes = times.handled_ns, len(request.frame)
        assert handled_ns is not None, "an answer comes in its handler or behind it"
        rows.append((times.received_ns, times.begun_ns, handled_ns, times.answered_ns, size_bytes))

    def answered(self, request: Request, answer: Any, times: Timed) -> None:
        """Note a request that is answered, and count the errors of the answer.

        Metadata that is made of kept bytes counts once as no error, whatever its partitions say.
        """
        if times.is_counted:
            self._timed(request, times)
        if isinstance(answer, NoResponse):
            return
        api_key = request.api_key
        for code in _codes(request, answer):
            key = (api_key, int(code))
            self.errors[key] = self.errors.get(key, 0) + 1

    def count(self, api_key: int) -> int:
        """Number of requests of an API in all versions."""
        return sum(number for (key, _), number in self.requests.items() if key == api_key)


def _codes(request: Request, answer: Any) -> Iterable[int]:
    if isinstance(answer, FetchResponse):
        return (answer.top_error_code,) if answer.top_error_code else (0, answer.error_code)
    if not isinstance(answer, Encoded):
        return error_codes(answer)
    if request.api_key == METADATA:
        return (ErrorCode.none,)
    try:
        _, body = codec.decode_response(request.api_key, request.api_version, answer.frame)
    except RemoteProtocolError:  # what the active controller answered is passed on unread
        return ()
    return error_codes(body)
