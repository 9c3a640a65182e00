"""A client of this node in its own process, used by the inspection API to query the leader.

Its requests are served like those of any client (listener, dispatch, forwarding), but without a
socket.
"""

import asyncio
from typing import Any, Final, Protocol

from inspection.running_node import AskError
from kernel.events import BytesReceived, Event
from wire.connections.client_connection import ClientConnection
from wire.errors import LocalProtocolError, RemoteProtocolError

ANSWER_S: Final = 1.0


class Attachable(Protocol):
    """The interface of the driver for clients without a socket."""

    def attach(self, listener: str, end: "LocalClient") -> int:
        """Open a connection and return its id; `end.write` gets its bytes, `end.close` its end."""
        ...

    def post(self, event: Event) -> None:
        """Queue an event."""
        ...


class LocalClient:
    """One connection to this node, opened at the first request and again after a close."""

    def __init__(self, driver: Attachable, listener: str) -> None:
        self._driver = driver
        self._listener = listener
        self._connection: ClientConnection | None = None
        self._connection_id = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    async def ask(self, api_key: int, body: Any) -> Any:
        """Send one request through this node and wait for its response.

        Raises:
            AskError: no response within `ANSWER_S`, or the connection was closed.
        """
        if self._connection is None:
            self._connection = ClientConnection("inspection")
            self._connection_id = self._driver.attach(self._listener, self)
            self._send(self._connection.opening_bytes())
        try:
            correlation_id, content = self._connection.request(api_key, body)
        except LocalProtocolError as error:
            raise AskError(str(error)) from error
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = answer
        self._send(content)
        try:
            async with asyncio.timeout(ANSWER_S):
                return await answer
        except TimeoutError as error:
            raise AskError(f"no answer within {ANSWER_S} s") from error
        finally:
            self._waiting.pop(correlation_id, None)

    def write(self, content: bytes, spent_ns: int = 0) -> None:  # noqa: ARG002 - has no quota
        """Receive bytes from the node and complete the requests that they answer."""
        if self._connection is None:
            return
        try:
            responses = self._connection.receive(content)
        except (RemoteProtocolError, LocalProtocolError):
            self.close()
            return
        self._send(self._connection.bytes_to_send())
        for response in responses:
            answer = self._waiting.pop(response.correlation_id, None)
            if answer is not None and not answer.done():
                answer.set_result(response.body)

    def close(self) -> None:
        """Fail the pending requests: the node closed the connection."""
        self._connection = None
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(AskError("the node closed the connection"))

    def set_reading(self, *, is_wanted: bool) -> None:
        """Do nothing: requests are too few to need back-pressure."""

    def _send(self, content: bytes) -> None:
        if content:
            self._driver.post(BytesReceived(self._connection_id, content))
