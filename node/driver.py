"""The asyncio driver of a kernel: events in, effects out, and no decision of its own.

One callback owns the kernel: it takes all events that wait, steps them, performs their effects in
order, and sets one timer for the kernel's next deadline. Folder work leaves the loop's thread, and
so do disk syncs unless they are quick (`node/flusher.py`); one of each kind at a time. What a turn
takes and where the log is flushed is decided by `kernel/turn.py`.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from inspection.recorder import Recorder
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
    RunSnapshot,
    SendBytes,
    SendPeerBytes,
    SetReading,
)
from kernel.events import (
    ConnectionOpened,
    Event,
    FlushDone,
    LocalChangesDone,
    Now,
    SnapshotDone,
    TimeAdvanced,
)
from kernel.kernel import Kernel
from kernel.turn import Turn
from metadata.loader import CommittedBatch, committed_batches
from node.connections import InboundEnd, InboundSocket, OutboundSocket, connect
from node.flusher import Flusher
from node.logs import write_log
from node.worker import Worker
from storage.errors import FsyncError

LISTEN_BACKLOG: Final = 1024
SNAPSHOT_WAIT_S: Final = 0.2
"""How long a node that stops waits for a snapshot to be synced; an unfinished one is removed."""
FOLDERS_WAIT_S: Final = 0.2
"""How long a node that stops waits for folder work; the next start makes what is missing."""


def now() -> Now:
    """Both clocks, as the kernel is told them."""
    return Now(monotonic_ms=time.monotonic_ns() // 1_000_000, wall_ms=time.time_ns() // 1_000_000)


class Driver:
    """Runs one kernel until it asks to exit; `recorder` has what it measures of itself."""

    def __init__(self, kernel: Kernel, loop: asyncio.AbstractEventLoop) -> None:
        self._kernel = kernel
        self._loop = loop
        self._events: deque[Event] = deque()
        self._posted_ns: list[int] = []
        """When each of the waiting events was posted."""
        created_ns = time.monotonic_ns()
        self.recorder = Recorder(created_ns)
        self.recorder.observe(kernel.replica.core, created_ns, created_ns)
        kernel.state.read_batches = self._measured_batches
        self._is_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._turn = Turn(self)
        self._inbound: dict[int, InboundEnd] = {}
        self._outbound: dict[int, OutboundSocket] = {}
        self._connecting: dict[int, asyncio.Task[None]] = {}
        self._next_connection_id = 1
        self._flusher = Flusher(loop, self._flush_done)
        self._folders = Worker(loop, "folders")
        self._snapshots = Worker(loop, "snapshots")
        self.exit: asyncio.Future[Exit] = loop.create_future()
        self._perform: dict[type, Callable[[Any], None]] = {
            SendBytes: self._send,
            CloseConnection: self._close,
            SetReading: self._set_reading,
            ConnectPeer: self._connect,
            SendPeerBytes: self._send_peer,
            ClosePeer: self._close_peer,
            RunLocalChanges: self._run_local_changes,
            RunSnapshot: self._run_snapshot,
            Log: write_log,
            Exit: self._exit,
        }

    def start(self) -> None:
        """The kernel's first step; the listeners are bound."""
        started_ns = time.monotonic_ns()
        self._turn.perform(self._kernel.start(now()))
        self._set_timer()
        self.recorder.worked(self._kernel.replica.core, started_ns, time.monotonic_ns())

    def _measured_batches(self, content: bytes) -> Iterator[CommittedBatch]:
        """Batches of the log; who asks for the next one has applied the one before."""
        for batch in committed_batches(content):
            started_ns = time.monotonic_ns()
            yield batch
            self.recorder.applied(len(batch.records), time.monotonic_ns() - started_ns)

    # ---- events in -------------------------------------------------------------------------

    def post(self, event: Event) -> None:
        """Queue an event for the next turn of the loop."""
        self._events.append(event)
        self._posted_ns.append(time.monotonic_ns())
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run_turn)

    def _run_turn(self) -> None:
        self._is_scheduled = False
        if self.exit.done() or not self._events:
            return
        started_ns = time.monotonic_ns()
        try:
            self._turn.take()
            self._turn.settle()
            self._set_timer()
            self.recorder.worked(self._kernel.replica.core, started_ns, time.monotonic_ns())
        except Exception as error:  # noqa: BLE001 - top of the driver: anything here ends the node
            self._fail(error)

    # ---- what a turn asks for (kernel/turn.py) ----------------------------------------------

    def take(self) -> list[Effect]:
        """Take every event that waits."""
        events, self._events = self._events, deque()
        posted_ns, self._posted_ns = self._posted_ns, []
        self.recorder.taken(posted_ns, time.monotonic_ns())
        return self._kernel.take(events, now())

    def settle(self) -> list[Effect]:
        """The rest of the step."""
        return self._kernel.settle()

    def carry_out(self, effect: Effect) -> bool:
        """Do what an effect says; True: the loop goes on, whatever it was."""
        self._perform[type(effect)](effect)
        return True

    @property
    def has_waiting(self) -> bool:
        """Whether events wait for the next turn."""
        return bool(self._events)

    @property
    def is_disk_quick(self) -> bool:
        """Whether a flush is short enough to be done between two callbacks."""
        return self._flusher.may_run_in_loop

    def flush_here(self, effect: RunFlush) -> bool:
        """Flush in the loop's thread."""
        self._flusher.run_here(effect.token, effect.plan)
        return True

    def flush_on_thread(self, effect: RunFlush) -> None:
        """Flush on the flusher's thread."""
        self._flusher.run_on_thread(effect.token, effect.plan)

    def flush_behind(self, effect: RunFlush) -> None:
        """Flush when the loop comes round: one that collects writes sends them before."""
        self._loop.call_soon(self._turn.flush_behind, effect)

    # ---- the timer -------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """Be called by the deadline; one that moved back is looked at when the timer fires."""
        deadline_ms = self._kernel.next_deadline_ms()
        if deadline_ms is None:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay_ms = max(0, deadline_ms - now().monotonic_ms)
        self._timer = self._loop.call_later(delay_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        deadline_ms = self._kernel.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= now().monotonic_ms:
            self.post(TimeAdvanced())
        else:
            self._set_timer()

    # ---- sockets ---------------------------------------------------------------------------

    def accept(self, listener: str) -> InboundSocket:
        """Protocol factory of a listener."""
        connection_id = self._next_connection_id
        self._next_connection_id += 1
        return InboundSocket(self.post, self._inbound, listener, connection_id)

    def attach(self, listener: str, end: InboundEnd) -> int:
        """Open a connection to this node that has no socket; returns its id."""
        connection_id = self._next_connection_id
        self._next_connection_id += 1
        self._inbound[connection_id] = end
        self.post(ConnectionOpened(connection_id, listener))
        return connection_id

    def _send(self, effect: SendBytes) -> None:
        socket = self._inbound.get(effect.connection_id)
        if socket is not None:
            socket.write(effect.data)

    def _close(self, effect: CloseConnection) -> None:
        socket = self._inbound.pop(effect.connection_id, None)
        if socket is not None:
            socket.close()

    def _set_reading(self, effect: SetReading) -> None:
        socket = self._inbound.get(effect.connection_id)
        if socket is not None:
            socket.set_reading(is_wanted=effect.is_wanted)

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

    def _flush_done(self, token: int, error: BaseException | None) -> None:
        if error is not None:
            self._fail(error)  # a failed fsync may have lost data: retrying could hide it
        else:
            self.post(FlushDone(token))

    def _run_local_changes(self, effect: RunLocalChanges) -> None:
        done = partial(self._local_changes_done, effect.token)
        self._folders.submit(effect.work, done)

    def _local_changes_done(self, token: int, error: BaseException | None) -> None:
        if isinstance(error, FsyncError):
            self._fail(error)
        else:
            self.post(LocalChangesDone(token, None if error is None else str(error)))

    def _run_snapshot(self, effect: RunSnapshot) -> None:
        done = partial(self._snapshot_done, effect.token)
        self._snapshots.submit(effect.work, done)

    def _snapshot_done(self, token: int, error: BaseException | None) -> None:
        if error is not None:
            self._fail(error)
        else:
            self.recorder.snapshot_ns = time.monotonic_ns()
            self.post(SnapshotDone(token))

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
        self._flusher.close()
        self._snapshots.close(SNAPSHOT_WAIT_S)
        if not self._folders.close(FOLDERS_WAIT_S):
            write_log(Log(LogLevel.INFO, "folder_work_left", {"waited_s": FOLDERS_WAIT_S}))
