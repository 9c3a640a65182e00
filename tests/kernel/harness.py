"""Several kernels in one process: virtual time, memory disks, byte pipes. Deterministic by seed."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from kernel import effects as out
from kernel import events
from kernel.config import NodeConfig, Voter
from kernel.kernel import Kernel
from kernel.port import RecordsPort
from simulator.cluster.memory_vfs import MemoryVfs
from storage.errors import FsyncError, OutOfSpaceError
from tests.kernel.deadlines import check_deadlines
from wire.connections.client_connection import ClientConnection
from wire.messages import codec
from wire.types import DirectoryId, Endpoint, NodeId

LATENCY_MS = 1
FLUSH_MS = 1
WALL_MS = 1_700_000_000_000
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"


def config_of(node_id: int, voters: int = 3, **more: Any) -> NodeConfig:
    """Node 1..n, controller and broker in one; host is the node id."""
    listeners = (
        Endpoint("PLAINTEXT", str(node_id), 9092),
        Endpoint("CONTROLLER", str(node_id), 9093),
    )
    return NodeConfig(
        node_id=NodeId(node_id),
        is_broker=more.pop("is_broker", True),
        is_controller=more.pop("is_controller", True),
        voters=tuple(Voter(NodeId(i), str(i), 9093) for i in range(1, voters + 1)),
        controller_listener_names=("CONTROLLER",),
        listeners=listeners,
        advertised_listeners=listeners,
        log_dirs=more.pop("log_dirs", ("/data",)),
        metadata_log_dir="/data",
        **more,
    )


def directory_id(number: int, wipes: int = 0) -> DirectoryId:
    """The id of a log directory, another one after each wipe."""
    return DirectoryId(bytes([number]) * 15 + bytes([(number + wipes) % 256]))


@dataclass
class Node:
    """One kernel with its disk; `kernel` is None while the process is down."""

    config: NodeConfig
    vfs: MemoryVfs = field(default_factory=MemoryVfs)
    kernel: Kernel | None = None
    life: int = 0
    wipes: int = 0
    """Number of its new disks; its directories have other ids on each."""
    exit: out.Exit | None = None
    logs: list[out.Log] = field(default_factory=list)
    told: list[out.RecordsEffect] = field(default_factory=list)
    """Effects for the records of the broker in this life, in order; a test answers."""
    reads: list[out.AnswerRead] = field(default_factory=list)
    """Answers to linearizable reads."""


@dataclass
class Pipe:
    """A connection; ends are (node id, life, id in that kernel) or a client's callback."""

    server: tuple[int, int, int]
    peer: tuple[int, int, int] | None
    receive: Callable[[bytes], None] | None = None


class World:
    """The nodes, the network between them, and the time."""

    def __init__(
        self, count: int = 3, seed: int = 0, *, port: RecordsPort | None = None, **more: Any
    ) -> None:
        self.now_ms = 1_000
        self.rng = random.Random(seed)
        self.nodes = {i: Node(config_of(i, count, **more)) for i in range(1, count + 1)}
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self.steps = 0
        self._port = port
        self._next_connection_id = 1
        self._by_connection: dict[tuple[int, int, int], Pipe] = {}
        self._by_peer: dict[tuple[int, int, int], Pipe] = {}
        self.paused: dict[int, list[tuple[int, events.Event]]] = {}
        """Per node that SIGSTOP holds: what happened to it meanwhile."""
        self.unread: set[tuple[int, int]] = set()
        """(node id, connection id) of what a node has asked not to read."""
        for node in self.nodes.values():
            for path in node.config.log_dirs:
                node.vfs.make_directory(path)
            node.vfs.sync_directory("/")

    # ---- nodes -----------------------------------------------------------------------------

    def start(self, node_id: int) -> None:
        node = self.nodes[node_id]
        node.life += 1
        node.exit = None
        node.told.clear()
        paths = enumerate(node.config.log_dirs)
        identities = {path: directory_id(node_id + 16 * i, node.wipes) for i, path in paths}
        node.kernel = Kernel(
            node.config,
            node.vfs,
            self.rng,
            cluster_id=CLUSTER_ID,
            directory_ids=identities,
            now=self._now(),
            port=self._port,
        )
        self._perform(node_id, node.life, node.kernel.start(self._now()))

    def start_all(self) -> None:
        for node_id in self.nodes:
            self.start(node_id)

    def kill(self, node_id: int) -> None:
        """SIGKILL, with what was not synced lost; connections close, then connects are refused."""
        node = self.nodes[node_id]
        self._drop_connections(node_id, node.life)
        node.kernel = None
        node.vfs = node.vfs.crash()

    def pause(self, node_id: int) -> None:
        self.paused[node_id] = []

    def resume(self, node_id: int) -> None:
        for life, event in self.paused.pop(node_id):
            self.post(node_id, life, event)

    def terminate(self, node_id: int) -> None:
        self.post(node_id, self.nodes[node_id].life, events.ShutdownRequested())

    def kernel(self, node_id: int) -> Kernel:
        kernel = self.nodes[node_id].kernel
        assert kernel is not None, f"{node_id=} is down"
        return kernel

    @property
    def alive(self) -> list[int]:
        return [i for i, node in self.nodes.items() if node.kernel is not None]

    def active(self) -> int | None:
        found = [i for i in self.alive if self.kernel(i).state.is_active]
        return found[0] if len(found) == 1 else None

    def is_ready(self) -> bool:
        return self.active() is not None and all(self.kernel(i).is_unfenced for i in self.alive)

    # ---- time ------------------------------------------------------------------------------

    def _now(self) -> events.Now:
        return events.Now(self.now_ms, WALL_MS + self.now_ms)

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._sequence, action))

    def run_until(self, condition: Callable[[], bool], limit_ms: int = 20_000) -> int:
        """Advance until the condition holds; gives the time it took."""
        start_ms = self.now_ms
        while not condition():
            assert self.now_ms - start_ms <= limit_ms, "the condition did not come true"
            self.advance_once()
        return self.now_ms - start_ms

    def run_for(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while self._next_ms() <= end_ms:
            self.advance_once()
        self.now_ms = end_ms

    def _next_ms(self) -> int:
        times = [self._queue[0][0]] if self._queue else []
        running = set(self.alive) - set(self.paused)
        times += [self.kernel(node_id).next_deadline_ms() for node_id in running]
        return max(self.now_ms, min(times))

    def advance_once(self) -> None:
        self.now_ms = self._next_ms()
        if self._queue and self._queue[0][0] <= self.now_ms:
            heapq.heappop(self._queue)[2]()
            return
        for node_id in [i for i in self.alive if i not in self.paused]:
            if self.kernel(node_id).next_deadline_ms() <= self.now_ms:
                self.post(node_id, self.nodes[node_id].life, events.TimeAdvanced())

    # ---- events and effects ----------------------------------------------------------------

    def post(self, node_id: int, life: int, event: events.Event) -> None:
        node = self.nodes[node_id]
        if node.kernel is None or node.life != life:
            return
        if node_id in self.paused:
            self.paused[node_id].append((life, event))
            return
        self.post_all(node_id, [event])

    def post_all(self, node_id: int, together: list[events.Event]) -> None:
        """One turn of a node that is up, with all that came since its last."""
        node, kernel = self.nodes[node_id], self.kernel(node_id)
        life = node.life
        self.steps += 1
        try:
            effects = kernel.steps(together, self._now())
        except (OSError, FsyncError, OutOfSpaceError) as error:
            self._failed(node_id, life, error)
        else:
            check_deadlines(kernel)
            assert not kernel.replica._queue, "a step leaves no event to the next one"
            is_held = kernel.core.is_handing_over
            assert is_held or not kernel.replica._proposals, "nor a proposal"
            self._perform(node_id, life, effects)

    def _failed(self, node_id: int, life: int, error: Exception) -> None:
        """As the driver: anything that the kernel does not handle ends the node."""
        self.nodes[node_id].exit = out.Exit(1, f"{type(error).__name__}: {error}")
        self._exited(node_id, life)

    def _perform(self, node_id: int, life: int, effects: list[out.Effect]) -> None:
        for effect in effects:
            self._perform_one(node_id, life, effect)

    def _perform_one(  # noqa: C901, PLR0912
        self, node_id: int, life: int, effect: out.Effect
    ) -> None:
        node = self.nodes[node_id]
        match effect:
            case out.SendBytes():
                pipe = self._by_connection.get((node_id, life, effect.connection_id))
                if pipe is not None:
                    self.after(LATENCY_MS, lambda: self._to_client(pipe, effect.data))
            case out.SendPeerBytes():
                pipe = self._by_peer.get((node_id, life, effect.peer_id))
                if pipe is not None:
                    self.after(LATENCY_MS, lambda: self._to_server(pipe, effect.data))
            case out.SetReading():
                change = self.unread.discard if effect.is_wanted else self.unread.add
                change((node_id, effect.connection_id))
            case out.ConnectPeer():
                self.after(LATENCY_MS, lambda: self._connect(node_id, life, effect))
            case out.ClosePeer():
                self._close(self._by_peer.get((node_id, life, effect.peer_id)), from_peer=True)
            case out.CloseConnection():
                key = (node_id, life, effect.connection_id)
                self._close(self._by_connection.get(key), from_peer=False)
            case out.RunFlush():
                self.after(FLUSH_MS, lambda: self._flush(node_id, life, effect))
            case out.RunLocalChanges():
                self.after(FLUSH_MS, lambda: self._change_folders(node_id, life, effect))
            case out.RunSnapshot():
                self.after(FLUSH_MS, lambda: self._write_snapshot(node_id, life, effect))
            case out.Log():
                node.logs.append(effect)
            case (
                out.PublishImage() | out.TellBrokerEpoch() | out.AnswerRecords() | out.StopRecords()
            ):
                node.told.append(effect)
            case out.AnswerRead():
                node.reads.append(effect)
            case out.Exit():
                node.exit = effect
                self.after(0, lambda: self._exited(node_id, life))

    def _flush(self, node_id: int, life: int, effect: out.RunFlush) -> None:
        if self.nodes[node_id].life == life and self.nodes[node_id].kernel is not None:
            try:
                effect.plan.run()
            except FsyncError as error:
                self._failed(node_id, life, error)
            else:
                self.post(node_id, life, events.FlushDone(effect.token))

    def _change_folders(self, node_id: int, life: int, effect: out.RunLocalChanges) -> None:
        """As the driver: an error is told to the kernel, a failed fsync ends the node."""
        if self.nodes[node_id].life != life or self.nodes[node_id].kernel is None:
            return
        told: str | None = None
        try:
            effect.work()
        except FsyncError as error:
            self._failed(node_id, life, error)
            return
        except (OSError, OutOfSpaceError) as error:
            told = str(error)
        self.post(node_id, life, events.LocalChangesDone(effect.token, told))

    def _write_snapshot(self, node_id: int, life: int, effect: out.RunSnapshot) -> None:
        if self.nodes[node_id].life == life and self.nodes[node_id].kernel is not None:
            effect.work()
            self.post(node_id, life, events.SnapshotDone(effect.token))

    def _exited(self, node_id: int, life: int) -> None:
        node = self.nodes[node_id]
        if node.kernel is not None and node.life == life:
            self._drop_connections(node_id, life)
            if node.exit == out.Exit(0, "shut down"):
                node.kernel.close()
            node.kernel = None

    # ---- network ---------------------------------------------------------------------------

    def _connect(self, node_id: int, life: int, effect: out.ConnectPeer) -> None:
        target = self.nodes[int(effect.host)]
        if target.kernel is None:
            self.post(node_id, life, events.PeerDisconnected(effect.peer_id, refused=True))
            return
        connection_id = self._next_connection_id
        self._next_connection_id += 1
        server = (int(effect.host), target.life, connection_id)
        peer = (node_id, life, effect.peer_id)
        self._by_connection[server] = self._by_peer[peer] = Pipe(server, peer)
        self.post(*server[:2], events.ConnectionOpened(connection_id, "CONTROLLER"))
        self.post(node_id, life, events.PeerConnected(effect.peer_id))

    def _to_client(self, pipe: Pipe, content: bytes) -> None:
        if pipe.receive is not None:
            pipe.receive(content)
        elif pipe.peer is not None and pipe.peer in self._by_peer:
            self.post(*pipe.peer[:2], events.PeerBytes(pipe.peer[2], content))

    def _to_server(self, pipe: Pipe, content: bytes) -> None:
        if pipe.server in self._by_connection:
            self.post(*pipe.server[:2], events.BytesReceived(pipe.server[2], content))

    def _close(self, pipe: Pipe | None, *, from_peer: bool) -> None:
        if pipe is None:
            return
        self._by_connection.pop(pipe.server, None)
        if pipe.peer is not None:
            self._by_peer.pop(pipe.peer, None)
        if from_peer:
            closed = events.ConnectionClosed(pipe.server[2])
            self.after(LATENCY_MS, lambda: self.post(*pipe.server[:2], closed))
        elif pipe.peer is not None:
            lost = events.PeerDisconnected(pipe.peer[2], refused=False)
            peer = pipe.peer
            self.after(LATENCY_MS, lambda: self.post(*peer[:2], lost))

    def _drop_connections(self, node_id: int, life: int) -> None:
        for pipe in [*self._by_connection.values()]:
            if pipe.server[:2] == (node_id, life):
                self._close(pipe, from_peer=False)
            elif pipe.peer is not None and pipe.peer[:2] == (node_id, life):
                self._close(pipe, from_peer=True)

    # ---- clients ---------------------------------------------------------------------------

    def client(self, node_id: int, listener: str = "PLAINTEXT") -> "Client":
        return Client(self, node_id, listener)

    def open_client(self, node_id: int, listener: str, receive: Callable[[bytes], None]) -> Pipe:
        connection_id = self._next_connection_id
        self._next_connection_id += 1
        server = (node_id, self.nodes[node_id].life, connection_id)
        pipe = self._by_connection[server] = Pipe(server, None, receive)
        self.post(*server[:2], events.ConnectionOpened(connection_id, listener))
        return pipe

    def peer_count(self, node_id: int) -> int:
        """Number of connections that a node has opened."""
        return sum(opened_by == node_id for opened_by, _, _ in self._by_peer)

    def is_open(self, pipe: Pipe) -> bool:
        return pipe.server in self._by_connection

    def send(self, pipe: Pipe, content: bytes) -> None:
        self.after(LATENCY_MS, lambda: self._to_server(pipe, content))


class Client:
    """A Kafka client of one node."""

    def __init__(self, world: World, node_id: int, listener: str) -> None:
        self.world = world
        self.answers: dict[int, Any] = {}
        self.connection = ClientConnection("test")
        self.pipe = world.open_client(node_id, listener, self._received)
        world.send(self.pipe, self.connection.opening_bytes())

    def _received(self, content: bytes) -> None:
        for response in self.connection.receive(content):
            self.answers[response.correlation_id] = response.body
        released = self.connection.bytes_to_send()
        if released:
            self.world.send(self.pipe, released)

    def send(self, api_key: int, body: Any) -> int:
        correlation_id, content = self.connection.request(api_key, body)
        if content:
            self.world.send(self.pipe, content)
        return correlation_id

    def call(self, api_key: int, body: Any, limit_ms: int = 20_000) -> Any:
        correlation_id = self.send(api_key, body)
        self.world.run_until(lambda: correlation_id in self.answers, limit_ms)
        return self.answers.pop(correlation_id)

    def create_topic(self, name: str, partitions: int = 1, replicas: int = 1) -> Any:
        return self.call(19, create_topic_body(name, partitions, replicas)).topics[0]

    def delete_topic(self, name: str) -> Any:
        return self.call(20, delete_topic_body(name)).responses[0]


def delete_topic_body(name: str) -> Any:
    """A DeleteTopics body for one topic."""
    new = codec.newest(20, "request")
    topic = new.DeleteTopicState(name=name, topic_id=None)
    return new.DeleteTopicsRequest(topics=(topic,), timeout=timedelta(seconds=10))


def create_topic_body(name: str, partitions: int = 1, replicas: int = 1) -> Any:
    new = codec.newest(19, "request")
    topic = new.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=(),
        configs=(),
    )
    return new.CreateTopicsRequest(
        topics=(topic,), timeout=timedelta(seconds=10), validate_only=False
    )
