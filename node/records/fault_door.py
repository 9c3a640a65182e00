"""The door for faults of a node that a test started: a socket that its parent process kept.

The socket is the switch: it is inherited, has no address, and a node that is started in any other
way has none, so that no client, config or command reaches the faults of such a node.

Requests and answers are lines of JSON, one at a time: `add` (a `Fault`) gives its number, `hits`
and `end` the requests that the fault of a number has met, `clear` ends all.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, Literal

import msgspec

from broker.clients.faults import Fault, Faults

RECEIVE_BYTES: Final = 65536


class Request(msgspec.Struct, frozen=True):
    """One request."""

    op: Literal["add", "hits", "end", "clear"]
    fault: Fault | None = None
    """Of `add`."""
    number: int = 0
    """Of `hits` and `end`."""


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer: a number, or why there is none."""

    result: int = 0
    error: str | None = None


class FaultDoor:
    """The door of one node, until its parent closes the other end.

    Args:
        stream: the node's end of a socket pair.
    """

    def __init__(self, stream: socket.socket) -> None:
        stream.settimeout(0)
        self.faults = Faults()
        """For the records, on whose thread they are changed."""
        self._stream = stream
        self._received = b""

    def start(
        self, loop: asyncio.AbstractEventLoop, run: Callable[[Callable[[], None]], None]
    ) -> None:
        """Begin to read in the loop of this thread; `run` runs on that of the records."""
        loop.add_reader(self._stream, self._readable, loop, run)

    def _readable(
        self, loop: asyncio.AbstractEventLoop, run: Callable[[Callable[[], None]], None]
    ) -> None:
        try:
            piece = self._stream.recv(RECEIVE_BYTES)
        except OSError:
            piece = b""
        if not piece:
            loop.remove_reader(self._stream)
            self._stream.close()
            return
        *lines, self._received = (self._received + piece).split(b"\n")
        for line in lines:
            run(partial(self._answer, line))

    def _answer(self, line: bytes) -> None:
        """Perform a request, on the thread of the records."""
        with suppress(OSError):  # nobody waits for it any more
            self._stream.sendall(msgspec.json.encode(performed(self.faults, line)) + b"\n")


def performed(faults: Faults, line: bytes) -> Answer:
    """Perform one request and return its answer."""
    try:
        request = msgspec.json.decode(line, type=Request)
    except msgspec.DecodeError as error:
        return Answer(error=str(error))
    match request.op:
        case "add":
            if request.fault is None:
                return Answer(error="no fault")
            return Answer(faults.add(request.fault))
        case "hits":
            return Answer(faults.hits(request.number))
        case "end":
            return Answer(faults.end(request.number))
        case "clear":
            faults.clear()
            return Answer()
