"""Connections of harness clients: Kafka's protocol over asyncio, one request at a time, no retries.

A retried request turns one operation into several, so nothing here sends twice. A failure raises
`CallError`, which says whether a byte of the request may have left: only then is the outcome open.
"""

import asyncio
from collections.abc import Awaitable
from contextlib import ExitStack
from typing import Any, Final, NamedTuple, TypeVar

from wire.connections.client_connection import ClientConnection
from wire.errors import LocalProtocolError, RemoteProtocolError

CLIENT_ID: Final = "jepsen"
RECEIVE_BYTES: Final = 64 * 1024
CONNECT_TIMEOUT_S: Final = 1.0
_Value = TypeVar("_Value")


class Address(NamedTuple):
    """Host and port of a listener."""

    host: str
    port: int


class CallError(Exception):
    """A request without a response.

    Attributes:
        is_sent: False only if no byte of the request left.
        reason: `refused`, `timeout`, `closed`, or the other side's error in the protocol.
    """

    def __init__(self, reason: str, *, is_sent: bool) -> None:
        super().__init__(reason)
        self.reason: Final = reason
        self.is_sent: Final = is_sent


class Connection:
    """One connection to one listener; unusable after a CallError."""

    def __init__(
        self, protocol: ClientConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._protocol = protocol
        self._reader = reader
        self._writer = writer

    @classmethod
    async def opened(cls, address: Address, timeout_s: float = CONNECT_TIMEOUT_S) -> "Connection":
        """Connect and ask for the versions.

        Raises:
            CallError: no answer; nothing of any request was sent.
        """
        try:
            reader, writer = await _within(
                timeout_s, asyncio.open_connection(address.host, address.port)
            )
        except OSError as error:  # TimeoutError too
            reason = "timeout" if isinstance(error, TimeoutError) else "refused"
            raise CallError(reason, is_sent=False) from error
        connection = cls(ClientConnection(CLIENT_ID), reader, writer)
        with ExitStack() as undoing:
            undoing.callback(connection.close)
            try:
                await _within(timeout_s, connection._negotiate())
            except (CallError, OSError) as error:  # TimeoutError too
                raise CallError(_reason(error), is_sent=False) from error
            undoing.pop_all()
        return connection

    async def call(self, api_key: int, body: Any, timeout_s: float) -> Any:
        """Send one request and wait for its response; bodies have kio's newest shape.

        Raises:
            CallError: there was none.
        """
        try:
            _, content = self._protocol.request(api_key, body)
        except LocalProtocolError as error:
            raise CallError(str(error), is_sent=False) from error
        self._writer.write(content)
        try:
            return await _within(timeout_s, self._response())
        except (CallError, OSError) as error:
            raise CallError(_reason(error), is_sent=True) from error

    def close(self) -> None:
        """Close the socket at once."""
        self._writer.transport.abort()

    async def _negotiate(self) -> None:
        self._writer.write(self._protocol.opening_bytes())
        while not self._protocol.is_negotiated:
            await self._receive()
            self._writer.write(self._protocol.bytes_to_send())

    async def _response(self) -> Any:
        while not (responses := await self._receive()):
            pass
        return responses[0].body

    async def _receive(self) -> list[Any]:
        received = await self._reader.read(RECEIVE_BYTES)
        if not received:
            raise CallError("closed", is_sent=True)
        try:
            return list(self._protocol.receive(received))
        except (RemoteProtocolError, LocalProtocolError) as error:
            raise CallError(f"nonsense: {error}", is_sent=True) from error


class Connections:
    """Connections by address, opened when needed, dropped after a failure."""

    def __init__(self) -> None:
        self._opened: dict[Address, Connection] = {}

    async def call(self, address: Address, api_key: int, body: Any, timeout_s: float) -> Any:
        """Send one request and wait for its response.

        Raises:
            CallError: there was none.
        """
        connection = self._opened.get(address)
        with ExitStack() as undoing:
            undoing.callback(self._drop, address)
            if connection is None:
                connection = self._opened[address] = await Connection.opened(address)
            answer = await connection.call(api_key, body, timeout_s)
            undoing.pop_all()
        return answer

    def _drop(self, address: Address) -> None:
        dropped = self._opened.pop(address, None)
        if dropped is not None:
            dropped.close()

    def close(self) -> None:
        """Drop all."""
        for connection in self._opened.values():
            connection.close()
        self._opened.clear()


async def _within(seconds: float, work: Awaitable[_Value]) -> _Value:
    async with asyncio.timeout(seconds):
        return await work


def _reason(error: BaseException) -> str:
    if isinstance(error, CallError):
        return error.reason
    return "timeout" if isinstance(error, TimeoutError) else "closed"
