"""Times, sizes and errors of requests at broker listeners: Kafka's RequestMetrics.

A request costs two looks at a clock, three if its answer waits, another two of the driver for the
answers that leave together, and one row, once its answer has left; what a metric says is made of
the newest rows when it is asked for. Times are of one clock, in nanoseconds.

apache/kafka: core/.../network/RequestChannel.scala (updateRequestMetrics), 4.3
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypeAlias

import msgspec

from wire.api_keys import FETCH

KEPT: Final = 1024
"""Rows of a kind; Kafka's histograms keep 1,028 values."""
FETCH_FOLLOWER: Final = -1
VERIFICATION: Final = -2
"""Kinds of a Fetch of a follower and of an AddPartitionsToTxn that only verifies; that of any other
request is its API key."""

Begun: TypeAlias = tuple[int, int, int, int, int]
"""A request behind its handler: kind, when it was received, begun, handled, and its bytes."""


Row: TypeAlias = tuple[Begun, int, int, int, int]
"""A request whose answer has left: what is begun, when it was answered, taken by the driver and
sent, and its throttle time."""


class AnsweredRequest(Protocol):
    """A request behind its handler and its answer."""

    begun: Begun | None
    answered_ns: int
    throttle_ms: int


class RequestTimes(msgspec.Struct, frozen=True, gc=False):
    """The times of one answered request in nanoseconds, but for its throttle time, and its size."""

    queue_ns: int
    """From the step that received it to its handler: requests and answers before it."""
    local_ns: int
    """Of its handler."""
    remote_ns: int
    """From the end of the handler to the answer: it waited for replicas or records."""
    response_queue_ns: int | None
    """From the answer to the driver: the rest of the step, and answers to earlier requests; None if
    it is not measured."""
    send_ns: int | None
    """From there until the socket had taken its last byte, or was closed; likewise."""
    throttle_ms: int
    size_bytes: int

    @property
    def total_ns(self) -> int:
        """From the step that received it until its answer was sent, or made if that is all."""
        handled_ns = self.queue_ns + self.local_ns + self.remote_ns
        return handled_ns + (self.response_queue_ns or 0) + (self.send_ns or 0)


class KindCounts(msgspec.Struct, frozen=True, gc=False):
    """Requests of one kind that were answered."""

    count: int
    """Since the start."""
    newest: tuple[RequestTimes, ...]
    """At most `KEPT`, the newest last."""


class _Kind:
    """Requests of one kind as they are noted."""

    __slots__ = ("count", "rows")

    def __init__(self) -> None:
        self.count = 0
        self.rows: deque[Row] = deque(maxlen=KEPT)


class RequestMetrics:
    """Times, sizes and errors of requests.

    Args:
        nanoseconds: a clock.
    """

    __slots__ = ("_kinds", "errors", "nanoseconds", "requests", "step_ns")

    def __init__(self, nanoseconds: Callable[[], int]) -> None:
        self.nanoseconds = nanoseconds
        self.step_ns = 0
        """Begin of the step."""
        self._kinds: dict[int, _Kind] = {}
        self.requests: dict[tuple[int, int], int] = {}
        """Requests since the start, by kind and version; those of the kernel too."""
        self.errors: dict[tuple[int, int], int] = {}
        """Errors in answers since the start, by API key and code; 0 is no error."""

    def step(self) -> None:
        """Note the begin of a step, which receives requests."""
        self.step_ns = self.nanoseconds()

    def begun(self, kind: int, version: int) -> None:
        """Count a request that a handler has had, or the kernel gets."""
        self.requests[kind, version] = self.requests.get((kind, version), 0) + 1

    def sent(self, requests: Iterable[AnsweredRequest], taken_ns: int, sent_ns: int) -> None:
        """Note requests whose answers left together."""
        for each in requests:
            begun = each.begun
            assert begun is not None, "an answer leaves behind the handler"
            kind = self._kinds.get(begun[0])
            if kind is None:
                kind = self._kinds[begun[0]] = _Kind()
            kind.count += 1
            kind.rows.append((begun, each.answered_ns, taken_ns, sent_ns, each.throttle_ms))

    def failed(self, api_key: int, code: int, count: int = 1) -> None:
        """Count an error of an answer, `none` too, as Kafka does."""
        errors = self.errors
        errors[api_key, code] = errors.get((api_key, code), 0) + count

    def kinds(self) -> Mapping[int, KindCounts]:
        """Return what was noted by kind."""
        return {
            key: KindCounts(kind.count, tuple(_times(*row) for row in kind.rows))
            for key, kind in self._kinds.items()
        }


def _times(
    begun: Begun, answered_ns: int, taken_ns: int, sent_ns: int, throttle_ms: int
) -> RequestTimes:
    _, received_ns, begun_ns, handled_ns, size_bytes = begun
    return RequestTimes(
        begun_ns - received_ns,
        handled_ns - begun_ns,
        answered_ns - handled_ns,
        taken_ns - answered_ns,
        sent_ns - taken_ns,
        throttle_ms,
        size_bytes,
    )


def kind_of_fetch(*, is_from_follower: bool) -> int:
    """Kind of a Fetch."""
    return FETCH_FOLLOWER if is_from_follower else FETCH
