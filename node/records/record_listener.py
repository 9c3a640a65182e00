"""Listening sockets of the broker listeners: bound before the node starts, then read on a loop."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Final

from broker.effects import Log, LogLevel
from node.logs import write_log
from wire.types import Endpoint

LISTEN_BACKLOG: Final = 1024
ACCEPTS_PER_TURN: Final = 64
ACCEPT_PAUSE_S: Final = 1.0
"""Time without accepting after an error that would come again at once: no free descriptor."""

Accepted = Callable[[str, socket.socket, str], None]
"""A function of listener, connection and the client's address."""


def bind(endpoint: Endpoint) -> list[socket.socket]:
    """Return listening sockets, one for each address of the host; port 0 is any free port.

    Raises:
        OSError: an address cannot be bound, or the host has none.
    """
    port = endpoint.port
    bound: list[socket.socket] = []
    found = socket.getaddrinfo(
        endpoint.host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    with ExitStack() as undoing:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                one = socket.socket(family, kind, protocol)
            except OSError:  # a family that the machine names but does not have
                continue
            undoing.callback(one.close)
            bound.append(one)
            one.settimeout(0)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind((address[0], port, *address[2:]))
            one.listen(LISTEN_BACKLOG)
            port = one.getsockname()[1]
        undoing.pop_all()
    return bound


class RecordListener:
    """One listening socket of a listener, which it closes at the end."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        bound: socket.socket,
        listener: str,
        accepted: Accepted,
    ) -> None:
        self._loop = loop
        self._socket = bound
        self._number = bound.fileno()
        self._listener = listener
        self._accepted = accepted
        self._pause: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Accept connections."""
        self._pause = None
        self._loop.add_reader(self._number, self._on_readable)

    def _on_readable(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                connection, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(error)
                return
            connection.settimeout(0)
            with suppress(OSError):  # the client has gone already
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._accepted(self._listener, connection, str(address[0]))

    def _rest(self, error: OSError) -> None:
        fields = {"listener": self._listener, "reason": str(error)}
        write_log(Log(LogLevel.WARN, "accepting_paused", fields))
        self._loop.remove_reader(self._number)
        self._pause = self._loop.call_later(ACCEPT_PAUSE_S, self.start)

    def close(self) -> None:
        """Accept no more; connections that nobody accepted are reset."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._number)
        self._socket.close()
