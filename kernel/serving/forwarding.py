"""Forwarding of admin requests from a broker to the active controller, many in flight.

On the node of the active controller it is a plain call; elsewhere the request is sent in an
Envelope exactly as it was received (KIP-590). After NOT_CONTROLLER or a broken connection it is
sent again, to the leader known then, until its time-out. Kafka has one Envelope in flight per
broker; here each request is sent at once.
"""

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from kernel.lifecycle.controller_link import ControllerLink
from network.answers import Encoded
from network.clock import Clock
from network.peers import Answered, Channel, Failure
from network.timers import FORWARDING, NEVER_MS
from quorum_controller.handlers import HANDLERS
from quorum_controller.result import RequestContext
from quorum_controller.security.authorization import ANONYMOUS, host_text
from wire.api_keys import ENVELOPE
from wire.api_table import SCHEMAS
from wire.connections.connection import Request
from wire.errors import ApiError, ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.messages.conversion import default_entity
from wire.types import milliseconds

if TYPE_CHECKING:
    from kio.schema.envelope.v0.response import EnvelopeResponse

REQUEST_TIMEOUT_MS: Final = 30_000
"""`request.timeout.ms`: upper limit of every request's time-out."""
RETRY_MS: Final = 10
"""Pause before another attempt, in which the known leader usually changes."""
FORWARDS_MAX: Final = 10_000
"""Requests being forwarded; any further one is answered REQUEST_TIMED_OUT at once."""

# DefaultPrincipalData v0: INT16 version, then type, name, token_authenticated, no tags.
ANONYMOUS_PRINCIPAL: Final = b"\x00\x00" + b"\x05User" + b"\x0aANONYMOUS" + b"\x00" + b"\x00"


class _Forward(msgspec.Struct):
    """Request that waits for the answer of the active controller."""

    request: Request
    client_address: bytes
    answered: Answered
    deadline_ms: int
    retry_ms: int = NEVER_MS
    """Time of the next attempt while it waits, not after its deadline."""
    last_error: ErrorCode = ErrorCode.request_timed_out


class Forwarding:
    """All requests that this broker is forwarding to the active controller."""

    def __init__(self, controller: ControllerLink, clock: Clock) -> None:
        self._controller = controller
        self._clock = clock
        self._timers = clock.timers
        self._waiting: dict[int, _Forward] = {}
        self._next_id = 1
        self._in_flight_count = 0

    def forward(self, request: Request, client_address: bytes, answered: Answered) -> None:
        """Forward a request; `answered` is called once, with a body or `Encoded` bytes."""
        if self._in_flight_count + len(self._waiting) >= FORWARDS_MAX:
            answered(refusal(request, ErrorCode.request_timed_out))
            return
        deadline_ms = self._clock.now_ms + timeout_ms_of(request.body)
        self._attempt(_Forward(request, client_address, answered, deadline_ms))

    def on_leader_changed(self) -> None:
        """Send all waiting requests again at once."""
        self._retry_all(due_only=False)

    def tick(self) -> None:
        """Send the due requests again; answer those past their deadline with their last error."""
        self._retry_all(due_only=True)

    def _retry_all(self, *, due_only: bool) -> None:
        now_ms = self._clock.now_ms
        for forward_id, forward in list(self._waiting.items()):
            if now_ms >= forward.deadline_ms:
                del self._waiting[forward_id]
                forward.answered(refusal(forward.request, forward.last_error))
            elif not due_only or now_ms >= forward.retry_ms:
                del self._waiting[forward_id]
                self._attempt(forward)
        retries_ms = [forward.retry_ms for forward in self._waiting.values()]
        self._timers.set(FORWARDING, min(retries_ms, default=NEVER_MS))

    def _attempt(self, forward: _Forward) -> None:
        """Send the request to the active controller, or submit it if that is this node."""
        if self._controller.is_local:
            self._in_flight_count += 1
            self._controller.submit_local(
                forward.request.api_key,
                forward.request.body,
                lambda body: self._on_local_answer(forward, body),
                request_context(
                    forward.request,
                    forward.client_address,
                    is_forwarded=True,
                    deadline_ms=forward.deadline_ms,
                ),
            )
            return
        if self._controller.target is None:
            self._again(forward, ErrorCode.request_timed_out)
            return
        new = codec.newest(ENVELOPE, "request")
        body = new.EnvelopeRequest(
            request_data=forward.request.frame,
            request_principal=ANONYMOUS_PRINCIPAL,
            client_host_address=forward.client_address,
        )
        self._in_flight_count += 1
        self._controller.send(
            Channel.FORWARDING,
            ENVELOPE,
            body,
            REQUEST_TIMEOUT_MS,
            lambda answer: self._on_envelope_answer(forward, answer),
        )

    def _on_local_answer(self, forward: _Forward, body: object) -> None:
        self._in_flight_count -= 1
        if is_not_controller(body):
            self._again(forward, ErrorCode.not_controller)
        else:
            forward.answered(body)

    def _on_envelope_answer(self, forward: _Forward, answer: "Failure | EnvelopeResponse") -> None:
        self._in_flight_count -= 1
        if isinstance(answer, Failure):
            self._again(forward, ErrorCode.request_timed_out)
        elif answer.error_code is ErrorCode.none and answer.response_data is not None:
            forward.answered(Encoded(answer.response_data))
        elif answer.error_code is ErrorCode.not_controller:
            self._again(forward, ErrorCode.not_controller)
        else:
            forward.answered(refusal(forward.request, answer.error_code))

    def _again(self, forward: _Forward, error: ErrorCode) -> None:
        forward.last_error = error
        forward.retry_ms = min(self._clock.now_ms + RETRY_MS, forward.deadline_ms)
        self._waiting[self._next_id] = forward
        self._timers.lower(FORWARDING, forward.retry_ms)
        self._next_id += 1


def request_context(
    request: Request,
    address: bytes,
    *,
    principal: str = ANONYMOUS,
    is_forwarded: bool = False,
    deadline_ms: int | None = None,
) -> RequestContext:
    """Make the context of a request for the controller.

    Args:
        request: the request as received.
        address: address of the client, 4 or 16 bytes.
        principal: principal of the client.
        is_forwarded: True if it came through a broker.
        deadline_ms: its deadline; None for that of its own time-out field.
    """
    return RequestContext(
        principal=principal,
        client_host=host_text(address),
        api_version=request.api_version,
        client_id=request.client_id or "",
        is_forwarded=is_forwarded,
        deadline_ms=deadline_ms,
    )


def timeout_ms_of(body: object) -> int:
    """Return the time-out of a request: its own if it has one, at most 30 s."""
    timeout = getattr(body, "timeout", None)
    if not isinstance(timeout, timedelta):
        return REQUEST_TIMEOUT_MS
    return max(0, min(milliseconds(timeout), REQUEST_TIMEOUT_MS))


ROWS: Final = ("topics", "responses", "results", "entries", "replica_election_results")
"""Fields of responses with one row per requested item."""


def is_not_controller(body: object) -> bool:
    """True if a response has NOT_CONTROLLER at its top level or in its first row."""
    if getattr(body, "error_code", None) is ErrorCode.not_controller:
        return True
    for name in ROWS:
        rows = getattr(body, name, None)
        if rows:
            return getattr(rows[0], "error_code", None) is ErrorCode.not_controller
    return False


def refusal(request: Request, error: ErrorCode) -> Entity:
    """Return a response with one error for every requested item."""
    return refusal_body(request.api_key, request.body, error)


def refusal_body(api_key: int, body: object, error: ErrorCode) -> Entity:
    """Return a response body with one error, per item if the API has rows, else at its top."""
    if api_key in HANDLERS:
        return HANDLERS[api_key].refuse(body, ApiError(error))
    entity = codec.entity_class(api_key, SCHEMAS[api_key].newest_version, "response")
    refused: Entity = replace(default_entity(entity), error_code=error)
    return refused
