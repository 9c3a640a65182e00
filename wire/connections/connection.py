"""The server's side of one connection: bytes in, requests out; responses in, bytes out.

Responses leave in the order of requests (`wire.connections.reply_slots`). The number of unanswered
requests is limited; at the limit frames stay unread and `wants_bytes` stops the driver's reading.

An invalid request ends the connection, but the requests before it are answered first (as in Kafka,
which reads the next request of a connection only after it has answered the last).
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from wire.api_keys import API_VERSIONS
from wire.api_table import Api, api_name
from wire.connections.framing import FrameReader, frame
from wire.connections.headers import RequestHeader, parse_request_header
from wire.connections.reply_slots import ReplySlots
from wire.errors import ErrorCode, RemoteProtocolError
from wire.messages.codec import (
    Body,
    default_request,
    encode_response,
    is_flexible,
    read_request,
)
from wire.primitives import skip_tagged_fields

IN_FLIGHT_MAX: Final = 1024


class Request(msgspec.Struct, frozen=True):
    """One request with its body in the newest shape.

    `error` is set where Kafka answers instead of closing: an ApiVersions request of an unknown
    version. Its body is then the default one and `api_version` 0, the version of the answer.
    `frame` is the received request, header included, as an Envelope carries it.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: Body
    reply_slot: int
    error: ErrorCode | None
    frame: bytes


def parse_request(apis: Mapping[int, Api], received: bytes, reply_slot: int = 0) -> Request:
    """The request in a frame; the listener must serve its API in this version.

    Raises:
        RemoteProtocolError: the API or version is not served, or the bytes are not such a request.
    """
    header, position = parse_request_header(received)
    api = apis.get(header.api_key)
    if api is None:
        raise RemoteProtocolError(
            f"{api_name(header.api_key)} (key {header.api_key}) is not served on this listener"
        )
    if not api.min_version <= header.api_version <= api.max_version:
        if header.api_key == API_VERSIONS:
            return _refused_api_versions(header, received, reply_slot)
        raise RemoteProtocolError(
            f"version {header.api_version} of {api.name} is not served,"
            f" only {api.min_version} to {api.max_version}"
        )
    try:
        if is_flexible(header.api_key, header.api_version):
            position = skip_tagged_fields(received, position)
    except LookupError:
        raise RemoteProtocolError(
            f"version {header.api_version} of {api.name} is offered for the sake of clients"
            " that look for it, and not served"
        ) from None
    body = read_request(header.api_key, header.api_version, received, position)
    return Request(
        header.api_key,
        header.api_version,
        header.correlation_id,
        header.client_id,
        body,
        reply_slot,
        None,
        received,
    )


class ServerConnection:
    """Requests and responses of one connection; holds no socket."""

    def __init__(
        self,
        apis: Mapping[int, Api],
        request_bytes_max: int,
        in_flight_max: int = IN_FLIGHT_MAX,
    ) -> None:
        """A fresh connection to a listener that serves the given APIs."""
        assert API_VERSIONS in apis
        assert in_flight_max > 0
        self._apis = apis
        self._frames = FrameReader(request_bytes_max)
        self._in_flight_max = in_flight_max
        self._slots = ReplySlots[bytes]()
        # Per slot in flight: api key, version and correlation id that its response is encoded for.
        self._awaited: dict[int, tuple[int, int, int]] = {}
        self._failure: str | None = None

    @property
    def in_flight_count(self) -> int:
        """Number of requests returned whose response has not been given to the driver."""
        return self._slots.in_flight_count

    @property
    def wants_bytes(self) -> bool:
        """True if the driver should read: false at the in-flight limit and after a failure."""
        return self._slots.in_flight_count < self._in_flight_max and self._failure is None

    @property
    def failure(self) -> str | None:
        """Reason to close the connection once nothing is in flight; None while there is none."""
        return self._failure

    def end(self, reason: str) -> None:
        """Accept no further request, as after an invalid one: `failure` becomes the reason."""
        if self._failure is None:
            self._failure = reason

    def feed(self, received: bytes | bytearray | memoryview) -> None:
        """Add bytes of the stream; after a failure they are dropped."""
        if self._failure is None:
            self._frames.feed(received)

    def next_request(self) -> Request | None:
        """Return the next whole request; None until bytes or responses make one possible.

        An invalid request after unanswered ones is not raised but kept as `failure`.

        Raises:
            RemoteProtocolError: the connection must be closed now; the text says why.
        """
        if not self.wants_bytes:
            return None
        try:
            content = self._frames.next_frame()
            if content is None:
                return None
            request = self._read(content)
        except RemoteProtocolError as error:
            if self.in_flight_count == 0:
                raise
            self._failure = str(error)
            return None
        self._awaited[self._slots.take()] = (
            request.api_key,
            request.api_version,
            request.correlation_id,
        )
        return request

    def _read(self, content: bytes) -> Request:
        return parse_request(self._apis, content, self._slots.next_slot)

    def receive(self, received: bytes | bytearray | memoryview) -> list[Request]:
        """Return all requests that these bytes complete, up to the limit of `next_request`.

        Once `wants_bytes` is true again, call it with no bytes: whole frames may be buffered.
        """
        self.feed(received)
        requests = []
        while (request := self.next_request()) is not None:
            requests.append(request)
        return requests

    def respond(self, reply_slot: int, body: Body) -> bytes:
        """Answer a request with a body of the newest shape.

        Returns:
            The bytes to write now, in request order; empty while an earlier one is unanswered.

        Raises:
            LocalProtocolError: the version of the request cannot carry the body.
        """
        api_key, api_version, correlation_id = self._awaited[reply_slot]
        encoded = encode_response(api_key, api_version, correlation_id, body)
        return self.respond_encoded(reply_slot, encoded)

    def respond_encoded(self, reply_slot: int, response: bytes) -> bytes:
        """Answer a request with a response frame (header and body) made elsewhere."""
        self._awaited.pop(reply_slot)
        return self._release(reply_slot, frame(response))

    def respond_nothing(self, reply_slot: int) -> bytes:
        """Finish a request that has no response, as Produce with acks=0."""
        self._awaited.pop(reply_slot)
        return self._release(reply_slot, b"")

    def _release(self, reply_slot: int, content: bytes) -> bytes:
        return b"".join(self._slots.release(reply_slot, content))


def _refused_api_versions(header: RequestHeader, received: bytes, reply_slot: int) -> Request:
    return Request(
        header.api_key,
        0,
        header.correlation_id,
        header.client_id,
        default_request(API_VERSIONS),
        reply_slot,
        ErrorCode.unsupported_version,
        received,
    )
