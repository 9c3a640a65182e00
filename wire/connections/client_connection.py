"""The client's side of one connection: version negotiation, matching of responses to requests.

The first request is ApiVersions version 3, which old and much newer servers can answer; if the
server answers UNSUPPORTED_VERSION (in version 0), version 0 is requested. Requests made before the
answer wait in this object. From then on every request is sent in the highest version that both
sides know, without waiting for others; responses come in the order of the requests.
"""

from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Protocol

import msgspec

from wire.api_keys import API_VERSIONS
from wire.api_table import SCHEMAS, api_name
from wire.connections.framing import FrameReader, frame
from wire.connections.headers import parse_correlation_id
from wire.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from wire.messages.codec import (
    Body,
    decode_version_ranges,
    encode_request,
    entity_class,
    read_response,
)
from wire.primitives import Buffer
from wire.types import CorrelationId

RESPONSE_BYTES_MAX: Final = 100 * 1024 * 1024
_HANDSHAKE_VERSION: Final = 3
_CORRELATION_ID_MAX: Final = (1 << 31) - 1
_SOFTWARE_NAME: Final = "kraftline"


class Response(msgspec.Struct, frozen=True):
    """A response with its body in the newest shape; the correlation id is that of `request`."""

    api_key: int
    correlation_id: CorrelationId
    body: Body


class Pending(msgspec.Struct, frozen=True):
    """A request in flight, to be matched with its response."""

    api_key: int
    api_version: int
    correlation_id: CorrelationId


class Frames(Protocol):
    """A reader of frames."""

    @property
    def buffered_bytes(self) -> int:
        """Number of bytes received and not yet returned as frames."""
        ...

    def feed(self, received: bytes | bytearray | memoryview) -> None:
        """Add bytes of the stream."""
        ...

    def next_frame(self) -> Buffer | None:
        """The next whole frame without its length; None until more bytes arrive."""
        ...


class ClientConnection:
    """Requests and responses of one connection to a server; holds no socket.

    Use: write what `opening_bytes()` returns once the socket is open; write what `request` returns;
    give what arrives to `receive` and then write what `bytes_to_send()` returns.
    """

    def __init__(
        self,
        client_id: str | None,
        software_version: str = "0.1.0",
        response_bytes_max: int = RESPONSE_BYTES_MAX,
        version_limits: Mapping[int, int] | None = None,
    ) -> None:
        """A fresh connection; `version_limits` holds highest versions to use, by API key."""
        self._client_id = client_id
        self._software_version = software_version
        self._frames: Frames = FrameReader(response_bytes_max)
        self._version_limits = dict(version_limits or {})
        self._next_correlation_id = 0
        self._in_flight: deque[Pending] = deque()
        self._waiting: list[tuple[int, CorrelationId, Body]] = []
        self._outgoing: list[bytes] = []
        self._server_versions: Mapping[int, tuple[int, int]] | None = None
        self._versions: dict[int, int | None] = {}  # results of `negotiated_version` by API

    @property
    def is_negotiated(self) -> bool:
        """True once the server's versions are known."""
        return self._server_versions is not None

    def negotiated_version(self, api_key: int) -> int | None:
        """The highest version both sides know; None before negotiation and if there is none."""
        if self._server_versions is None or api_key not in self._server_versions:
            return None
        server_min, server_max = self._server_versions[api_key]
        schema = SCHEMAS[api_key]
        limit = self._version_limits.get(api_key, schema.newest_version)
        version = min(server_max, schema.newest_version, limit)
        if version < server_min or not _is_known(api_key, version):
            return None
        return version

    def opening_bytes(self) -> bytes:
        """The first bytes to write: the ApiVersions request."""
        assert not self._in_flight, "a connection is opened once"
        return self._ask_versions(_HANDSHAKE_VERSION)

    def request(self, api_key: int, body: Body) -> tuple[CorrelationId, bytes]:
        """Encode a request with a body of the newest shape, or keep it until negotiation.

        Returns:
            Its correlation id and the bytes to write now: none before versions are negotiated.

        Raises:
            LocalProtocolError: the server does not have the API, or not in a usable version.
        """
        correlation_id = self._take_correlation_id()
        if self._server_versions is None:
            self._waiting.append((api_key, correlation_id, body))
            return correlation_id, b""
        return correlation_id, self._encode(api_key, correlation_id, body)

    def request_without_response(self, api_key: int, body: Body) -> bytes:
        """Encode a request that the server never answers: Produce with acks 0.

        Raises:
            LocalProtocolError: the server does not have the API, or not in a usable version.
        """
        assert self.is_negotiated, "such a request cannot wait"
        content = self._encode(api_key, self._take_correlation_id(), body)
        self._in_flight.pop()
        return content

    def receive(self, received: bytes | bytearray | memoryview) -> list[Response]:
        """Return the responses that these bytes complete, except that to ApiVersions.

        Raises:
            RemoteProtocolError: the connection must be closed; the text says why.
            LocalProtocolError: a waiting request cannot be sent to this server.
        """
        self._frames.feed(received)
        responses = []
        while (content := self._frames.next_frame()) is not None:
            pending = self._match(content)
            if self._server_versions is None:
                self._on_api_versions(pending, bytes(content))
                continue
            body = self._read(pending, content)
            responses.append(Response(pending.api_key, pending.correlation_id, body))
        return responses

    def bytes_to_send(self) -> bytes:
        """Take the bytes that `receive` released: a second ApiVersions, or the waiting requests."""
        content = b"".join(self._outgoing)
        self._outgoing.clear()
        return content

    def _read(self, pending: Pending, content: Buffer) -> Body:
        return read_response(pending.api_key, pending.api_version, bytes(content))[1]

    def _match(self, content: Buffer) -> Pending:
        correlation_id = parse_correlation_id(content)
        if not self._in_flight:
            raise RemoteProtocolError(f"response {correlation_id} without a request")
        pending = self._in_flight.popleft()
        if correlation_id != pending.correlation_id:
            raise RemoteProtocolError(
                f"response {correlation_id} where that to {api_name(pending.api_key)}"
                f" {pending.correlation_id} is due"
            )
        return pending

    def _on_api_versions(self, pending: Pending, content: bytes) -> None:
        error = _leading_error_code(content)
        if error == ErrorCode.unsupported_version.value and pending.api_version > 0:
            self._outgoing.append(self._ask_versions(0))
            return
        if error != ErrorCode.none.value:
            raise RemoteProtocolError(f"ApiVersions was answered with error {error}")
        self._server_versions = decode_version_ranges(pending.api_version, content)
        waiting, self._waiting = self._waiting, []
        for api_key, correlation_id, request_body in waiting:
            self._outgoing.append(self._encode(api_key, correlation_id, request_body))

    def _encode(self, api_key: int, correlation_id: CorrelationId, body: Body) -> bytes:
        version = self._usable_version(api_key)
        encoded = encode_request(api_key, version, correlation_id, self._client_id, body)
        self._in_flight.append(Pending(api_key, version, correlation_id))
        return frame(encoded)

    def _usable_version(self, api_key: int) -> int:
        if api_key not in self._versions:
            self._versions[api_key] = self.negotiated_version(api_key)
        version = self._versions[api_key]
        if version is None:
            raise LocalProtocolError(f"the server has no usable version of {api_name(api_key)}")
        return version

    def _ask_versions(self, version: int) -> bytes:
        correlation_id = self._take_correlation_id()
        body = _greeting(self._software_version)
        encoded = encode_request(API_VERSIONS, version, correlation_id, self._client_id, body)
        self._in_flight.append(Pending(API_VERSIONS, version, correlation_id))
        return frame(encoded)

    def _take_correlation_id(self) -> CorrelationId:
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & _CORRELATION_ID_MAX
        return CorrelationId(correlation_id)


@lru_cache(1)
def _greeting(software_version: str) -> Any:
    return entity_class(API_VERSIONS, SCHEMAS[API_VERSIONS].newest_version, "request")(
        client_software_name=_SOFTWARE_NAME, client_software_version=software_version
    )


def _is_known(api_key: int, version: int) -> bool:
    try:
        entity_class(api_key, version, "request")
    except LookupError:
        return False
    return True


def _leading_error_code(content: bytes) -> int:
    """The error code after the correlation id: the first field of ApiVersions in every version."""
    if len(content) < 6:
        raise RemoteProtocolError(f"ApiVersions response of {len(content)} bytes")
    return int.from_bytes(content[4:6], "big", signed=True)
