"""Lines of standard input as they come, with a time to wait for each."""

import os
import select
from typing import IO, Final

_RECEIVE_BYTES: Final = 64 * 1024


class Lines:
    """Lines end with LF, CR or both, as Java reads them; what is no UTF-8 is replaced."""

    def __init__(self, stream: IO[bytes]) -> None:
        """Read from a file, a pipe, a terminal, or bytes in memory."""
        self._stream = stream
        try:
            self._descriptor = stream.fileno()
        except OSError:
            self._descriptor = -1
        self._content = bytearray()
        self._is_after_cr = False
        self._is_ended = False

    def next_line(self, timeout_ms: int | None) -> str | None:
        """The next line without its end; None: there was none in time.

        Raises:
            EOFError: there is no more.
        """
        while True:
            if self._is_after_cr and self._content:
                self._is_after_cr = False
                if self._content.startswith(b"\n"):
                    del self._content[0]
            ends = [end for mark in (b"\n", b"\r") if (end := self._content.find(mark)) >= 0]
            if ends:
                return self._taken(min(ends))
            if self._is_ended:
                if not self._content:
                    raise EOFError
                return self._taken(len(self._content))
            if not self._fill(timeout_ms):
                return None

    def _taken(self, end: int) -> str:
        line = self._content[:end].decode("utf-8", "replace")
        self._is_after_cr = self._content[end : end + 1] == b"\r"
        del self._content[: end + 1]
        return line

    def _fill(self, timeout_ms: int | None) -> bool:
        """Read once; False if nothing came in time."""
        if self._descriptor < 0:
            received = self._stream.read(_RECEIVE_BYTES)
        else:
            timeout_s = None if timeout_ms is None else timeout_ms / 1000
            if not select.select([self._descriptor], [], [], timeout_s)[0]:
                return False
            received = os.read(self._descriptor, _RECEIVE_BYTES)
        self._is_ended = not received
        self._content += received
        return True
