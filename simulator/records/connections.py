"""Connections of the records of a broker: those of its clients, and those to leaders.

Each belongs to one process; the world drops what is for an older one.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from broker.effects import Part
from broker.events import (
    ConnectionBroken,
    ConnectionClosed,
    FramesReceived,
    PeerBytes,
    PeerConnected,
    PeerDisconnected,
)
from network.frame_assembly import FrameAssembly
from simulator.cluster.network import Pipe
from storage.segments.file_slice import FileSlice

if TYPE_CHECKING:
    from simulator.records.records_side import RecordsSide

FRAMES_PER_TURN: Final = 64


class ClientSocket:
    """The server's side of a connection: whole frames in, parts of responses out.

    Args:
        owner: whose broker it is for.
        pipe: the connection.
        connection_id: its id, also at the kernel.
        frame_bytes_max: size above which a frame breaks it.
    """

    def __init__(
        self, owner: "RecordsSide", pipe: Pipe, connection_id: int, frame_bytes_max: int
    ) -> None:
        self._owner = owner
        self._network = owner.network
        self._pipe = pipe
        self._id = connection_id
        self._memory = owner.memory
        self._frames = FrameAssembly(
            frame_bytes_max, pool=self._memory, connection_id=connection_id
        )
        self._unread = b""
        """Bytes behind a frame that waits for memory."""
        self._waiting: deque[bytearray] = deque()
        self._is_read = self._is_read_by_kernel = True
        self._is_broken = False
        self._has_ended = False
        self._last_us = 0

    @property
    def host(self) -> int:
        """Number of the machine."""
        return self._owner.host

    def opened(self) -> None:
        """Do nothing: the event came with the first packet."""

    # ---- reading -------------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        """Cut frames out of bytes of the client, and deliver them if the broker wants them."""
        if self._has_ended:
            return
        frames, position = self._frames, 0
        data = self._unread + data
        while position < len(data) and not self._is_broken and not frames.is_starved:
            buffer = frames.buffer()
            count = min(len(buffer), len(data) - position)
            buffer[:count] = data[position : position + count]
            position += count
            self._waiting += frames.received(count)
            self._is_broken = frames.failure is not None
        self._unread = data[position:]
        self._go_on()

    def granted(self) -> None:
        """Go on with the frame that waited for memory."""
        self._waiting += self._frames.granted()
        self._is_broken = self._frames.failure is not None
        self._go_on()
        if not self._is_broken:
            self.received(b"")

    def _go_on(self) -> None:
        """Deliver what is received."""
        self._deliver()
        if self._frames.failure is not None:
            self._owner.post(ConnectionBroken(self._id, self._frames.failure))

    def set_reading(self, *, is_wanted: bool) -> None:
        """Deliver frames, or let them wait."""
        self._is_read = is_wanted
        self._deliver()

    def set_reading_by_kernel(self, *, is_wanted: bool) -> None:
        """Do as `set_reading` for the kernel: both must want them."""
        self._is_read_by_kernel = is_wanted
        self._deliver()

    def _deliver(self) -> None:
        waiting = self._waiting
        if waiting and not self._has_ended and self._is_read and self._is_read_by_kernel:
            frames = [waiting.popleft() for _ in range(min(len(waiting), FRAMES_PER_TURN))]
            self._owner.post(FramesReceived(self._id, frames))
            if waiting:
                self._owner.later(0, self._deliver)

    # ---- writing -------------------------------------------------------------------------------

    def send(self, parts: Sequence[Part]) -> None:
        """Send parts behind all others; slices are read when it is their turn, not before."""
        self._in_turn(lambda: self._send(parts))

    def close(self) -> None:
        """Close behind what was sent."""
        self._end()
        self._in_turn(lambda: self._network.close(self._pipe, by_server=True))

    def _in_turn(self, act: Callable[[], None]) -> None:
        due_us = self._owner.now_us + self._owner.send_late_us()
        self._last_us = max(due_us, self._last_us)
        self._owner.when_running(self._last_us, act)

    def _send(self, parts: Sequence[Part]) -> None:
        content = []
        for part in parts:
            piece = part.read() if isinstance(part, FileSlice) else part
            if isinstance(part, FileSlice):
                part.close()
                if len(piece) < part.size_bytes:
                    self._owner.note_cut(self._pipe)
                    return
            content.append(piece)
        self._network.send(self._pipe, b"".join(content), to_server=False)

    # ---- the end -------------------------------------------------------------------------------

    def closed(self, *, refused: bool) -> None:
        """Report that the client closed it or is gone."""
        del refused
        self._end()
        if self._owner.forget(self._id):
            self._owner.post(ConnectionClosed(self._id))

    def _end(self) -> None:
        """Read nothing more, and give back the memory of what is not delivered."""
        if not self._has_ended:
            self._has_ended = True
            self._frames.close()
            self._memory.drop(self._waiting)
            self._owner.grant()


class LeaderSocket:
    """The client's side of a connection to another broker."""

    def __init__(self, owner: "RecordsSide", peer_id: int) -> None:
        self._owner = owner
        self._peer_id = peer_id

    @property
    def host(self) -> int:
        """Number of the machine."""
        return self._owner.host

    def opened(self) -> None:
        """Report that it is established."""
        self._owner.post(PeerConnected(self._peer_id))

    def received(self, data: bytes) -> None:
        """Report bytes of the leader."""
        self._owner.post(PeerBytes(self._peer_id, data))

    def closed(self, *, refused: bool) -> None:
        """Report that the other side closed or refused it."""
        if self._owner.forget_peer(self._peer_id, self):
            self._owner.post(PeerDisconnected(self._peer_id, refused=refused))
