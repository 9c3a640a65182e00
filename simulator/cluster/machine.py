"""One machine: a disk, a clock, at most one kernel, and the execution of the kernel's effects.

Every incarnation of the process has a number; what belongs to an older one (bytes in flight,
flushes, timers) compares it and does nothing. A step that is cut off within its disk operations
(`crash_at`) has sent nothing: effects are performed after a step.
"""

from collections.abc import Callable
from enum import Enum
from random import Random
from typing import Any, Final

from kernel import effects as out
from kernel import events
from kernel.config import NodeConfig
from kernel.decoding import Decoding
from kernel.kernel import Kernel
from kernel.port import RecordsPort
from raft.state import RaftState
from simulator.cluster.log_dirs import directory_ids
from simulator.cluster.memory_vfs import MemoryVfs, SimulatedCrashError
from simulator.cluster.network import End, Network, Pipe
from simulator.cluster.scheduler import Scheduler
from simulator.cluster.sockets import Inbound, Outbound
from simulator.cluster.timer import Timer
from simulator.cluster.watcher import Watcher
from simulator.faults.failing_files import is_lasting
from storage.errors import CorruptFileError, CorruptLogError, FsyncError, OutOfSpaceError
from wire.types import DirectoryId

WALL_MS: Final = 1_700_000_000_000
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qk"
CONTROLLER_PORT: Final = 9093
DATA: Final = "/data"
STOPPING: Final = (
    OSError, FsyncError, OutOfSpaceError, CorruptLogError, CorruptFileError, MemoryError,
)  # fmt: skip
"""Errors that end a node with exit code 1 in the asyncio driver too; a fault must explain each."""


class SelfEndedError(Exception):
    """A process that ended by itself, with a code other than 0 or without being asked to."""


class Power(Enum):
    """State of the process."""

    UP = "up"
    DOWN = "down"
    PAUSED = "paused"


PAUSED: Final = Power.PAUSED  # compared at every step; enum members are looked up slowly


class Machine:
    """One node of the cluster.

    Args:
        config: the node's; its host name is its id.
        scheduler, network: the world's.
        rng: chance of the disk and of the process.
        watcher: called before and after every step.
        flush_us: draws the duration of a flush.
        reported_late_us: draws the delay from the end of a flush or snapshot to its event.
    """

    # Without slots Python looks up attributes fast only up to 30 of an object.
    __slots__ = (
        "_asked_ms",
        "_closing",
        "_decoding",
        "_flush_us",
        "_inbound",
        "_next_connection_id",
        "_outbound",
        "_paused",
        "_perform",
        "_reported_late_us",
        "_timer",
        "clock_offset_ms",
        "clock_rate_ppm",
        "config",
        "directory_id",
        "disk_count",
        "find_machine",
        "id",
        "incarnation",
        "is_terminating",
        "keeps_disk_faults",
        "kernel",
        "kill_at",
        "logs",
        "make_random",
        "network",
        "power",
        "raft",
        "resumed_ms",
        "rng",
        "scheduler",
        "take",
        "vfs",
        "wall_offset_ms",
        "was_killed_in_a_step",
        "watcher",
    )

    def __init__(
        self,
        config: NodeConfig,
        scheduler: Scheduler,
        network: Network,
        *,
        rng: Random,
        watcher: Watcher,
        flush_us: Callable[[], int],
        reported_late_us: Callable[[], int],
        decoding: Decoding,
    ) -> None:
        self.config = config
        self.id = int(config.node_id)
        self.scheduler = scheduler
        self.network = network
        self.watcher = watcher
        self._decoding = decoding
        self.rng = rng
        self.disk_count = 0
        """Number of disks so far, this one included."""
        self.replace_disk()
        self.kernel: Kernel | None = None
        self.raft: RaftState | None = None
        """State of the process's raft core, read at every step: its properties cost more than the
        fields behind them."""
        self.power = Power.DOWN
        self.incarnation = 0
        self.resumed_ms = 0
        """End of its last pause, by its own clock."""
        self.is_terminating = False
        """True once this process was asked to shut down."""
        self._asked_ms = 0
        self.clock_offset_ms = 0
        self.clock_rate_ppm = 0
        self.wall_offset_ms = 0
        self.keeps_disk_faults = False
        """True: a full or failing disk stays so over a power failure."""
        self.kill_at: int | None = None
        """The `crash_at` of its disk that stands for a SIGKILL instead of a power failure."""
        self.was_killed_in_a_step = False
        """True after a SIGKILL by `kill_at` until the next start; a file may be cut, not synced."""
        self.logs: list[tuple[int, out.Log]] = []
        self.make_random: Callable[[int], Random] = Random
        """Maker of a process's random generator, from a seed."""
        self.take: Callable[[events.Event], None] | None = None
        """Takes the events instead of `post` where several make one step (event_loop.py)."""
        self._flush_us = flush_us
        self._reported_late_us = reported_late_us
        self._paused: list[events.Event] = []
        self._inbound: dict[int, Pipe] = {}
        self._closing: set[int] = set()
        self._outbound: dict[int, Pipe] = {}
        self._next_connection_id = 1
        self._timer = Timer(scheduler, self._due_us, self._timer_rings)
        self._perform: dict[type, Callable[[Any], None]] = {
            out.SendBytes: self._send,
            out.CloseConnection: self._close,
            out.SetReading: lambda _: None,
            out.ConnectPeer: self._connect,
            out.SendPeerBytes: self._send_peer,
            out.ClosePeer: self._close_peer,
            out.RunFlush: self._run_flush,
            out.RunLocalChanges: self._run_local_changes,
            out.RunSnapshot: self._run_snapshot,
            out.Log: lambda effect: self.logs.append((scheduler.now_us, effect)),
            out.Exit: self._exit,
        }

    # ---- clocks ------------------------------------------------------------------------------

    def now(self) -> events.Now:
        """Read this machine's clocks."""
        now_us, rate_ppm = self.scheduler.now_us, self.clock_rate_ppm
        now_ms = now_us * (1_000_000 + rate_ppm) // 1_000_000_000 if rate_ppm else now_us // 1_000
        return events.Now(
            1_000 + self.clock_offset_ms + now_ms, WALL_MS + self.wall_offset_ms + now_ms
        )

    def _due_us(self, deadline_ms: int) -> int:
        scaled_us = (deadline_ms - 1_000 - self.clock_offset_ms) * 1_000
        rate_ppm = self.clock_rate_ppm
        return -(-scaled_us * 1_000_000 // (1_000_000 + rate_ppm)) if rate_ppm else scaled_us

    # ---- process -----------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        """True while a process runs, paused or not."""
        return self.kernel is not None

    def start(self) -> None:
        """Start a process on the disk as it is."""
        assert self.kernel is None, f"machine {self.id} runs"
        self.incarnation += 1
        self.is_terminating = False
        self.was_killed_in_a_step = False
        self.power = Power.UP
        self._paused.clear()
        try:
            self.watcher.before_step(self, None)
            self.kernel = self._open(self.make_random(self.rng.getrandbits(64)))
            self.raft = self.kernel.core._state  # noqa: SLF001 - read at every step
            self.watcher.created(self)
            effects = self.kernel.start(self.now())
        except SimulatedCrashError as crash:
            self.crashed(crash)
        except STOPPING as error:
            self._ended(f"refused to start: {error}", error)
        else:
            self._after(None, effects)

    def _open(self, rng: Random, port: RecordsPort | None = None) -> Kernel:
        return Kernel(
            self.config,
            self.vfs,
            rng,
            cluster_id=CLUSTER_ID,
            directory_ids=directory_ids(self.config.log_dirs, self.directory_id),
            now=self.now(),
            decoding=self._decoding,
            port=port,
        )

    def replace_disk(self) -> None:
        """Put in an empty formatted disk with a directory id of its own. No process runs."""
        last = (self.id + self.disk_count) % 256
        self.directory_id = DirectoryId(bytes([self.id] * 15 + [last]))
        self.disk_count += 1
        self.vfs = MemoryVfs(wall_ms=lambda: self.now().wall_ms)
        for path in self.config.log_dirs:
            self.vfs.make_directory(path)
        self.vfs.sync_directory("/")

    def kill(self) -> None:
        """SIGKILL: what was written stays in the page cache."""
        if self.kernel is not None:
            self._end_process("killed", None)

    def power_off(self, why: str = "power failure") -> None:
        """Cut the power: unsynced changes are kept or lost by chance."""
        self.network.lose(self.id, is_silent=True)
        before, self.vfs = self.vfs, self.vfs.crash(self.rng)
        if self.keeps_disk_faults:
            self.vfs.bytes_max = before.bytes_max
            self.vfs.failing = before.failing if is_lasting(before.failing) else None
        self._ended(why, None)

    def crashed(self, crash: SimulatedCrashError) -> None:
        """Cut the power, or kill the process, at the disk operation that was set for it."""
        if self.kill_at is None or self.kill_at != self.vfs.crash_at:
            self.power_off(str(crash))
            return
        self.vfs.crash_at = None
        self.was_killed_in_a_step = True
        self._end_process(f"killed at {crash}", None)

    def terminate(self) -> None:
        """SIGTERM: controlled shutdown, hand-over, then the process ends by itself."""
        if self.kernel is not None:
            if not self.is_terminating:
                self._asked_ms = self.now().monotonic_ms
            self.is_terminating = True
            self.post(events.ShutdownRequested(), self.incarnation)

    def shutting_down_ms(self) -> int:
        """Time since the shutdown request or the last pause, the later one, by its own clock.

        0 if no process shuts down, or it is paused.
        """
        if self.kernel is None or not self.is_terminating or self.power is Power.PAUSED:
            return 0
        return self.now().monotonic_ms - max(self._asked_ms, self.resumed_ms)

    def pause(self) -> None:
        """SIGSTOP: events wait, clocks run on."""
        if self.power is Power.UP:
            self.power = Power.PAUSED

    def resume(self) -> None:
        """SIGCONT: take everything that waited, in order."""
        if self.power is not Power.PAUSED:
            return
        self.power = Power.UP
        self.resumed_ms = self.now().monotonic_ms
        waiting, self._paused = self._paused, []
        for event in waiting:
            self.post(event, self.incarnation)
        self._set_timer()

    def _end_process(self, reason: str, error: BaseException | None) -> None:
        """End the process, not the machine: what was written stays in the page cache."""
        self.network.lose(self.id, is_silent=False)
        self.vfs.kill()
        self._ended(reason, error)

    def _ended(self, reason: str, error: BaseException | None) -> None:
        self.kernel = None
        self.raft = None
        self.kill_at = None
        self.power = Power.DOWN
        self.incarnation += 1
        self._inbound.clear()
        self._closing.clear()
        self._outbound.clear()
        self._timer.stop()
        self.watcher.process_ended(self, reason, error)

    # ---- events ------------------------------------------------------------------------------

    def post(self, event: events.Event, incarnation: int) -> None:
        """Step the kernel with one event of this incarnation."""
        kernel = self.kernel
        if kernel is None or incarnation != self.incarnation:
            return
        if self.power is PAUSED:
            self._paused.append(event)
            return
        if self.take is not None:
            self.take(event)
            return
        self.watcher.before_step(self, event)
        try:
            effects = kernel.step(event, self.now())
        except SimulatedCrashError as crash:
            self.crashed(crash)
        except STOPPING as error:
            self._stop(error)
        else:
            self._after(event, effects)

    def _stop(self, error: BaseException) -> None:
        """End the node by an error as the asyncio driver does: exit code 1."""
        self._end_process(f"stopped: {error}", error)

    def _after(self, event: events.Event | None, effects: list[out.Effect]) -> None:
        self.watcher.after_step(self, event, effects)
        incarnation = self.incarnation
        for effect in effects:
            self._perform[type(effect)](effect)
            if self.incarnation != incarnation:
                return
        self._set_timer()

    def _set_timer(self) -> None:
        kernel = self.kernel
        if kernel is not None and self.power is not PAUSED:
            self._timer.set(kernel.next_deadline_ms())

    def _timer_rings(self) -> None:
        self.post(events.TimeAdvanced(), self.incarnation)

    # ---- network -----------------------------------------------------------------------------

    def accept(self, pipe: Pipe, listener: str) -> End | None:
        """Take the first packet of a connection; None: no process listens."""
        if self.kernel is None:
            return None
        connection_id = self._next_connection_id
        self._next_connection_id += 1
        self._inbound[connection_id] = pipe
        incarnation = self.incarnation
        opened = events.ConnectionOpened(connection_id, listener)
        self.scheduler.after(0, lambda: self.post(opened, incarnation))
        return Inbound(self, connection_id, incarnation)

    def drop_inbound(self, connection_id: int, incarnation: int) -> None:
        """Drop a connection to this process that is gone."""
        if incarnation == self.incarnation and self._inbound.pop(connection_id, None) is not None:
            self._closing.add(connection_id)
            self.post(events.ConnectionClosed(connection_id), incarnation)

    def note_closed(self, connection_id: int) -> None:
        """Note that the kernel takes the event of a closed connection now."""
        self._closing.discard(connection_id)

    @property
    def connection_count(self) -> int:
        """Connections that others opened to this process, open as far as the kernel knows."""
        return len(self._inbound) + len(self._closing)

    def drop_outbound(self, peer_id: int, incarnation: int, *, refused: bool) -> None:
        """Drop a connection of this process that is gone."""
        if incarnation == self.incarnation and self._outbound.pop(peer_id, None) is not None:
            self.post(events.PeerDisconnected(peer_id, refused=refused), incarnation)

    def _send(self, effect: out.SendBytes) -> None:
        pipe = self._inbound.get(effect.connection_id)
        if pipe is not None:
            self.network.send(pipe, bytes(effect.data), to_server=False)

    def _close(self, effect: out.CloseConnection) -> None:
        pipe = self._inbound.pop(effect.connection_id, None)
        if pipe is not None:
            self.network.close(pipe, by_server=True)

    def _connect(self, effect: out.ConnectPeer) -> None:
        end = Outbound(self, effect.peer_id, self.incarnation)
        host = int(effect.host)
        listener = "CONTROLLER" if effect.port == CONTROLLER_PORT else "PLAINTEXT"
        finder = self.find_machine
        self._outbound[effect.peer_id] = self.network.connect(
            end, host, lambda pipe: finder(host).accept(pipe, listener)
        )

    find_machine: Callable[[int], "Machine"]
    """Finds a machine by its host; set by the world."""

    def _send_peer(self, effect: out.SendPeerBytes) -> None:
        pipe = self._outbound.get(effect.peer_id)
        if pipe is not None:
            self.network.send(pipe, bytes(effect.data), to_server=True)

    def _close_peer(self, effect: out.ClosePeer) -> None:
        pipe = self._outbound.pop(effect.peer_id, None)
        if pipe is not None:
            self.network.close(pipe, by_server=False)

    # ---- disk --------------------------------------------------------------------------------

    def _run_flush(self, effect: out.RunFlush) -> None:
        done = events.FlushDone(effect.token)
        self._run_later(self._flush_us(), effect.plan.run, lambda: done)

    def _run_local_changes(self, effect: out.RunLocalChanges) -> None:
        """Run folder work later: an error goes to the kernel, a failed fsync ends the node."""
        incarnation = self.incarnation

        def run() -> None:
            if incarnation != self.incarnation:
                return
            error: str | None = None
            try:
                effect.work()
            except SimulatedCrashError as crash:
                self.crashed(crash)
                return
            except FsyncError as failed:
                self._stop(failed)
                return
            except STOPPING as raised:
                error = str(raised)
            self.post(events.LocalChangesDone(effect.token, error), incarnation)

        self.scheduler.after(self._flush_us(), run)

    def _run_snapshot(self, effect: out.RunSnapshot) -> None:
        done = events.SnapshotDone(effect.token)
        self._run_later(self._flush_us(), effect.work, lambda: done)

    def _run_later(
        self, delay_us: int, work: Callable[[], object], done: Callable[[], events.Event]
    ) -> None:
        """Run work as on another thread: it ends some time later, and its end is an event."""
        incarnation = self.incarnation

        def run() -> None:
            if incarnation != self.incarnation:
                return
            try:
                work()
            except SimulatedCrashError as crash:
                self.crashed(crash)
            except STOPPING as error:
                self._stop(error)
            else:
                self._report(done(), incarnation)

        self.scheduler.after(delay_us, run)

    def _report(self, done: events.Event, incarnation: int) -> None:
        late_us = self._reported_late_us()
        if late_us == 0:
            self.post(done, incarnation)
        else:
            self.scheduler.after(late_us, lambda: self.post(done, incarnation))

    def _exit(self, effect: out.Exit) -> None:
        assert self.kernel is not None
        if effect.code == 0:
            try:
                self.kernel.close()
            except SimulatedCrashError as crash:
                self.crashed(crash)
                return
            except STOPPING as error:
                self._stop(error)
                return
        is_legal = effect.code == 0 and self.is_terminating
        asked = "" if self.is_terminating else ", and nobody asked it to end"
        reason = f"exit {effect.code}: {effect.reason}{asked}"
        self._end_process(reason, None if is_legal else SelfEndedError(reason))
