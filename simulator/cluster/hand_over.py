"""Bodies of messages between nodes kept in memory: a frame carries only their number.

Nothing but the body is left out: the frame that stands for a message has the fields of a real one
(length, api key, version, correlation id), then eight bytes of number. So it is delayed, cut, lost
and joined with others like any bytes, and readers of frames find the fields they know. The body is
the object that the sender made, where production code would have encoded and decoded it; bodies
are immutable. Messages of clients, ApiVersions, answers that a node got as bytes, and Fetches of
unusual types are encoded in every seed; in one seed of ten, without hand-over, all messages are.
"""

import struct
from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from network.peers import RESPONSE_BYTES_MAX
from wire.api_keys import API_VERSIONS, FETCH
from wire.api_table import Api
from wire.connections.client_connection import ClientConnection, Pending, Response
from wire.connections.connection import Request, ServerConnection
from wire.connections.framing import LENGTH_BYTES
from wire.messages.codec import Body
from wire.messages.fetch_messages import FetchRequest, FetchResponse
from wire.primitives import Buffer
from wire.types import CorrelationId

_REQUEST: Final = struct.Struct(">ihhiq")
"""Length, api key, version, correlation id, number."""
_RESPONSE: Final = struct.Struct(">iiq")
"""Length, correlation id, number."""
_REQUEST_LENGTH: Final = _REQUEST.size - LENGTH_BYTES
_RESPONSE_LENGTH: Final = _RESPONSE.size - LENGTH_BYTES


class HandOver:
    """Messages of a world in flight, by the content of their frames.

    A lost one stays here until the world ends.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, Any] = {}
        self._count = 0

    def server_connection(self, apis: Mapping[int, Api], bytes_max: int) -> ServerConnection:
        """Make the server's side of a connection of a node or a client."""
        return HandedServerConnection(self, apis, bytes_max)

    def client_connection(self, client_id: str) -> ClientConnection:
        """Make the client's side of a connection between nodes."""
        return HandedClientConnection(self, client_id)

    def put_request(
        self, api_key: int, version: int, correlation_id: int, client_id: str | None, body: Body
    ) -> bytes:
        """Keep the body of a request; return the frame that stands for it."""
        number = self._count = self._count + 1
        frame = _REQUEST.pack(_REQUEST_LENGTH, api_key, version, correlation_id, number)
        self._known[frame[LENGTH_BYTES:]] = (api_key, version, correlation_id, client_id, body)
        return frame

    def put_response(self, correlation_id: int, body: Body) -> bytes:
        """Keep the body of a response; return the frame that stands for it."""
        number = self._count = self._count + 1
        frame = _RESPONSE.pack(_RESPONSE_LENGTH, correlation_id, number)
        self._known[frame[LENGTH_BYTES:]] = body
        return frame

    def take(self, content: bytes) -> Any:
        """Take what a frame stands for: a response's body, of a request its header and its body.

        Returns:
            None where the frame is an encoded message.
        """
        return self._known.pop(content, None)


def _stays(api_key: int, body: Body) -> bool:
    """True if a reader of the encoded bytes would have just this body."""
    if api_key == FETCH:
        return isinstance(body, FetchRequest | FetchResponse)
    return api_key != API_VERSIONS


class HandedServerConnection(ServerConnection):
    """Server's side that takes requests of both kinds and answers a node in its own kind."""

    def __init__(self, hand_over: HandOver, apis: Mapping[int, Api], bytes_max: int) -> None:
        super().__init__(apis, bytes_max)
        self._hand_over = hand_over
        self._arrived: tuple[bytes, Any] | None = None
        self._is_of_node = False

    @override
    def feed(self, received: bytes | bytearray | memoryview) -> None:
        """Feed as `ServerConnection` does; a frame that stands for a request is not cut out."""
        assert type(received) is bytes
        if self._arrived is None and self._failure is None and not self._frames.buffered_bytes:
            content = received[LENGTH_BYTES:]
            known = self._hand_over.take(content)
            if known is not None:
                self._arrived = content, known
                return
        super().feed(received)

    @override
    def next_request(self) -> Request | None:
        """Take the next request, as `ServerConnection` does."""
        arrived = self._arrived
        if arrived is None:
            return super().next_request() if self._frames.buffered_bytes else None
        if not self.wants_bytes:
            return None
        self._arrived = None
        request = self._request(*arrived)
        slot = self._slots.take()
        self._awaited[slot] = (request.api_key, request.api_version, request.correlation_id)
        return request

    @override
    def _read(self, content: bytes) -> Request:
        known = self._hand_over.take(content)
        return super()._read(content) if known is None else self._request(content, known)

    def _request(self, content: bytes, known: Any) -> Request:
        api_key, version, correlation_id, client_id, body = known
        assert api_key in self._apis, f"{api_key=} is not served"
        self._is_of_node = True
        slot = self._slots.next_slot
        return Request(api_key, version, correlation_id, client_id, body, slot, None, content)

    @override
    def respond(self, reply_slot: int, body: Body) -> bytes:
        """Respond as `ServerConnection` does."""
        api_key, _, correlation_id = self._awaited[reply_slot]
        if not self._is_of_node or not _stays(api_key, body):
            return super().respond(reply_slot, body)
        del self._awaited[reply_slot]
        return self._release(reply_slot, self._hand_over.put_response(correlation_id, body))


class HandedClientConnection(ClientConnection):
    """Client's side between nodes; hands bodies over once both know each other's versions."""

    def __init__(self, hand_over: HandOver, client_id: str) -> None:
        super().__init__(client_id, response_bytes_max=RESPONSE_BYTES_MAX)
        self._hand_over = hand_over

    @override
    def _encode(self, api_key: int, correlation_id: CorrelationId, body: Body) -> bytes:
        if not _stays(api_key, body):
            return super()._encode(api_key, correlation_id, body)
        version = self._usable_version(api_key)
        self._in_flight.append(Pending(api_key, version, correlation_id))
        return self._hand_over.put_request(api_key, version, correlation_id, self._client_id, body)

    @override
    def receive(self, received: bytes | bytearray | memoryview) -> list[Response]:
        """Receive as `ClientConnection` does; a frame that stands for a response is not cut out."""
        assert type(received) is bytes
        if not self._frames.buffered_bytes:
            content = received[LENGTH_BYTES:]
            body = self._hand_over.take(content)
            if body is not None:
                pending = self._match(content)
                return [Response(pending.api_key, pending.correlation_id, body)]
        return super().receive(received)

    @override
    def _read(self, pending: Pending, content: Buffer) -> Body:
        body = self._hand_over.take(bytes(content))
        return super()._read(pending, content) if body is None else body
