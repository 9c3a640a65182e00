"""A client of this node inside its own process: what the inspection API asks the leader with.

It goes the way of every other client (listener, dispatch, forwarding), without a socket.
"""

import asyncio
from typing import Any, Final, Protocol

from inspection.inspected import AskError
from kernel.events import BytesReceived, Event
from wire.client_connection import ClientConnection
from wire.errors import LocalProtocolError, RemoteProtocolError

ANSWER_S: Final = 1.0


class Attachable(Protocol):
    """The driver's side: `attach` gives something without a socket a connection id."""

    def attach(self, listener: str, end: "LocalClient") -> int:
        """Open a connection; what is sent to it goes to `end.write`, its end to `end.close`."""
        ...

    def post(self, event: Event) -> None:
        """Queue an event."""
        ...


class LocalClient:
    """One connection, opened at the first question and again after it was closed."""

    def __init__(self, driver: Attachable, listener: str) -> None:
        self._driver = driver
        self._listener = listener
        self._connection: ClientConnection | None = None
        self._connection_id = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    async def ask(self, api_key: int, body: Any) -> Any:
        """Send one request through this node and wait for its response.

        Raises:
            AskError: no answer within `ANSWER_S`, or the connection was closed.
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

    def write(self, content: bytes) -> None:
        """The node answers."""
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
        """The node closed the connection: nobody is answered any more."""
        self._connection = None
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(AskError("the node closed the connection"))

    def set_reading(self, *, is_wanted: bool) -> None:
        """Questions are few: nothing needs to be held back."""

    def _send(self, content: bytes) -> None:
        if content:
            self._driver.post(BytesReceived(self._connection_id, content))
