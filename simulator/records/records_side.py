"""The records of one process of a machine: a broker, stepped and served as on a thread of its own.

All events that wait when its loop gets to them are one step. Lanes run their work in order, each
piece some time after the one before; slices of files are read when they are sent, so truncations
come between. A power failure or a kill ends it with the process: nothing of it happens afterwards.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from broker.broker import Broker
from broker.config import RecordsConfig, UpkeepConfig
from broker.effects import (
    CloseConnection,
    ClosePeer,
    ConnectPeer,
    Effect,
    Lane,
    Log,
    RunWork,
    SendParts,
    SendPeerBytes,
    SetReading,
)
from broker.events import ConnectionOpened, Event, TimeAdvanced, WorkDone
from replication.follower.follower_broker import ReplicaFetchConfig
from simulator.cluster.log_dirs import directory_ids
from simulator.cluster.machine import STOPPING, Power
from simulator.cluster.memory_vfs import SimulatedCrashError
from simulator.cluster.network import End, Network, Pipe
from simulator.cluster.timer import Timer
from simulator.records.connections import ClientSocket, LeaderSocket
from simulator.records.ports import KERNEL_EVENTS, LatePort
from storage.log_dir.clean_shutdown_file import CleanShutdownFiles

if TYPE_CHECKING:
    from simulator.records.machine import RecordsMachine

PAUSED_LOOK_US: Final = 1_000
UPKEEP: Final = UpkeepConfig(
    initial_delay_ms=1_000,
    retention_check_ms=3_000,
    flush_check_ms=2_000,
    recovery_point_ms=4_000,
    log_start_ms=4_000,
    high_watermark_ms=1_000,
)
REPLICA_FETCH: Final = ReplicaFetchConfig(wait_ms_max=200, backoff_ms=300, socket_timeout_ms=3_000)
LAG_MS_MAX: Final = 3_000
PROPERTIES: Final = (  # sorted; the map of the cleaner holds 5 of the 7 keys
    ("log.cleaner.backoff.ms", "400"),
    ("log.cleaner.dedupe.buffer.size", "144"),
    ("log.flush.interval.messages", "40"),
    ("log.segment.bytes", "4000"),
    ("log.segment.delete.delay.ms", "1000"),
)


class RecordsSide:
    """A broker with its driver.

    Args:
        machine: whose process it is part of.
        rng: of the broker.
        delays: draws how long things take.
    """

    def __init__(self, machine: "RecordsMachine", rng: Random, delays: Random) -> None:
        self._machine = machine
        self._scheduler = machine.scheduler
        self._incarnation = machine.incarnation
        self._delays = delays
        self.network: Network = machine.network
        self.host = machine.id
        self.broker = Broker(
            machine.records_config(),
            machine.vfs,
            rng,
            now=machine.now(),
            clean_log_dirs=CleanShutdownFiles(machine.vfs, machine.config.log_dirs).found_in,
        )
        self.memory = self.broker.memory
        self._events: list[Event] = []
        self._is_planned = False
        self._timer = Timer(machine.scheduler, machine.due_us, lambda: self.post(TimeAdvanced()))
        self.sockets: dict[int, ClientSocket] = {}
        self._peers: dict[int, tuple[LeaderSocket, Pipe]] = {}
        self._lanes: dict[tuple[Lane, str], deque[RunWork]] = {}
        self._to_kernel = LatePort(machine.scheduler, self._lag_us)
        self._to_records = LatePort(machine.scheduler, self._lag_us)
        self._perform: dict[type, Callable[[Any], None]] = {
            SendParts: self._send,
            CloseConnection: self._close,
            SetReading: self._set_reading,
            ConnectPeer: self._connect,
            SendPeerBytes: self._send_peer,
            ClosePeer: self._close_peer,
            RunWork: self._run_work,
            Log: lambda effect: machine.logs.append((machine.scheduler.now_us, effect)),
            **dict.fromkeys(KERNEL_EVENTS, self._tell_kernel),
        }

    # ---- time ----------------------------------------------------------------------------------

    @property
    def is_current(self) -> bool:
        """True while the process that it is part of runs."""
        return self._machine.incarnation == self._incarnation

    @property
    def now_us(self) -> int:
        """Time of the world."""
        return self._scheduler.now_us

    def _lag_us(self) -> int:
        return self._drawn_us(100)

    def send_late_us(self) -> int:
        """Draw the time until what a step sends reaches the socket."""
        return self._drawn_us(50)

    def _drawn_us(self, mean_us: int) -> int:
        """Draw nothing, a little, or now and then a lot."""
        chance = self._delays.random()
        if chance < 0.3:
            return 0
        factor = 1 if chance < 0.95 else 100
        return int(self._delays.expovariate(1.0) * mean_us * factor)

    def later(self, delay_us: int, act: Callable[[], None]) -> None:
        """Do something later, if this process still runs."""
        self.when_running(self.now_us + delay_us, act)

    def when_running(self, at_us: int, act: Callable[[], None]) -> None:
        """Do something at a time, or when the process goes on after it."""

        def run() -> None:
            if not self.is_current:
                return
            if self._machine.power is Power.PAUSED:
                self._scheduler.after(PAUSED_LOOK_US, run)
            else:
                act()

        self._scheduler.at(at_us, run)

    # ---- steps ---------------------------------------------------------------------------------

    def post(self, event: Event) -> None:
        """Queue an event for the next step."""
        if self.is_current:
            self._events.append(event)
            if not self._is_planned:
                self._is_planned = True
                self.later(self._drawn_us(20), self._step)

    def _step(self) -> None:
        self._is_planned = False
        taken, self._events = self._events, []
        machine, broker, incarnation = self._machine, self.broker, self._incarnation
        for act in (partial(broker.take, taken, machine.now()), broker.settle):
            effects = self.guarded(act)
            if effects is None:
                return
            machine.after_records_step(taken, effects)
            for effect in effects:
                self._perform[type(effect)](effect)
                if machine.incarnation != incarnation:
                    return
            self.grant()
        self._timer.set(broker.next_deadline_ms())

    def grant(self) -> None:
        """Go on with the connections that wait for memory, while there is room."""
        while (connection_id := self.memory.first_with_room()) is not None:
            self.sockets[connection_id].granted()

    def guarded(self, act: Callable[[], Sequence[Effect] | None]) -> Sequence[Effect] | None:
        """Call an act; None: the process ended in it."""
        try:
            return act()
        except SimulatedCrashError as crash:
            self._machine.crashed(crash)
        except STOPPING as error:
            self._machine.failed(error)
        return None

    def end(self) -> None:
        """Take no further step."""
        self._timer.stop()

    # ---- the kernel ----------------------------------------------------------------------------

    def _tell_kernel(self, effect: Effect) -> None:
        event = KERNEL_EVENTS[type(effect)](effect)
        self._to_kernel.send(lambda e: self._machine.post_of_records(e, self._incarnation), event)

    def take_later(self, deliver: Callable[[Any], None], message: object) -> None:
        """Deliver what the kernel says after all that it said before."""
        self._to_records.send(deliver, message)

    # ---- connections ---------------------------------------------------------------------------

    def accept(self, pipe: Pipe, listener: str, connection_id: int) -> End:
        """Take the first packet of a connection to a broker listener."""
        socket = ClientSocket(self, pipe, connection_id, self.broker.config.request_bytes_max)
        self.sockets[connection_id] = socket
        client_host = f"10.0.{pipe.hosts[0] // 256}.{pipe.hosts[0] % 256}"
        self.post(ConnectionOpened(connection_id, listener, client_host))
        return socket

    def forget(self, connection_id: int) -> bool:
        """Leave out a connection; False if the broker closed it before."""
        return self.sockets.pop(connection_id, None) is not None

    def note_cut(self, pipe: Pipe) -> None:
        """Break a connection: bytes that were announced were truncated."""
        self.network.reset(pipe)

    def _send(self, effect: SendParts) -> None:
        socket = self.sockets.get(effect.connection_id)
        if socket is not None:
            socket.send(effect.parts)

    def _close(self, effect: CloseConnection) -> None:
        socket = self.sockets.pop(effect.connection_id, None)
        if socket is not None:
            socket.close()

    def _set_reading(self, effect: SetReading) -> None:
        socket = self.sockets.get(effect.connection_id)
        if socket is not None:
            socket.set_reading(is_wanted=effect.is_wanted)

    def set_reading_by_kernel(self, effect: SetReading) -> None:
        """Take the kernel's word about a connection."""
        socket = self.sockets.get(effect.connection_id)
        if socket is not None:
            socket.set_reading_by_kernel(is_wanted=effect.is_wanted)

    def _connect(self, effect: ConnectPeer) -> None:
        end = LeaderSocket(self, effect.peer_id)
        find, host = self._machine.find_machine, int(effect.host)
        pipe = self.network.connect(end, host, lambda pipe: find(host).accept(pipe, "PLAINTEXT"))
        self._peers[effect.peer_id] = end, pipe

    def _send_peer(self, effect: SendPeerBytes) -> None:
        if effect.peer_id in self._peers:
            self.network.send(self._peers[effect.peer_id][1], bytes(effect.data), to_server=True)

    def _close_peer(self, effect: ClosePeer) -> None:
        known = self._peers.pop(effect.peer_id, None)
        if known is not None:
            self.network.close(known[1], by_server=False)

    def forget_peer(self, peer_id: int, end: LeaderSocket) -> bool:
        """Leave out a connection to a leader; False if it was closed here."""
        if peer_id not in self._peers or self._peers[peer_id][0] is not end:
            return False
        del self._peers[peer_id]
        return True

    # ---- lanes ---------------------------------------------------------------------------------

    def _run_work(self, effect: RunWork) -> None:
        lane = self._lanes.setdefault((effect.lane, effect.name), deque())
        lane.append(effect)
        if len(lane) == 1:
            self._plan_work(lane)

    def _plan_work(self, lane: deque[RunWork]) -> None:
        self.later(self._drawn_us(500), lambda: self._work(lane))

    def _work(self, lane: deque[RunWork]) -> None:
        effect = lane.popleft()
        error: BaseException | None = None
        try:
            effect.work()
        except SimulatedCrashError as crash:
            self._machine.crashed(crash)
            return
        except Exception as raised:  # noqa: BLE001 - as a thread of a driver does
            error = raised
        self.later(self._drawn_us(50), lambda: self.post(WorkDone(effect.token, error)))
        if lane:
            self._plan_work(lane)


def records_config(machine: "RecordsMachine") -> RecordsConfig:
    """Settings of a broker: short intervals and small files, so that all of it happens."""
    return RecordsConfig(
        node_id=machine.config.node_id,
        log_dirs=machine.config.log_dirs,
        directory_ids=directory_ids(machine.config.log_dirs, machine.directory_id),
        inter_broker_listener="PLAINTEXT",
        properties=PROPERTIES,
        rack=machine.config.broker.rack,
        reads_in_rack=True,
        replica_lag_ms_max=LAG_MS_MAX,
        replica_fetch=REPLICA_FETCH,
        upkeep=UPKEEP,
    )
