"""Faults that a test asks for at the door of requests: which of them meets a request.

A value: rules in, a verdict out. `broker.clients.faulty_front` carries it out. A fault meets
requests of one API, or of every one, that name its partition, if it has one: its first `times`.
Of several that would meet a request the oldest does.

Not met: the fetches of replicas (a test stops a node for that), and clients that are spared, as the
one that asks for faults. A fetch session names a partition in its first request only.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Final
from uuid import UUID

import msgspec

from wire.api_keys import FETCH, OFFSET_FOR_LEADER_EPOCH
from wire.connections.headers import RequestHeader
from wire.errors import ErrorCode, RemoteProtocolError
from wire.messages import codec
from wire.messages.refusals import named_partitions

CONSUMER: Final = -1
"""Replica id of a request that is no replica's."""


class Action(Enum):
    """The end of a request."""

    REFUSE = "refuse"
    """It is answered with an error, and nothing is done."""
    DELAY = "delay"
    """Its answer comes late; one of the kernel's APIs is done late."""
    DROP = "drop"
    """The connection is closed instead, and nothing is done."""
    LOSE = "lose"
    """It is done, and the connection is closed instead of its answer; of APIs about records."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault."""

    action: Action
    api_key: int | None = None
    """None for every API."""
    topic: str | None = None
    """Name; None for all requests."""
    partition: int | None = None
    """None for all of the topic."""
    error: ErrorCode = ErrorCode.none
    """Of a refusal."""
    delay_ms: int = 0
    times: int | None = None
    """Requests that it meets; None for all."""
    spared: tuple[str, ...] = ()
    """Client ids that it does not meet."""


class Faults:
    """The faults of one broker by number, the oldest first."""

    __slots__ = ("_faults", "_hits", "_next")

    def __init__(self) -> None:
        self._faults: dict[int, Fault] = {}
        self._hits: dict[int, int] = {}
        self._next = 1

    def __len__(self) -> int:
        """Return the number of faults, those that have met all that they were to meet included."""
        return len(self._faults)

    def add(self, fault: Fault) -> int:
        """Begin a fault; its number."""
        number, self._next = self._next, self._next + 1
        self._faults[number], self._hits[number] = fault, 0
        return number

    def hits(self, number: int) -> int:
        """Return how many requests a fault has met; 0 for one that there is not."""
        return self._hits.get(number, 0)

    def end(self, number: int) -> int:
        """End a fault, if there is one of this number; how many requests it has met."""
        self._faults.pop(number, None)
        return self._hits.pop(number, 0)

    def clear(self) -> None:
        """End all."""
        self._faults.clear()
        self._hits.clear()

    def meet(
        self,
        header: RequestHeader,
        body: Callable[[], object],
        topic_name: Callable[[UUID], str | None],
    ) -> Fault | None:
        """The fault that meets a request, which is counted; None for none.

        Args:
            header: of the request.
            body: of the request, asked for where it matters.
            topic_name: of an id.
        """
        for number, fault in self._faults.items():
            hits = self._hits[number]
            if fault.times is not None and hits >= fault.times:
                continue
            if fault.api_key not in (None, header.api_key) or header.client_id in fault.spared:
                continue
            if _is_met(fault, header.api_key, body, topic_name):
                self._hits[number] = hits + 1
                return fault
        return None


def _is_met(
    fault: Fault,
    api_key: int,
    body: Callable[[], object],
    topic_name: Callable[[UUID], str | None],
) -> bool:
    if fault.topic is None and api_key not in (FETCH, OFFSET_FOR_LEADER_EPOCH):
        return True
    try:
        request = body()
    except (RemoteProtocolError, LookupError):  # who serves it says so
        return False
    if _is_of_replica(request):
        return False
    if fault.topic is None:
        return True
    return any(
        fault.topic == (topic_name(topic) if isinstance(topic, UUID) else topic)
        and fault.partition in (None, partition)
        for topic, partition in named_partitions(request)
    )


def _is_of_replica(request: Any) -> bool:
    """True for the request of a follower; its id moved to another field in Fetch 15."""
    state = getattr(request, "replica_state", request)
    return int(getattr(state, "replica_id", CONSUMER)) > CONSUMER


def body_of(header: RequestHeader, frame: bytearray, position: int) -> Any:
    """The body of a request in the class of its own version.

    Raises:
        RemoteProtocolError: it is malformed.
        LookupError: it has no class.
    """
    content = bytes(memoryview(frame)[position:])
    return codec.decode_body_as_sent(header.api_key, header.api_version, content)
