"""A client of the quorum's leader over a socket of its own.

It is for a node without a broker listener, by which `LocalClient` gets its requests forwarded: a
controller that does not lead refuses requests that only the leader can answer.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from inspection.running_node import AskError
from wire.connections.client_connection import ClientConnection
from wire.errors import LocalProtocolError, RemoteProtocolError

ANSWER_S: Final = 1.0
READ_BYTES: Final = 64 * 1024


class LeaderClient:
    """A client that connects for each request: they are few, and the leader may change.

    Args:
        leader_address: returns host and port of the leader's controller listener, or None.
    """

    def __init__(self, leader_address: Callable[[], tuple[str, int] | None]) -> None:
        self._leader_address = leader_address

    async def ask(self, api_key: int, body: Any) -> Any:
        """Send one request and wait for its response.

        Raises:
            AskError: no leader is known, or there is no response within `ANSWER_S`.
        """
        address = self._leader_address()
        if address is None:
            raise AskError("no leader is known")
        try:
            async with asyncio.timeout(ANSWER_S):
                return await _asked(address, api_key, body)
        except TimeoutError as error:
            raise AskError(f"no answer within {ANSWER_S} s") from error
        except (OSError, LocalProtocolError, RemoteProtocolError) as error:
            raise AskError(str(error)) from error


async def _asked(address: tuple[str, int], api_key: int, body: Any) -> Any:
    reader, writer = await asyncio.open_connection(*address)
    try:
        connection = ClientConnection("inspection")
        writer.write(connection.opening_bytes())
        connection.request(api_key, body)
        while received := await reader.read(READ_BYTES):
            responses = connection.receive(received)
            writer.write(connection.bytes_to_send())
            if responses:
                return responses[0].body
        raise AskError("the leader closed the connection")
    finally:
        writer.close()
