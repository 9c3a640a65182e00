"""The listener of the inspection API: bound at start, its server loaded at the first connection.

aiohttp and prometheus_client cost 0.2 s and 15 MB: a node without inspection clients saves them,
and the first connection does not block the node, because they are imported on another thread.
"""

import asyncio
import importlib
import socket
from collections.abc import Mapping
from typing import Any, Final

from inspection.running_node import RunningNode
from kernel.effects import Log, LogLevel
from node.errors import StartError
from node.logs import write_log
from wire.types import Endpoint

BACKLOG: Final = 128


class HttpListener:
    """The HTTP listener of one node.

    Args:
        node: the inspected node.
        endpoint: address to listen on.
        limits: limits of clients, by the field names of `inspection.server.Limits`.

    Raises:
        StartError: the address is taken or cannot be bound.
    """

    def __init__(
        self, node: RunningNode, endpoint: Endpoint, limits: Mapping[str, int] | None = None
    ) -> None:
        self._node = node
        self._limits = {} if limits is None else dict(limits)
        self._socket = _bound(endpoint)
        self._opening: asyncio.Task[None] | None = None
        self._server: Any = None

    def start(self) -> None:
        """Wait for the first connection."""
        asyncio.get_running_loop().add_reader(self._socket, self._on_first_connection)

    def _on_first_connection(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._opening = asyncio.ensure_future(self._open())

    async def _open(self) -> None:
        """Load and start the server; without one, the node goes on and refuses connections."""
        try:
            await self._load()
        except Exception as error:  # noqa: BLE001 - of modules that others wrote
            reason = f"{type(error).__name__}: {error}"
            write_log(Log(LogLevel.ERROR, "inspection_failed", {"error": reason}), error)
            self._socket.close()

    async def _load(self) -> None:
        server = await asyncio.to_thread(importlib.import_module, "inspection.server")
        resources = importlib.import_module("inspection.resources")
        limits = server.Limits(**self._limits)
        self._server = server.HttpServer(resources.Service(self._node), limits, _on_error)
        await self._server.start(self._socket)

    async def close(self) -> None:
        """End every stream, answer the pending requests, and close."""
        if self._opening is None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            return
        await self._opening
        if self._server is not None:
            await self._server.close()


def _bound(endpoint: Endpoint) -> socket.socket:
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        bound.bind((endpoint.host, endpoint.port))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        where = f"{endpoint.host}:{endpoint.port}"
        raise StartError(
            f"inspection.listener: {where} cannot be opened: {error.strerror}"
        ) from error
    return bound


def _on_error(path: str, stack: str) -> None:
    write_log(Log(LogLevel.ERROR, "http_request_failed", {"path": path, "stack": stack}))
