"""Unsent bytes of one connection: pieces of memory and slices of log files, in order.

Small slices are read and leave with the bytes around them in one `sendmsg`; the bytes of large ones
go from the page cache to the socket by `sendfile`, without a copy. A slice that gives fewer bytes
than its size, after a truncation, is an error: what was sent announced them.
"""

import errno
import os
import socket
from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Final

from broker.effects import Part
from node.records.read_ahead import IsCached, is_cached
from storage.os_vfs import OsFile
from storage.segments.file_slice import FileSlice
from storage.vfs import VfsFile

TURN_BYTES: Final = 512 * 1024
"""Bytes of one connection sent in a turn of the loop; a last `sendmsg` may exceed it."""
SENDFILE_BYTES_MIN: Final = 128 * 1024
"""Size of a slice from which `sendfile` costs less than to read and send it."""
READ_BYTES: Final = 256 * 1024
"""Bytes read at once of a slice that `sendfile` cannot send."""
PIECES_MAX: Final = 256
"""Pieces in one `sendmsg`, and in a turn; Linux takes 1024."""
HAS_SENDFILE: Final = hasattr(os, "sendfile")
_MORE: Final[int] = getattr(socket, "MSG_MORE", 0)


class UnreadableSliceError(Exception):
    """The bytes of a slice cannot all be read any more."""


class Sent(Enum):
    """Outcome of a turn of sending."""

    ALL = auto()
    TURN_OVER = auto()
    BLOCKED = auto()
    """The socket takes no more."""
    COLD = auto()
    """The next bytes are on the disk only: `cold`."""


def close_files(parts: Iterable[Part]) -> None:
    """Close the handles of slices that are not sent."""
    for part in parts:
        if isinstance(part, FileSlice):
            part.file.close()


class Output:
    """A queue of parts for one socket, which takes over the handles of their slices.

    Invariant: `_done_bytes` is less than the size of the first part if that is a slice, else 0.
    """

    def __init__(
        self,
        to: socket.socket,
        *,
        is_cached: IsCached = is_cached,
        has_sendfile: bool = HAS_SENDFILE,
    ) -> None:
        self._socket = to
        self._is_cached = is_cached
        self._has_sendfile = has_sendfile
        self._parts: deque[Part] = deque()
        self._pieces: deque[memoryview] = deque()
        """Bytes before those of `_parts`, to be sent from memory."""
        self._piece_bytes = 0
        self._done_bytes = 0
        """Bytes of the slice at the head of `_parts` that are sent or in `_pieces`."""
        self._is_filled = False
        """True if the next read was made ready by the read-ahead: it is not probed again."""
        self.added_bytes = 0
        """Bytes since the begin, sent or not."""
        self.memory_bytes = 0
        """Unsent bytes held in memory."""
        self.slice_bytes = 0
        """Unsent bytes of files."""

    @property
    def is_empty(self) -> bool:
        """True if all is sent."""
        return not self._pieces and not self._parts

    @property
    def sent_bytes(self) -> int:
        """Bytes since the begin that are not unsent; all of them behind `drop`."""
        return self.added_bytes - self.memory_bytes - self.slice_bytes

    def add(self, parts: Sequence[Part]) -> None:
        """Queue parts behind all others."""
        for part in parts:
            if isinstance(part, FileSlice):
                self._add_slice(part)
            elif part:
                self._parts.append(part)
                self.added_bytes += len(part)
                self.memory_bytes += len(part)

    def _add_slice(self, part: FileSlice) -> None:
        if part.size_bytes:
            self._parts.append(part)
            self.added_bytes += part.size_bytes
            self.slice_bytes += part.size_bytes
        else:
            part.file.close()

    def send(self) -> Sent:
        """Send until all is sent, the socket takes no more, or the turn is over.

        Raises:
            UnreadableSliceError: the connection has to be aborted.
            OSError: of the socket.
        """
        left = TURN_BYTES
        try:
            while left > 0:
                is_warm = self._gather()
                if self._pieces:
                    left -= self._send_pieces()
                elif not is_warm:
                    return Sent.COLD
                elif self._parts:
                    left -= self._send_file(left)
                else:
                    return Sent.ALL
        except BlockingIOError:
            return Sent.BLOCKED
        return Sent.ALL if self.is_empty else Sent.TURN_OVER

    @property
    def cold(self) -> tuple[VfsFile, int, int]:
        """File, position and size of the next bytes of the slice at the head."""
        part = self._parts[0]
        assert isinstance(part, FileSlice), f"{part=}"
        size = min(part.size_bytes - self._done_bytes, self._bytes_at_once(part))
        return part.file, part.position + self._done_bytes, size

    def filled(self) -> None:
        """Note that the bytes of `cold` are in the page cache now."""
        self._is_filled = True

    def drop(self) -> None:
        """Close the handles of all unsent slices, and forget everything."""
        close_files(self._parts)
        self._parts.clear()
        self._pieces.clear()
        self.memory_bytes = self.slice_bytes = self._piece_bytes = self._done_bytes = 0

    # ---- from memory -------------------------------------------------------------------------

    def _gather(self) -> bool:
        """Move the next parts to `_pieces`, up to a large slice; False if one needs the disk."""
        while self._parts and self._piece_bytes < TURN_BYTES and len(self._pieces) < PIECES_MAX:
            part = self._parts[0]
            if isinstance(part, FileSlice):
                if not self._is_next_warm():
                    return False
                if self._goes_by_sendfile(part):
                    break
                self._add_piece(self._read())
            else:
                self._parts.popleft()
                self._add_piece(part)
        return True

    def _add_piece(self, piece: bytes) -> None:
        self._pieces.append(memoryview(piece))
        self._piece_bytes += len(piece)

    def _send_pieces(self) -> int:
        """Send once; return the bytes as the turn counts them: small pieces as larger ones."""
        flags = _MORE if self._parts else 0
        count = len(self._pieces)
        sent = left = self._socket.sendmsg(self._pieces, [], flags)
        self.memory_bytes -= sent
        self._piece_bytes -= sent
        while left:
            first = self._pieces.popleft()
            if left < len(first):
                self._pieces.appendleft(first[left:])
                break
            left -= len(first)
        return max(sent, (count - len(self._pieces)) * TURN_BYTES // PIECES_MAX)

    # ---- from files --------------------------------------------------------------------------

    def _goes_by_sendfile(self, part: FileSlice) -> bool:
        is_large = part.size_bytes >= SENDFILE_BYTES_MIN
        return is_large and self._has_sendfile and isinstance(part.file, OsFile)

    def _bytes_at_once(self, part: FileSlice) -> int:
        return TURN_BYTES if self._goes_by_sendfile(part) else READ_BYTES

    def _is_next_warm(self) -> bool:
        return self._is_filled or self._is_cached(*self.cold)

    def _read(self) -> bytes:
        """The next bytes of the slice at the head, which are held in memory from now on."""
        file, position, size = self.cold
        try:
            content = file.pread(size, position)
        except OSError as error:
            raise UnreadableSliceError(f"a log file cannot be read: {error}") from error
        if len(content) < size:
            raise UnreadableSliceError("a log file was truncated while it was sent")
        self.memory_bytes += size
        self._passed(size)
        return content

    def _send_file(self, bytes_max: int) -> int:
        """Send bytes of the large slice at the head; return their number."""
        file, position, size = self.cold
        assert isinstance(file, OsFile), f"{file=}"
        try:
            sent = os.sendfile(self._socket.fileno(), file.fileno(), position, min(size, bytes_max))
        except OSError as error:
            if error.errno == errno.EIO:
                raise UnreadableSliceError(f"a log file cannot be read: {error}") from error
            raise
        if sent == 0:
            raise UnreadableSliceError("a log file was truncated while it was sent")
        self._passed(sent)
        return sent

    def _passed(self, size: int) -> None:
        """Go on behind bytes of the slice at the head; close its handle after the last."""
        part = self._parts[0]
        assert isinstance(part, FileSlice), f"{part=}"
        self._is_filled = False
        self.slice_bytes -= size
        self._done_bytes += size
        if self._done_bytes == part.size_bytes:
            self._parts.popleft()
            self._done_bytes = 0
            part.file.close()
