"""The listener of the inspection API: bound at start, its server loaded at the first connection.

aiohttp and prometheus_client cost 0.2 s and 15 MB: a node that nobody looks at does not pay them,
and the first look does not hold the node up, because they are imported on another thread.
"""

import asyncio
import importlib
import socket
from typing import Any, Final

from inspection.inspected import Inspected
from kernel.effects import Log, LogLevel
from node.errors import StartError
from node.logs import write_log
from wire.types import Endpoint

BACKLOG: Final = 128
SHUTDOWN_S: Final = 0.5


class HttpListener:
    """Serves one node over HTTP.

    Args:
        node: what is shown.
        endpoint: where to listen.

    Raises:
        StartError: the address is taken or cannot be bound.
    """

    def __init__(self, node: Inspected, endpoint: Endpoint) -> None:
        self._node = node
        self._socket = _bound(endpoint)
        self._opening: asyncio.Task[None] | None = None
        self._runner: Any = None

    def start(self) -> None:
        """Wait for the first connection."""
        asyncio.get_running_loop().add_reader(self._socket, self._on_first_connection)

    def _on_first_connection(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._opening = asyncio.ensure_future(self._open())

    async def _open(self) -> None:
        web = await asyncio.to_thread(importlib.import_module, "aiohttp.web")
        api = await asyncio.to_thread(importlib.import_module, "inspection.api")
        resources = importlib.import_module("inspection.resources")
        application = api.application(resources.Service(self._node), _on_error)
        self._runner = web.AppRunner(
            application, access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN_S
        )
        await self._runner.setup()
        await web.SockSite(self._runner, self._socket, backlog=BACKLOG).start()

    async def close(self) -> None:
        """End every stream, answer what was asked, close."""
        if self._opening is None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            return
        await self._opening
        await self._runner.cleanup()


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
