"""The asyncio driver of a kernel: events in, effects out, and no decision of its own.

One callback owns the kernel: it takes all waiting events, steps them, performs their effects in
order, and sets one timer for the kernel's next deadline. Directory changes run off the loop's
thread, and so do disk syncs unless they are fast (`node/flusher.py`); one of each kind at a time.
`kernel/turn.py` decides the events of a turn and the place of the flush.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from inspection.recorder import Recorder
from kernel.effects import (
    AnswerRead,
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
    ConnectionClosed,
    ConnectionOpened,
    Event,
    FlushDone,
    LocalChangesDone,
    SnapshotDone,
    TimeAdvanced,
)
from kernel.kernel import Kernel
from kernel.turn import Turn
from node.clocks import now
from node.connections import InboundEnd, InboundSocket, Peers
from node.deadline_timer import DeadlineTimer
from node.flusher import Flusher
from node.linearizable_reads import LinearizableReads
from node.logs import write_log
from node.records.bridge import TO_RECORDS, ToRecords
from node.worker import Worker
from storage.errors import FsyncError

LISTEN_BACKLOG: Final = 1024
SNAPSHOT_WAIT_S: Final = 0.2
"""Time to sync a snapshot at shutdown; the next start removes an unfinished one."""
FOLDERS_WAIT_S: Final = 0.2
"""Time for directory changes at shutdown; the next start makes up for unfinished ones."""


class Driver:
    """The driver of one kernel, until its `Exit` effect.

    Args:
        kernel: stepped here, and nowhere else.
        loop: in whose thread everything here runs.
        recorder: holds the measurements.
        records: takes the effects of a kernel with a `RecordsPort` to the records.
    """

    def __init__(
        self,
        kernel: Kernel,
        loop: asyncio.AbstractEventLoop,
        recorder: Recorder,
        records: ToRecords | None = None,
    ) -> None:
        self._kernel = kernel
        self._loop = loop
        self._records = records
        self._events: deque[Event] = deque()
        self._posted_ns: list[int] = []
        """Times at which the waiting events were posted."""
        created_ns = time.monotonic_ns()
        self.recorder = recorder
        recorder.observe(kernel.core, created_ns, created_ns)
        self._is_scheduled = False
        self._timer = DeadlineTimer(
            loop, kernel.next_deadline_ms, lambda: self.post(TimeAdvanced())
        )
        self._turn = Turn(self)
        self._inbound: dict[int, InboundEnd] = {}
        self._peers = Peers(loop, self.post)
        self._next_connection_id = 1
        self._flusher = Flusher(loop, self._flush_done)
        self._folders = Worker(loop, "folders")
        self._snapshots = Worker(loop, "snapshots")
        self.reads = LinearizableReads(self.post)
        self.exit: asyncio.Future[Exit] = loop.create_future()
        self._perform: dict[type, Callable[[Any], None]] = {
            SendBytes: self._send,
            CloseConnection: self._close,
            SetReading: self._set_reading,
            ConnectPeer: self._peers.connect,
            SendPeerBytes: self._peers.send,
            ClosePeer: self._peers.close_peer,
            RunLocalChanges: self._run_local_changes,
            RunSnapshot: self._run_snapshot,
            AnswerRead: self.reads.answer,
            Log: write_log,
            Exit: self._exit,
        }
        if records is not None:
            self._perform.update(dict.fromkeys(TO_RECORDS, records.carry_out))

    def start(self) -> None:
        """Run the kernel's first step, once the listeners are bound; an error ends the node."""
        started_ns = time.monotonic_ns()
        try:
            self._turn.perform(self._kernel.start(now()))
            self._flush_records()
            self._timer.set()
            self.recorder.worked(self._kernel.core, started_ns, time.monotonic_ns())
        except Exception as error:  # noqa: BLE001 - as in every turn
            self.fail(error)

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
            self._flush_records()
            self._turn.settle()
            self._flush_records()
            self._timer.set()
            self.recorder.worked(self._kernel.core, started_ns, time.monotonic_ns())
        except Exception as error:  # noqa: BLE001 - top of the driver: any error ends the node
            self.fail(error)

    # ---- the driver of a turn (kernel/turn.py) ----------------------------------------------

    def take(self) -> list[Effect]:
        """Run the kernel's first half of a step on every waiting event."""
        events, self._events = self._events, deque()
        posted_ns, self._posted_ns = self._posted_ns, []
        self.recorder.taken(posted_ns, time.monotonic_ns())
        return self._kernel.take(events, now())

    def settle(self) -> list[Effect]:
        """Run the kernel's second half of a step."""
        return self._kernel.settle()

    def carry_out(self, effect: Effect) -> bool:
        """Perform an effect; always True, the loop goes on."""
        self._perform[type(effect)](effect)
        return True

    @property
    def has_waiting(self) -> bool:
        """True if events wait for the next turn."""
        return bool(self._events)

    @property
    def is_disk_quick(self) -> bool:
        """True if flushes are short enough to run between two callbacks."""
        return self._flusher.may_run_in_loop

    def flush_here(self, effect: RunFlush) -> bool:
        """Flush in the loop's thread."""
        self._flusher.run_here(effect.token, effect.plan)
        return True

    def flush_on_thread(self, effect: RunFlush) -> None:
        """Flush on the flusher's thread."""
        self._flusher.run_on_thread(effect.token, effect.plan)

    def flush_behind(self, effect: RunFlush) -> None:
        """Flush in a later callback: a loop that collects writes sends them before it."""
        self._loop.call_soon(self._turn.flush_behind, effect)

    # ---- sockets ---------------------------------------------------------------------------

    def accept(self, listener: str) -> InboundSocket:
        """Make the protocol of a new connection to a listener."""
        connection_id = self._next_connection_id
        self._next_connection_id += 1
        return InboundSocket(self.post, self._inbound, listener, connection_id)

    def attach(self, listener: str, end: InboundEnd) -> int:
        """Open a connection to this node without a socket; return its id."""
        connection_id = self._next_connection_id
        self._next_connection_id += 1
        self._inbound[connection_id] = end
        self.post(ConnectionOpened(connection_id, listener))
        return connection_id

    def take_from_records(self, events: Sequence[Event]) -> None:
        """Queue events of the records; a connection to a broker listener gets its twin here."""
        assert self._records is not None, "a node without records"
        for event in events:
            if isinstance(event, ConnectionOpened):
                self._inbound[event.connection_id] = self._records.twin(event.connection_id)
            elif isinstance(event, ConnectionClosed):
                self._inbound.pop(event.connection_id, None)
            self.post(event)

    def _flush_records(self) -> None:
        if self._records is not None:
            self._records.flush()

    def _send(self, effect: SendBytes) -> None:
        socket = self._inbound.get(effect.connection_id)
        if socket is not None:
            socket.write(effect.data, effect.spent_ns)

    def _close(self, effect: CloseConnection) -> None:
        socket = self._inbound.pop(effect.connection_id, None)
        if socket is not None:
            socket.close()

    def _set_reading(self, effect: SetReading) -> None:
        socket = self._inbound.get(effect.connection_id)
        if socket is not None:
            socket.set_reading(is_wanted=effect.is_wanted)

    # ---- threads ---------------------------------------------------------------------------

    def _flush_done(self, token: int, error: BaseException | None) -> None:
        if error is not None:
            self.fail(error)  # a failed fsync may have lost data: retrying could hide it
        else:
            self.post(FlushDone(token))

    def _run_local_changes(self, effect: RunLocalChanges) -> None:
        done = partial(self._local_changes_done, effect.token)
        self._folders.submit(effect.work, done)

    def _local_changes_done(self, token: int, error: BaseException | None) -> None:
        if isinstance(error, FsyncError):
            self.fail(error)
        else:
            self.post(LocalChangesDone(token, None if error is None else str(error)))

    def _run_snapshot(self, effect: RunSnapshot) -> None:
        done = partial(self._snapshot_done, effect.token)
        self._snapshots.submit(effect.work, done)

    def _snapshot_done(self, token: int, error: BaseException | None) -> None:
        if error is not None:
            self.fail(error)
        else:
            self.recorder.snapshot_ns = time.monotonic_ns()
            self.post(SnapshotDone(token))

    # ---- the end ---------------------------------------------------------------------------

    def _exit(self, effect: Exit) -> None:
        if not self.exit.done():
            self.exit.set_result(effect)

    def fail(self, error: BaseException) -> None:
        """End the node because of an error."""
        reason = f"{type(error).__name__}: {error}"
        write_log(Log(LogLevel.ERROR, "node_failed", {"error": reason}), error)
        self._exit(Exit(1, reason))

    def close(self) -> None:
        """Close every socket and wait for the threads; no step of the kernel follows."""
        self._timer.cancel()
        self._peers.close()
        for socket in list(self._inbound.values()):
            socket.close()
        self._flusher.close()
        self._snapshots.close(SNAPSHOT_WAIT_S)
        if not self._folders.close(FOLDERS_WAIT_S):
            write_log(Log(LogLevel.INFO, "folder_work_left", {"waited_s": FOLDERS_WAIT_S}))
