"""Answers of the kernel that say a throttle time: the quota of time is of all requests of a client.

The kernel measures the time of its handlers and knows no quota. It is charged here, when an answer
passes, and the answer gets the throttle time. An answer that came from the active controller may
have one already, of the changes that the client has made there: the longer of the two counts.

apache/kafka: core/.../server/RequestHandlerHelper.scala (sendResponseMaybeThrottle,
sendForwardedResponse), 4.3
"""

from dataclasses import fields, replace
from datetime import timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from broker.clients.client_quotas import ClientQuotas
from broker.clients.request_metrics import Begun, RequestMetrics
from quorum_controller.security.authorization import Caller
from wire.api_table import SCHEMAS, counted_version
from wire.connections.headers import parse_request_header
from wire.errors import RemoteProtocolError
from wire.messages import codec

FIELD: Final = "throttle_time"
_CORRELATION_BYTES: Final = 4
_THROTTLE_BYTES: Final = 4
POSITIONS_KEPT: Final = 512
"""Versions of APIs of which the place of the throttle time is kept: all, unless clients err."""


class Asked(NamedTuple):
    """The header of a request for the kernel: what it asks for, and who."""

    api_key: int
    api_version: int
    client_id: str | None
    times: tuple[int, int, int]
    """Instants of its receipt and of the way to the kernel, in ns, and its bytes."""


class KernelAnswer:
    """An answer of the kernel, as `AnsweredRequest`; the kernel had the request for `spent_ns`."""

    __slots__ = ("_spent_ns", "answered_ns", "begun", "throttle_ms")

    def __init__(self, request: Asked, spent_ns: int, answered_ns: int) -> None:
        received_ns, passed_ns, size_bytes = request.times
        handled_ns = min(passed_ns + spent_ns, answered_ns)  # others may be in `spent_ns`
        self.begun: Begun | None = (
            request.api_key, received_ns, passed_ns, handled_ns, size_bytes
        )  # fmt: skip
        self.answered_ns = answered_ns
        self.throttle_ms = 0
        self._spent_ns = spent_ns

    def charged(
        self, quotas: ClientQuotas, caller: Caller, request: Asked, response: bytes
    ) -> bytes:
        """Charge the time, if it has a quota; the response, with the throttle time if longer."""
        told_ms = told_throttle_ms(request, response)
        self.throttle_ms = quotas.spend(caller, request.client_id, self._spent_ns, told_ms)
        if self.throttle_ms == told_ms:
            return response
        return with_throttle_time(request, response, self.throttle_ms)


def asked(frame: bytearray, received_ns: int, metrics: RequestMetrics) -> Asked | None:
    """Read and count the header of a request; None if it has none, for which the kernel closes."""
    try:
        header, _ = parse_request_header(frame)
    except RemoteProtocolError:
        return None
    if header.api_key in SCHEMAS:  # the kernel closes a connection that asks for anything else
        metrics.begun(header.api_key, counted_version(header.api_key, header.api_version))
    times = (received_ns, metrics.nanoseconds(), len(frame))
    return Asked(header.api_key, header.api_version, header.client_id, times)


def told_throttle_ms(request: Asked, response: bytes) -> int:
    """Return the throttle time of a response that begins with one; the controller's all do."""
    position = _throttle_position(request.api_key, request.api_version)
    if not position:
        return 0
    return int.from_bytes(response[position : position + _THROTTLE_BYTES], "big")


def with_throttle_time(request: Asked, response: bytes, throttle_ms: int) -> bytes:
    """Return a response with its throttle time, if one of this version has it."""
    key, version = request.api_key, request.api_version
    position = _throttle_position(key, version)
    if position is None:
        return response
    if position:
        encoded = throttle_ms.to_bytes(_THROTTLE_BYTES, "big")
        return response[:position] + encoded + response[position + _THROTTLE_BYTES :]
    number, body = codec.decode_response(key, version, response)
    body = replace(body, throttle_time=timedelta(milliseconds=throttle_ms))
    return codec.encode_response(key, version, number, body)


@lru_cache(POSITIONS_KEPT)
def _throttle_position(key: int, version: int) -> int | None:
    """Position of the throttle time in responses: 0 behind other fields, None for none."""
    try:
        names = [field.name for field in fields(codec.entity_class(key, version, "response"))]
        is_tagged = codec.has_flexible_response_header(key, version)
    except LookupError:  # ApiVersions answers an unknown version with an error
        return None
    if FIELD not in names:
        return None
    return _CORRELATION_BYTES + is_tagged if names[0] == FIELD else 0
