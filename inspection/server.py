"""HTTP server of the API with limits: connections, headers, bodies, and time for a client.

A connection beyond the limit is answered 503 and closed; a request that violates HTTP or a limit
gets its problem document and the connection ends. A connection without progress for the idle
time is closed: no request arrived, a header was not finished, or an answer was not read.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from socket import socket
from typing import Any, Final, NamedTuple, cast

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import RequestHandler
from typing_extensions import override

from inspection.api import OnError, application
from inspection.problem import CONTENT_TYPE, Problem
from inspection.resources import Service
from inspection.stream import STREAMS_MAX

BACKLOG: Final = 128
SHUTDOWN_S: Final = 0.5
LINE_BYTES_MAX: Final = 8190
"""Limit of the request line, and of one header with its name."""
HEADERS_MAX: Final = 64
LINGERING_S: Final = 1.0
"""Time for which a refused body is read, so that the client sees the refusal."""
REFUSAL_S: Final = 1.0
"""Time for a connection beyond the limit to send its request, before which it sees no answer."""
REFUSALS_MAX: Final = 64
"""Limit of refused connections still open; more are closed without an answer."""
DETAIL_CHARACTERS_MAX: Final = 200


class Limits(NamedTuple):
    """Limits on clients."""

    connections_max: int = 128
    idle_ms_max: int = 30_000


class HttpServer:
    """HTTP server of one node.

    Args:
        service: the node and its views.
        limits: the configured limits.
        on_error: called for an unexpected exception.
    """

    def __init__(self, service: Service, limits: Limits, on_error: OnError) -> None:
        self._limits = limits
        streams_max = min(STREAMS_MAX, max(1, limits.connections_max // 2))
        self._runner = web.AppRunner(
            application(service, on_error, streams_max),
            access_log=None,
            handle_signals=False,
            shutdown_timeout=SHUTDOWN_S,
        )
        self._server: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._open: set[_Handler] = set()
        self._refused: set[_Refusal] = set()

    async def start(self, listening: socket) -> None:
        """Accept connections from a bound socket, which this server owns from now on."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, sock=listening, backlog=BACKLOG)
        self._sweep = loop.call_later(self._idle_s, self._cut_stalled)

    async def close(self) -> None:
        """End every stream, answer pending requests, close."""
        if self._server is not None:
            self._server.close()
        if self._sweep is not None:
            self._sweep.cancel()
        for refusal in list(self._refused):
            refusal.end()
        await self._runner.cleanup()

    @property
    def _idle_s(self) -> float:
        return self._limits.idle_ms_max / 1000

    def _accept(self) -> asyncio.BaseProtocol:
        """Return the protocol of a new connection."""
        if len(self._open) >= self._limits.connections_max:
            refusal = _Refusal(self._refused, self._limits.connections_max)
            self._refused.add(refusal)
            return refusal
        assert self._runner.server is not None
        handler = _Handler(self._runner.server, self._open.discard, self._idle_s)
        self._open.add(handler)
        return handler

    def _cut_stalled(self) -> None:
        """Abort connections that have read nothing of their answer since the last check."""
        for handler in list(self._open):
            handler.cut_if_stalled()
        self._sweep = asyncio.get_running_loop().call_later(self._idle_s, self._cut_stalled)


class _Handler(RequestHandler):
    """One connection; aiohttp closes it when no whole header arrives in the idle time."""

    def __init__(
        self, server: web.Server, on_lost: Callable[["_Handler"], None], idle_s: float
    ) -> None:
        options: dict[str, Any] = {
            "access_log": None,
            "keepalive_timeout": idle_s,
            "lingering_time": min(LINGERING_S, idle_s),
            "max_line_size": LINE_BYTES_MAX,
            "max_field_size": LINE_BYTES_MAX,
            "max_headers": HEADERS_MAX,
        }
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self._on_lost = on_lost
        self._resumed = 0
        self._last_look = (0, 0)

    @override
    def connection_lost(self, exc: BaseException | None) -> None:
        self._on_lost(self)
        super().connection_lost(exc)

    @override
    def resume_writing(self) -> None:
        self._resumed += 1
        super().resume_writing()

    def cut_if_stalled(self) -> None:
        """Abort if none of the unsent bytes was taken since the last check."""
        if self.transport is None:
            return
        unsent_bytes, resumed = self.transport.get_write_buffer_size(), self._resumed
        before_bytes, before_resumed = self._last_look
        self._last_look = (unsent_bytes, resumed)
        if 0 < before_bytes <= unsent_bytes and resumed == before_resumed:
            self.transport.abort()

    @override
    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a violation of HTTP with a problem document; the connection ends."""
        if isinstance(exc, LineTooLong):
            problem = Problem(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"the request line or a header is too long; allowed: {LINE_BYTES_MAX} bytes",
                allowed=f"{LINE_BYTES_MAX} bytes",
            )
        else:
            said = " ".join((message or str(exc) or "").split())[:DETAIL_CHARACTERS_MAX]
            problem = Problem(HTTPStatus(status), f"this is no request of HTTP/1.1: {said}")
        response = web.Response(
            body=msgspec.json.encode(problem.body),
            status=problem.status,
            headers={"Content-Type": CONTENT_TYPE, "X-Content-Type-Options": "nosniff"},
        )
        response.force_close()
        return response


class _Refusal(asyncio.Protocol):
    """Connection beyond the limit: waits for its request, answers 503 and closes."""

    def __init__(self, refused: "set[_Refusal]", connections_max: int) -> None:
        self._refused = refused
        self._connections_max = connections_max
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not a subclass of it
        if len(self._refused) > REFUSALS_MAX:
            self.end()
        else:
            self._timer = asyncio.get_running_loop().call_later(REFUSAL_S, self.end)

    @override
    def data_received(self, data: bytes) -> None:
        del data
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(_refusal(self._connections_max))
            self._transport.close()

    def end(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._refused.discard(self)
        if self._timer is not None:
            self._timer.cancel()


def _refusal(connections_max: int) -> bytes:
    """A whole response."""
    problem = Problem(
        HTTPStatus.SERVICE_UNAVAILABLE,
        f"{connections_max} connections are open, which is the limit (inspection.max.connections)",
    )
    body = msgspec.json.encode(problem.body)
    head = (
        f"HTTP/1.1 {problem.status.value} {problem.status.phrase}\r\n"
        f"Content-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n"
        "Retry-After: 1\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
