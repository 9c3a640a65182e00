"""Connections that others opened to this node: bytes to requests, answers to bytes, in order."""

from collections.abc import Callable, Mapping
from typing import Any

from kernel.effects import CloseConnection, Effect, Log, LogLevel, SendBytes
from kernel.forwarding import Encoded
from wire.api_table import Api, ListenerKind
from wire.connection import Request, ServerConnection
from wire.errors import LocalProtocolError, RemoteProtocolError


class Client:
    """One connection."""

    __slots__ = ("address", "connection", "connection_id", "kind", "listener")

    def __init__(
        self,
        connection_id: int,
        listener: str,
        kind: ListenerKind,
        address: bytes,
        connection: ServerConnection,
    ) -> None:
        self.connection_id = connection_id
        self.listener = listener
        self.kind = kind
        self.address = address
        self.connection = connection


Answered = Callable[[Any], None]
Serve = Callable[[Client, Request, Answered], None]


class Connections:
    """All of them.

    Args:
        apis: what each kind of listener serves.
        controller_listeners: names of the listeners of controllers.
        serve: takes each request, with the function to answer it.
    """

    def __init__(
        self,
        apis: Mapping[ListenerKind, Mapping[int, Api]],
        controller_listeners: tuple[str, ...],
        request_bytes_max: int,
        effects: list[Effect],
        serve: Serve,
    ) -> None:
        self._apis = apis
        self._controller_listeners = controller_listeners
        self._request_bytes_max = request_bytes_max
        self._effects = effects
        self._serve = serve
        self._clients: dict[int, Client] = {}

    def __len__(self) -> int:
        """How many are open."""
        return len(self._clients)

    def opened(self, connection_id: int, listener: str, client_host: str) -> None:
        """Somebody connected."""
        assert connection_id not in self._clients, f"{connection_id=} is open"
        is_controller = listener in self._controller_listeners
        kind = ListenerKind.CONTROLLER if is_controller else ListenerKind.BROKER
        connection = ServerConnection(self._apis[kind], self._request_bytes_max)
        address = address_bytes(client_host)
        self._clients[connection_id] = Client(connection_id, listener, kind, address, connection)

    def closed(self, connection_id: int) -> None:
        """It is gone; answers that are still to come are dropped."""
        self._clients.pop(connection_id, None)

    def received(self, connection_id: int, content: bytes) -> None:
        """Bytes; nonsense closes the connection, and only it."""
        client = self._clients.get(connection_id)
        if client is None:
            return
        try:
            requests = client.connection.receive(content)
        except RemoteProtocolError as error:
            self._close(client, str(error))
            return
        for request in requests:
            self._serve(client, request, self._answer_function(client, request))

    def _answer_function(self, client: Client, request: Request) -> Answered:
        return lambda answer: self._answer(client, request, answer)

    def _answer(self, client: Client, request: Request, answer: Any) -> None:
        if self._clients.get(client.connection_id) is not client:
            return
        connection = client.connection
        had_room = connection.wants_bytes
        try:
            if isinstance(answer, Encoded):
                content = connection.respond_encoded(request.reply_slot, answer.frame)
            else:
                content = connection.respond(request.reply_slot, answer)
        except LocalProtocolError as error:
            self._close(client, f"the answer cannot be said in this version: {error}")
            return
        if content:
            self._effects.append(SendBytes(client.connection_id, content))
        if not had_room and connection.wants_bytes:
            self.received(client.connection_id, b"")

    def _close(self, client: Client, reason: str) -> None:
        del self._clients[client.connection_id]
        fields = {"listener": client.listener, "reason": reason}
        self._effects.append(Log(LogLevel.WARN, "connection_refused", fields))
        self._effects.append(CloseConnection(client.connection_id, reason))


def address_bytes(host: str) -> bytes:
    """The 4 bytes of an IPv4 address, as an Envelope carries them; loopback for other forms."""
    parts = host.split(".")
    if len(parts) == 4 and all(part.isdecimal() and int(part) < 256 for part in parts):
        return bytes(int(part) for part in parts)
    return b"\x7f\x00\x00\x01"
