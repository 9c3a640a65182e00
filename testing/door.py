"""The warm process' end of the door for faults of a node (node/records/fault_door.py)."""

import socket
from typing import Any, Final

import msgspec

from testing.errors import RefusedError

ANSWER_S: Final = 5.0
"""A node that is paused does not answer."""
RECEIVE_BYTES: Final = 65536


class FaultError(RefusedError):
    """A node has no door, or does not answer at it; one line."""


class Door:
    """The door of one node, with its requests one after the other.

    Args:
        stream: this end of the socket pair.
        answer_s: time for an answer.
    """

    def __init__(self, stream: socket.socket, answer_s: float = ANSWER_S) -> None:
        stream.settimeout(answer_s)
        self.stream = stream
        self._received = b""
        self._late = 0
        """Answers that were not waited for, which come before the next one."""

    def ask(self, op: str, **arguments: Any) -> int:
        """Ask, and wait for the answer.

        Raises:
            FaultError: the node gives none, or refuses.
        """
        try:
            self.stream.sendall(msgspec.json.encode({"op": op, **arguments}) + b"\n")
            self._late += 1
            line = self._line()
            while self._late:
                line = self._line()
        except TimeoutError as error:
            raise FaultError("the node does not answer: is it paused?") from error
        except OSError as error:
            raise FaultError(f"the node has ended: {error}") from error
        answer = msgspec.json.decode(line)
        if "error" in answer:
            raise FaultError(answer["error"])
        return int(answer.get("result", 0))

    def _line(self) -> bytes:
        """The next answer, late or not."""
        while b"\n" not in self._received:
            piece = self.stream.recv(RECEIVE_BYTES)
            if not piece:
                raise ConnectionError("its door is closed")
            self._received += piece
        line, _, self._received = self._received.partition(b"\n")
        self._late -= 1
        return line

    def close(self) -> None:
        """Let the socket go."""
        self.stream.close()
