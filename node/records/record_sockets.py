"""Connections to broker listeners as raw sockets: frames in, parts of responses out.

No asyncio transport: what is received goes straight into the memory of its frame (`recv_into`), and
records leave a log file without a copy (`node/records/record_output.py`). One readiness of a
socket and one turn of sending do a bounded amount of work, so that no connection holds up the
others.

Back-pressure: while much output of a connection is unsent, its input is not read; above
OUTPUT_BYTES_MAX of memory the peer counts as dead. Files take no memory and are counted apart.
Nor is a connection read whose next frame waits for memory of the pool (`network.memory_pool`). A
frame holds that memory until the broker gives it back; what is not delivered gives it back here.
"""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter_ns as nanoseconds
from typing import Final

from broker.effects import Log, LogLevel, Part
from broker.events import (
    ConnectionBroken,
    ConnectionClosed,
    ConnectionOpened,
    Event,
    FramesReceived,
)
from network.frame_assembly import GRANT_BYTES, SHARED_BYTES, FrameAssembly
from network.frame_memory import FrameMemory
from network.memory_pool import MemoryPool
from node.connections import CLOSE_SECONDS_MAX, OUTPUT_BYTES_HIGH, OUTPUT_BYTES_MAX
from node.logs import write_log
from node.records.read_ahead import IsCached, ReadAhead, is_cached
from node.records.record_listener import RecordListener
from node.records.record_output import Output, Sent, UnreadableSliceError, close_files
from node.records.stalled_requests import INTERVAL_S, Progress, StalledRequests

SLICE_BYTES_HIGH: Final = 64 * 1024 * 1024
"""Unsent bytes of files above which a connection is no longer read: more than one response has."""
READ_BYTES_PER_TURN: Final = 4 * 1024 * 1024
FRAMES_PER_TURN: Final = 64
OnSent = Callable[[int, int], None]
"""Told when a response was taken for sending and when it was sent, in nanoseconds."""
FIRST_CONNECTION_ID: Final = 1 << 32
"""Ids below it are those of the kernel's own connections."""
_ABORT: Final = struct.pack("ii", 1, 0)
"""SO_LINGER on, 0 s: the close sends RST and drops what is unsent."""


class RecordSocket:
    """One connection, until it is closed by either side."""

    def __init__(
        self,
        owner: "RecordSockets",
        connection: socket.socket,
        connection_id: int,
        frames: FrameAssembly,
    ) -> None:
        self._owner = owner
        self._loop = owner.loop
        self._socket = connection
        self._number = connection.fileno()
        self._id = connection_id
        self._frames = frames
        self._waiting: deque[bytearray] = deque()
        """Whole frames for the next turns."""
        self._output = Output(connection, is_cached=owner.is_cached)
        self._responses: deque[tuple[int, int, OnSent]] = deque()
        """Ends of unsent responses in the output, when they were taken, and who is told."""
        self._is_read = True
        """False while the broker takes no frames."""
        self._is_read_by_kernel = False
        """False while the kernel takes no bytes of its connection of the same id, and until it has
        taken that connection, which it may refuse or delay."""
        self._is_closing = False
        """True when nothing is read any more."""
        self._has_ended = False
        self._has_reader = False
        """True while what comes is read."""
        self._is_watched = False
        """True while the loop looks at the socket: a pause ends that only once something comes."""
        self._has_writer = False
        self._is_filling = False
        self._delivery: asyncio.Handle | None = None
        self._limit: asyncio.TimerHandle | None = None

    # ---- reading -----------------------------------------------------------------------------

    def set_reading(self, *, is_wanted: bool) -> None:
        """Resume reading, unless too much output is unsent; or pause it."""
        self._is_read = is_wanted
        self.apply_reading()

    @property
    def _wants_frames(self) -> bool:
        output = self._output
        is_clogged = (
            output.memory_bytes > OUTPUT_BYTES_HIGH or output.slice_bytes > SLICE_BYTES_HIGH
        )
        is_wanted = self._is_read and self._is_read_by_kernel
        return is_wanted and not self._is_closing and not is_clogged

    def set_reading_by_kernel(self, *, is_wanted: bool) -> None:
        """Resume or pause reading on behalf of the kernel, to which the broker forwards."""
        self._is_read_by_kernel = is_wanted
        self.apply_reading()

    def apply_reading(self) -> None:
        """Read from the socket, deliver frames that wait, or do neither."""
        is_wanted = self._wants_frames
        if is_wanted and self._waiting and self._delivery is None:
            self._delivery = self._loop.call_soon(self._deliver_waiting)
        wants_reader = is_wanted and not self._waiting and not self._frames.is_starved
        if wants_reader and not self._is_watched:
            self._loop.add_reader(self._number, self._on_readable)
            self._is_watched = True
        elif self._is_closing:
            self._unwatch()
        self._has_reader = wants_reader
        if self._frames.is_starved:
            self._owner.watch_stalled()

    def _unwatch(self) -> None:
        if self._is_watched:
            self._loop.remove_reader(self._number)
            self._is_watched = False

    @property
    def progress(self) -> Progress | None:
        """Measure of the request that holds memory and is read; None without one."""
        return self._frames.progress if self._has_reader else None

    def cut_stalled(self) -> None:
        """Cut the connection: its request does not go on."""
        self._cut("half a request holds memory for which others wait")

    def _on_readable(self) -> None:
        if not self._has_reader:
            # Most clients wait for their answers: nothing comes in most pauses, and to leave the
            # selector and to come back costs as much as to read a small request.
            self._unwatch()
            return
        left = READ_BYTES_PER_TURN
        while left > 0 and len(self._waiting) < FRAMES_PER_TURN:
            is_large = self._frames.is_within_frame
            buffer = self._frames.buffer()
            try:
                count = self._socket.recv_into(buffer)
            except BlockingIOError:
                break
            except OSError:
                self._deliver()
                self._lost()
                return
            if count == 0:
                self._deliver()
                self._ended_by_peer()
                return
            is_drained = count < len(buffer)
            self._waiting += self._frames.received(count)
            if self._frames.failure is not None:
                self._broken(self._frames.failure)
                return
            has_ended = is_large and not self._frames.is_within_frame
            if is_drained or has_ended or self._frames.is_starved:
                # Behind a large frame the broker may mute the connection before the next one takes
                # memory.
                break
            left -= count
        self._deliver()
        self.apply_reading()

    def granted(self) -> None:
        """Go on with the frame that waited for memory, for which there is room."""
        self._waiting += self._frames.granted()
        if self._frames.failure is not None:
            self._broken(self._frames.failure)
        else:
            self.apply_reading()

    def _deliver(self) -> None:
        """Give the broker the next frames; the rest waits for the next turn."""
        waiting = self._waiting
        if waiting:
            frames = [waiting.popleft() for _ in range(min(len(waiting), FRAMES_PER_TURN))]
            self._owner.post(FramesReceived(self._id, frames))

    def _deliver_waiting(self) -> None:
        self._delivery = None
        if self._wants_frames:
            self._deliver()
            self.apply_reading()

    def _broken(self, reason: str) -> None:
        """Stop reading for ever: the broker closes the connection behind its answers."""
        while self._waiting:
            self._deliver()
        self._stop_reading()
        self._owner.post(ConnectionBroken(self._id, reason))

    def _stop_reading(self) -> None:
        """Read nothing more, and give back the memory of what is not delivered."""
        self._is_closing = True
        self._frames.close()
        self._owner.drop(self._waiting)
        self._waiting.clear()
        self.apply_reading()

    def _ended_by_peer(self) -> None:
        self._owner.report_closed(self._id)
        self.close()

    # ---- writing -----------------------------------------------------------------------------

    def add(self, parts: Sequence[Part], taken_ns: int, sent: OnSent | None) -> None:
        """Queue parts, which `send` sends; cut the connection if too many bytes are unsent."""
        self._output.add(parts)
        if sent is not None:
            self._responses.append((self._output.added_bytes, taken_ns, sent))
        if self._output.memory_bytes > OUTPUT_BYTES_MAX:
            self._cut("the peer does not read")

    def send(self) -> None:
        """Send what is unsent, unless the loop or the read-ahead will."""
        if not (self._has_writer or self._is_filling or self._has_ended):
            self._send()

    def _send(self) -> None:
        output = self._output
        try:
            sent = output.send()
        except UnreadableSliceError as error:
            self._cut(str(error))
            return
        except OSError:
            self._lost()
            return
        if sent is Sent.COLD:
            self._is_filling = True
            self._owner.fill(output, self._filled)
        self._note_sent()
        self._set_writing(is_wanted=sent in (Sent.BLOCKED, Sent.TURN_OVER))
        if self._limit is not None and output.is_empty:
            self.end()
        else:
            self.apply_reading()

    def _note_sent(self) -> None:
        """Tell of the responses that have left whole."""
        responses, sent_bytes = self._responses, self._output.sent_bytes
        while responses and responses[0][0] <= sent_bytes:
            _, taken_ns, sent = responses.popleft()
            sent(taken_ns, nanoseconds())

    def _filled(self) -> None:
        self._is_filling = False
        if not self._has_ended:
            self._output.filled()
            self._send()

    def _set_writing(self, *, is_wanted: bool) -> None:
        if is_wanted and not self._has_writer:
            self._loop.add_writer(self._number, self._send)
        elif self._has_writer and not is_wanted:
            self._loop.remove_writer(self._number)
        self._has_writer = is_wanted

    # ---- the end -----------------------------------------------------------------------------

    def close(self) -> None:
        """Close after sending the unsent bytes, or after CLOSE_SECONDS_MAX without them."""
        if self._limit is not None or self._has_ended:
            return
        self._stop_reading()
        self._limit = self._loop.call_later(CLOSE_SECONDS_MAX, self.abort)
        if self._output.is_empty:
            self.end()
        else:
            self.send()

    def abort(self) -> None:
        """Close now, and drop what is unsent: the peer sees a reset."""
        if not self._has_ended:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
            self.end()

    def _cut(self, reason: str) -> None:
        fields = {"reason": reason, "unsent_bytes": self._output.memory_bytes}
        write_log(Log(LogLevel.WARN, "connection_cut", fields))
        self.abort()
        self._owner.report_closed(self._id)

    def _lost(self) -> None:
        self.end()
        self._owner.report_closed(self._id)

    def end(self) -> None:
        """Close now: what the operating system has taken still leaves."""
        self._has_ended = True
        self._stop_reading()
        self._set_writing(is_wanted=False)
        for handle in (self._delivery, self._limit):
            if handle is not None:
                handle.cancel()
        self._output.drop()
        self._note_sent()
        self._socket.close()
        self._owner.forget(self)


class RecordSockets:
    """All connections to the broker listeners, on one loop.

    Args:
        loop: in whose thread everything here runs.
        post: gets the events; connections get ids from FIRST_CONNECTION_ID.
        frame_bytes_max: size above which a frame breaks its connection.
        pool: of the memory of frames, which who gets them gives back.
        is_cached: tells whether bytes of a file can be read without the disk.
        stalled_s: time between two looks for requests that hold memory and do not go on.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        post: Callable[[Event], None],
        frame_bytes_max: int,
        pool: MemoryPool,
        *,
        is_cached: IsCached = is_cached,
        stalled_s: float = INTERVAL_S,
    ) -> None:
        self.loop = loop
        self.post = post
        self.is_cached = is_cached
        self._frame_bytes_max = frame_bytes_max
        self._pool = pool
        self._shared = memoryview(bytearray(SHARED_BYTES))
        """Received into by every connection that is not within a frame."""
        self._memory = FrameMemory(GRANT_BYTES)
        self._read_ahead = ReadAhead(loop)
        self._listeners: list[RecordListener] = []
        self._by_id: dict[int, RecordSocket] = {}
        """The connections that are open for the broker."""
        self._sockets: dict[RecordSocket, None] = {}
        """All that have not ended: a closed one may have unsent bytes."""
        self._taken_ns = 0
        """Time of the first of those parts."""
        self._unsent: dict[RecordSocket, None] = {}
        """Connections with parts that were queued since the last `send`."""
        self._stalled = StalledRequests(loop, pool, self._unfinished, self._cut_stalled, stalled_s)
        self._next_id = FIRST_CONNECTION_ID

    def listen(self, listener: str, bound: Sequence[socket.socket]) -> None:
        """Accept connections on sockets that listen."""
        for one in bound:
            accepted = RecordListener(self.loop, one, listener, self._accept)
            accepted.start()
            self._listeners.append(accepted)

    def _accept(self, listener: str, connection: socket.socket, host: str) -> None:
        connection_id = self._next_id
        self._next_id += 1
        frames = FrameAssembly(
            self._frame_bytes_max,
            self._shared,
            self._memory,
            pool=self._pool,
            connection_id=connection_id,
        )
        opened = RecordSocket(self, connection, connection_id, frames)
        self._by_id[connection_id] = opened
        self._sockets[opened] = None
        self.post(ConnectionOpened(connection_id, listener, host))

    def __len__(self) -> int:
        """Return the number of sockets, closed ones with unsent bytes among them."""
        return len(self._sockets)

    # ---- effects -----------------------------------------------------------------------------

    def add(self, connection_id: int, parts: Sequence[Part], sent: OnSent | None = None) -> None:
        """Queue parts, which `send` sends; they are dropped if the connection has closed.

        Args:
            connection_id: of the connection.
            parts: of responses.
            sent: told once when they were taken, and when they had left or were dropped.
        """
        if not self._unsent:
            self._taken_ns = nanoseconds()
        to = self._by_id.get(connection_id)
        if to is None:
            close_files(parts)
            if sent is not None:
                sent(self._taken_ns, self._taken_ns)
        else:
            self._unsent[to] = None
            to.add(parts, self._taken_ns, sent)

    def send(self) -> None:
        """Send what was queued: the answers of a step leave together."""
        unsent, self._unsent = self._unsent, {}
        for one in unsent:
            one.send()

    def grant(self) -> None:
        """Go on with the connections that wait for memory, while there is room: ends each step."""
        while (connection_id := self._pool.first_with_room()) is not None:
            self._by_id[connection_id].granted()

    def set_reading(self, connection_id: int, *, is_wanted: bool) -> None:
        """Read from a connection, or leave its bytes in the operating system's buffer."""
        of = self._by_id.get(connection_id)
        if of is not None:
            of.set_reading(is_wanted=is_wanted)

    def set_reading_by_kernel(self, connection_id: int, *, is_wanted: bool) -> None:
        """Do as `set_reading`, for the kernel: a connection is read only if both want it."""
        of = self._by_id.get(connection_id)
        if of is not None:
            of.set_reading_by_kernel(is_wanted=is_wanted)

    def close_connection(self, connection_id: int) -> None:
        """Close a connection behind what was sent on it; no event follows."""
        closed = self._by_id.pop(connection_id, None)
        if closed is not None:
            closed.close()

    def close(self) -> None:
        """Close everything; what the operating system has not taken is dropped."""
        while self._listeners:
            self._listeners.pop().close()
        self._by_id.clear()
        for one in list(self._sockets):
            one.end()
        self._stalled.stop()
        self._read_ahead.close()

    def _unfinished(self) -> dict[int, Progress]:
        all_ = {key: each.progress for key, each in self._by_id.items()}
        return {key: progress for key, progress in all_.items() if progress is not None}

    def _cut_stalled(self, connection_id: int) -> None:
        self._by_id[connection_id].cut_stalled()

    # ---- for the connections -----------------------------------------------------------------

    def report_closed(self, connection_id: int) -> None:
        """Tell the broker of the end of a connection, unless the broker closed it."""
        if self._by_id.pop(connection_id, None) is not None:
            self.post(ConnectionClosed(connection_id))

    def drop(self, frames: Iterable[bytearray]) -> None:
        """Give back the memory of frames that are not delivered, and what was received of others.

        Who waits for it goes on in the next turn of the loop.
        """
        self._pool.drop(frames)
        self.loop.call_soon(self.grant)

    def watch_stalled(self) -> None:
        """Look for requests that do not go on: one waits for memory."""
        self._stalled.watch()

    def fill(self, output: Output, done: Callable[[], None]) -> None:
        """Read the next bytes of an output into the page cache."""
        self._read_ahead.fill(*output.cold, done)

    def forget(self, ended: RecordSocket) -> None:
        """Leave out a socket that is closed."""
        self._sockets.pop(ended, None)
