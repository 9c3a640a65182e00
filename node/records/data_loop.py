"""The thread of the records of a broker: a loop of its own that steps them and performs effects.

As the driver of a kernel it decides nothing: all waiting events are one step, and the effects of a
step are performed in order. What is meant for the kernel of the node goes to its driver on the main
thread (`node/records/bridge.py`). Other threads post events with
`post_threadsafe`. An exception in a step, or in anything else on this loop, ends the node.
"""

import asyncio
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from broker.effects import (
    CloseConnection,
    ClosePeer,
    ConnectPeer,
    Effect,
    Log,
    RunWork,
    SendParts,
    SendPeerBytes,
    SetReading,
)
from broker.events import Event, Now, TimeAdvanced, WorkDone
from network.memory_pool import MemoryPool
from node.clocks import now
from node.connections import Peers
from node.deadline_timer import DeadlineTimer
from node.logs import write_log
from node.records.bridge import TO_KERNEL, ToKernel
from node.records.lanes import Lanes
from node.records.longest_turn import LongestTurn
from node.records.record_sockets import RecordSockets
from node.records.thread_use import ThreadUse

CLOSE_WAIT_S: Final = 5.0
"""Time for the step that runs when the node ends; the thread does not keep the process alive."""


class Records(Protocol):
    """The records of a broker as a value: `broker.broker.Broker`."""

    def take(self, events: Iterable[Event], now: Now) -> Sequence[Effect]:
        """Run the first half of a step on these events."""
        ...

    def settle(self) -> Sequence[Effect]:
        """Run the second half of the step."""
        ...

    def next_deadline_ms(self) -> int:
        """Monotonic time at which `TimeAdvanced` is due."""
        ...


class DataLoop:
    """The driver of `records`, which belong to its thread from `start` on.

    Args:
        records: stepped here, and nowhere else.
        kernel: takes the effects that are meant for the kernel to the main thread.
        frame_bytes_max: size above which a frame breaks its connection.
        pool: of the memory of requests; `records` gives back what it holds.
        failed: called with the error that ended this loop, on its thread.
        loop: a new loop; it is closed with this object.
    """

    def __init__(
        self,
        records: Records,
        kernel: ToKernel,
        *,
        frame_bytes_max: int,
        pool: MemoryPool,
        failed: Callable[[BaseException], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._records = records
        self._kernel = kernel
        self._failed = failed
        self._loop = loop
        self._events: deque[Event] = deque()
        self._is_scheduled = False
        self._has_failed = False
        self._timer = DeadlineTimer(
            loop, records.next_deadline_ms, lambda: self.post(TimeAdvanced())
        )
        self.longest_turn = LongestTurn()
        self.use = ThreadUse()
        self._sockets = RecordSockets(loop, self.post, frame_bytes_max, pool)
        self._peers = Peers(loop, self.post)
        self._lanes = Lanes(loop)
        self._closed = loop.create_future()
        self._thread = threading.Thread(target=self._run, name="records", daemon=True)
        self._perform: dict[type, Callable[[Any], None]] = {
            SendParts: self._send,
            CloseConnection: self._close_connection,
            SetReading: self._set_reading,
            ConnectPeer: self._peers.connect,
            SendPeerBytes: self._peers.send,
            ClosePeer: self._peers.close_peer,
            RunWork: self._run_work,
            Log: write_log,
            **dict.fromkeys(TO_KERNEL, kernel.carry_out),
        }

    def start(self, listeners: Iterable[tuple[str, Sequence[socket.socket]]]) -> None:
        """Begin to accept on bound sockets, by listener, and to step."""
        for listener, bound in listeners:
            self._sockets.listen(listener, bound)
        self.post(TimeAdvanced())
        self._thread.start()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_closed())

    async def _until_closed(self) -> None:
        self._loop.set_exception_handler(self._on_exception)
        await self._closed
        self._timer.cancel()
        self._sockets.close()
        self._peers.close()
        self._lanes.close()
        await asyncio.sleep(0)  # the transports close their sockets

    def close(self) -> None:
        """End the thread: close every socket and wait a little for work; no step follows."""
        if self._thread.ident is None:
            self._loop.close()
            return
        with suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(self._end)
        self._thread.join(CLOSE_WAIT_S)

    def _end(self) -> None:
        self._has_failed = True
        if not self._closed.done():
            self._closed.set_result(None)

    # ---- events in -------------------------------------------------------------------------

    def post_threadsafe(self, events: Sequence[Event], readings: Mapping[int, bool]) -> None:
        """Queue events of another thread for the next turn: one wake-up for all.

        Args:
            events: in their order.
            readings: tells of connections by id whether the kernel wants them to be read.
        """
        with suppress(RuntimeError):  # the loop is closed: the node ends
            self._loop.call_soon_threadsafe(self._post_all, events, readings)

    def run_threadsafe(self, call: Callable[[], None]) -> None:
        """Run a function that raises nothing on this loop's thread, between two turns."""
        with suppress(RuntimeError):  # the loop is closed: the node ends
            self._loop.call_soon_threadsafe(call)

    def _post_all(self, events: Sequence[Event], readings: Mapping[int, bool]) -> None:
        for connection_id, is_wanted in readings.items():
            self._sockets.set_reading_by_kernel(connection_id, is_wanted=is_wanted)
        if events:
            self._events.extend(events)
            self._schedule()

    def post(self, event: Event) -> None:
        """Queue an event, on this loop's thread, for its next turn."""
        self._events.append(event)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run_turn)

    def _run_turn(self) -> None:
        self._is_scheduled = False
        if self._has_failed:
            return
        began_ns, started_ns = time.monotonic_ns(), time.thread_time_ns()
        try:
            events, self._events = self._events, deque()
            self._carry_out(self._records.take(events, now()))
            self._carry_out(self._records.settle())
            self._timer.set()
            line = self.longest_turn.ended(time.thread_time_ns() - started_ns, events)
            self.use.turns_ns += time.monotonic_ns() - began_ns
            if line is not None:
                write_log(line)
        except Exception as error:  # noqa: BLE001 - top of the loop: any error ends the node
            self._fail(error)

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        """Perform the effects of a half in order; then all of its bytes leave."""
        for effect in effects:
            self._perform[type(effect)](effect)
        self._sockets.send()
        self._sockets.grant()
        self._kernel.flush()

    # ---- effects ---------------------------------------------------------------------------

    def _send(self, effect: SendParts) -> None:
        self._sockets.add(effect.connection_id, effect.parts, effect.sent)

    def _close_connection(self, effect: CloseConnection) -> None:
        self._sockets.close_connection(effect.connection_id)

    def _set_reading(self, effect: SetReading) -> None:
        self._sockets.set_reading(effect.connection_id, is_wanted=effect.is_wanted)

    def _run_work(self, effect: RunWork) -> None:
        self._lanes.run(effect, partial(self._work_done, effect.token))

    def _work_done(self, token: int, error: BaseException | None) -> None:
        self.post(WorkDone(token, error))

    # ---- the end ---------------------------------------------------------------------------

    def _on_exception(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._fail(error if error is not None else RuntimeError(context["message"]))

    def _fail(self, error: BaseException) -> None:
        if not self._has_failed:
            self._has_failed = True
            self._failed(error)
