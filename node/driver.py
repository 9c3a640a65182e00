"""The asyncio driver of a kernel: events in, effects out, and no decision of its own.

One callback owns the kernel: it takes all events that wait, steps them, performs their effects in
order, and sets one timer for the kernel's next deadline. Only disk syncs and folder work leave the
loop's thread, each kind on a thread of its own, one at a time.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from kernel.effects import (
    CloseConnection,
    ClosePeer,
    ConnectPeer,
    Effect,
    Exit,
    Log,
    LogLevel,
    RunFlush,
    RunLocalChanges,
    SendBytes,
    SendPeerBytes,
)
from kernel.events import Event, FlushDone, LocalChangesDone, Now, TimeAdvanced
from kernel.kernel import Kernel
from node.connections import InboundSocket, OutboundSocket, connect
from node.logs import write_log

LISTEN_BACKLOG: Final = 1024


def now() -> Now:
    """Both clocks; the only place of a node that reads them."""
    return Now(monotonic_ms=time.monotonic_ns() // 1_000_000, wall_ms=time.time_ns() // 1_000_000)


class Driver:
    """Runs one kernel until it asks to exit."""

    def __init__(self, kernel: Kernel, loop: asyncio.AbstractEventLoop) -> None:
        self._kernel = kernel
        self._loop = loop
        self._events: deque[Event] = deque()
        self._is_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None
        self._inbound: dict[int, InboundSocket] = {}
        self._outbound: dict[int, OutboundSocket] = {}
        self._connecting: dict[int, asyncio.Task[None]] = {}
        self._next_connection_id = 1
        self._flusher = ThreadPoolExecutor(1, "flush")
        self._folders = ThreadPoolExecutor(1, "folders")
        self.exit: asyncio.Future[Exit] = loop.create_future()
        self._perform: dict[type, Callable[[Any], None]] = {
            SendBytes: self._send,
            CloseConnection: self._close,
            ConnectPeer: self._connect,
            SendPeerBytes: self._send_peer,
            ClosePeer: self._close_peer,
            RunFlush: self._run_flush,
            RunLocalChanges: self._run_local_changes,
            Log: write_log,
            Exit: self._exit,
        }

    def start(self) -> None:
        """The kernel's first step; the listeners are bound."""
        self.perform(self._kernel.start(now()))
        self._set_timer()

    # ---- events in -------------------------------------------------------------------------

    def post(self, event: Event) -> None:
        """Queue an event for the next turn of the loop."""
        self._events.append(event)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        if self.exit.done():
            return
        try:
            # What came together is stepped together, so that it is flushed together.
            events, self._events = self._events, deque()
            self.perform(self._kernel.steps(events, now()))
            self._set_timer()
        except Exception as error:  # noqa: BLE001 - top of the driver: anything here ends the node
            self._fail(error)

    def perform(self, effects: list[Effect]) -> None:
        """Do what a step asked for, in its order."""
        for effect in effects:
            self._perform[type(effect)](effect)

    def _set_timer(self) -> None:
        deadline_ms = self._kernel.next_deadline_ms()
        if deadline_ms == self._timer_ms and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = deadline_ms
        if deadline_ms is not None:
            delay_ms = max(0, deadline_ms - now().monotonic_ms)
            self._timer = self._loop.call_later(delay_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.post(TimeAdvanced())

    # ---- sockets ---------------------------------------------------------------------------

    def accept(self, listener: str) -> InboundSocket:
        """Protocol factory of a listener."""
        connection_id = self._next_connection_id
        self._next_connection_id += 1
        return InboundSocket(self.post, self._inbound, listener, connection_id)

    def _send(self, effect: SendBytes) -> None:
        socket = self._inbound.get(effect.connection_id)
        if socket is not None:
            socket.write(effect.data)

    def _close(self, effect: CloseConnection) -> None:
        socket = self._inbound.pop(effect.connection_id, None)
        if socket is not None:
            socket.close()

    def _connect(self, effect: ConnectPeer) -> None:
        peer_id = effect.peer_id
        task = self._loop.create_task(
            connect(self.post, self._outbound, peer_id, effect.host, effect.port)
        )
        self._connecting[peer_id] = task
        task.add_done_callback(lambda _: self._connecting.pop(peer_id, None))

    def _send_peer(self, effect: SendPeerBytes) -> None:
        socket = self._outbound.get(effect.peer_id)
        if socket is not None:
            socket.write(effect.data)

    def _close_peer(self, effect: ClosePeer) -> None:
        task = self._connecting.pop(effect.peer_id, None)
        if task is not None:
            task.cancel()
        socket = self._outbound.pop(effect.peer_id, None)
        if socket is not None:
            socket.close()

    # ---- threads ---------------------------------------------------------------------------

    def _run_flush(self, effect: RunFlush) -> None:
        done = partial(self._flush_done, effect.token)
        self._flusher.submit(self._in_thread, effect.plan.run, done)

    def _flush_done(self, token: int, error: BaseException | None) -> None:
        if error is not None:
            self._fail(error)  # a failed fsync may have lost data: retrying could hide it
        else:
            self.post(FlushDone(token))

    def _run_local_changes(self, effect: RunLocalChanges) -> None:
        done = partial(self._local_changes_done, effect.token)
        self._folders.submit(self._in_thread, effect.work, done)

    def _local_changes_done(self, token: int, error: BaseException | None) -> None:
        self.post(LocalChangesDone(token, None if error is None else str(error)))

    def _in_thread(
        self, work: Callable[[], object], done: Callable[[BaseException | None], None]
    ) -> None:
        error: BaseException | None = None
        try:
            work()
        except BaseException as raised:  # noqa: BLE001 - handed to the loop, which decides
            error = raised
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(done, error)

    # ---- the end ---------------------------------------------------------------------------

    def _exit(self, effect: Exit) -> None:
        if not self.exit.done():
            self.exit.set_result(effect)

    def _fail(self, error: BaseException) -> None:
        reason = f"{type(error).__name__}: {error}"
        write_log(Log(LogLevel.ERROR, "node_failed", {"error": reason}), error)
        self._exit(Exit(1, reason))

    def close(self) -> None:
        """Close every socket and wait for the threads; the kernel is not stepped again."""
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._connecting.values()):
            task.cancel()
        for socket in [*self._inbound.values(), *self._outbound.values()]:
            socket.close()
        self._flusher.shutdown(wait=True)
        self._folders.shutdown(wait=True)
