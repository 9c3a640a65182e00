"""A question to the leader of the quorum over a socket of its own.

For a node without a broker's listener, over which `LocalClient` has its questions forwarded: a
controller that does not lead refuses what only the leader knows.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from inspection.inspected import AskError
from wire.client_connection import ClientConnection
from wire.errors import LocalProtocolError, RemoteProtocolError

ANSWER_S: Final = 1.0
READ_BYTES: Final = 64 * 1024


class LeaderClient:
    """Opens a connection for each question: they are few, and the leader may be another by then.

    Args:
        leader_address: host and port of the leader's controller listener; None without a leader.
    """

    def __init__(self, leader_address: Callable[[], tuple[str, int] | None]) -> None:
        self._leader_address = leader_address

    async def ask(self, api_key: int, body: Any) -> Any:
        """Send one request and wait for its response.

        Raises:
            AskError: nobody leads, or no answer within `ANSWER_S`.
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
