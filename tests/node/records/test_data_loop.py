"""The thread of the records: steps, effects in order, lanes, the bridge's end, failures."""

import asyncio
import os
import socket
import threading
import time
from collections import deque
from queue import Queue

import pytest
import uvloop

from broker.effects import (
    CloseConnection,
    ClosePeer,
    ConnectPeer,
    Lane,
    OpenAtKernel,
    Ready,
    RunWork,
    SendParts,
    SendPeerBytes,
    SendToKernel,
    SetReading,
)
from broker.events import (
    BrokerEpochChanged,
    ConnectionOpened,
    FramesReceived,
    KernelBytes,
    PeerBytes,
    PeerConnected,
    PeerDisconnected,
    StopRequested,
    TimeAdvanced,
    WorkDone,
)
from kernel.events import BytesReceived, RecordsReady
from network.memory_pool import MemoryPool
from network.timers import NEVER_MS
from node.clocks import now
from node.records.bridge import ToKernel
from node.records.data_loop import DataLoop
from node.records.longest_turn import TOLD_NS
from node.records.record_listener import bind
from node.records.record_sockets import FIRST_CONNECTION_ID
from storage.os_vfs import OsVfs
from storage.segments.file_slice import FileSlice
from wire.connections.framing import frame
from wire.types import BrokerEpoch, Endpoint

LIMIT_S = 20
FIRST = FIRST_CONNECTION_ID


class Script:
    """Records that answer each kind of event as a test says; events go to the test's thread."""

    def __init__(self):
        self.events = Queue()
        self.turns = []
        self.answers = {}
        self.settled = deque()
        self.deadline_ms = NEVER_MS
        self.thread = None
        self.admit = None

    def take(self, events, now):
        self.thread = threading.current_thread().name
        self.turns.append([type(event) for event in events])
        effects = []
        for event in events:
            self.events.put(event)
            if type(event) is ConnectionOpened:
                self.admit([], {event.connection_id: True})
            answer = self.answers.get(type(event))
            effects += answer(event) if answer else []
        return effects

    def settle(self):
        return [self.settled.popleft()] if self.settled else []

    def next_deadline_ms(self):
        return self.deadline_ms

    def wait(self, kind):
        """The next event of a kind; others before it are dropped."""
        while True:
            event = self.events.get(timeout=LIMIT_S)
            if type(event) is kind:
                return event


class Running:
    def __init__(self, loop):
        self.records, self.to_kernel, self.errors = Script(), Queue(), Queue()
        kernel = ToKernel(self.to_kernel.put)
        self.memory = MemoryPool(1_000)
        self.data = DataLoop(
            self.records,
            kernel,
            frame_bytes_max=1 << 20,
            pool=self.memory,
            failed=self.errors.put,
            loop=loop,
        )
        self.records.admit = self.data.post_threadsafe
        self.bound = bind(Endpoint("PLAINTEXT", "127.0.0.1", 0))
        self.address = self.bound[0].getsockname()

    def start(self):
        self.data.start([("PLAINTEXT", self.bound)])
        self.records.wait(TimeAdvanced)

    def post(self, *events):
        self.data.post_threadsafe(events, {})


@pytest.fixture(params=[asyncio.SelectorEventLoop, uvloop.Loop], ids=["asyncio", "uvloop"])
def running(request):
    one = Running(request.param())
    yield one
    one.data.close()
    for bound in one.bound:
        bound.close()
    assert not one.data._thread.is_alive()
    assert one.data._loop.is_closed()


def client_of(running):
    return socket.create_connection(running.address, timeout=LIMIT_S)


def test_frames_are_answered_with_records_behind_what_the_kernel_is_told(running, tmp_path):
    content = os.urandom(1 << 20)
    (tmp_path / "log").write_bytes(content)
    log = OsVfs().open(str(tmp_path / "log"))
    records, sent = running.records, Queue()

    def opened(event):
        return [OpenAtKernel(event.connection_id, event.listener, event.client_host)]

    def received(event):
        whole = FileSlice(log.share(), 0, len(content), 0, 0)
        return [
            SendToKernel(event.connection_id, b"to the kernel"),
            SendParts(event.connection_id, (b"head", whole), lambda *times_ns: sent.put(times_ns)),
            Ready(),
            SendParts(event.connection_id, (b"tail",)),
            CloseConnection(event.connection_id, "done"),
        ]

    records.answers = {ConnectionOpened: opened, FramesReceived: received}
    running.start()
    with client_of(running) as client:
        client.sendall(frame(b"request"))
        arrived = b""
        while data := client.recv(1 << 20):
            arrived += data
    assert arrived == b"head" + content + b"tail"
    taken_ns, sent_ns = sent.get(timeout=LIMIT_S)
    assert 0 < taken_ns < sent_ns <= time.perf_counter_ns()
    opening = running.to_kernel.get(timeout=LIMIT_S)
    assert opening == [ConnectionOpened(FIRST, "PLAINTEXT", "127.0.0.1")]
    told = running.to_kernel.get(timeout=LIMIT_S)
    assert told == [BytesReceived(FIRST, b"to the kernel"), RecordsReady()]
    assert records.thread == "records"


def test_who_waits_for_memory_goes_on_behind_the_step_that_gives_it_back(running):
    content = b"\0\0".ljust(700, b"p")

    def received(_):
        running.memory.release(700)
        return []

    running.start()
    with client_of(running) as first, client_of(running) as second:
        first.sendall(frame(content))
        assert running.records.wait(FramesReceived).frames == [content]
        second.sendall(frame(content))
        while not running.memory.is_waiting(FIRST + 1):
            assert running.memory.used_bytes == 700
        running.records.answers = {FramesReceived: received, StopRequested: received}
        running.post(StopRequested())
        assert running.records.wait(FramesReceived).frames == [content]


def test_events_of_another_thread_are_one_turn(running):
    running.start()
    running.post(BrokerEpochChanged(BrokerEpoch(7)), KernelBytes(FIRST, b"x"), StopRequested())
    running.records.wait(StopRequested)
    assert running.records.turns[-1] == [BrokerEpochChanged, KernelBytes, StopRequested]
    turns = len(running.records.turns)
    running.data.post_threadsafe([], {FIRST: False})
    running.post(StopRequested())
    running.records.wait(StopRequested)
    assert len(running.records.turns) == turns + 1, "nothing to step for a connection to be read"


def test_both_halves_of_a_step_are_carried_out(running):
    running.records.answers = {StopRequested: lambda _: [SendToKernel(1, b"first")]}
    running.start()
    running.records.settled.append(SendToKernel(1, b"second"))
    running.post(StopRequested())
    assert running.to_kernel.get(timeout=LIMIT_S) == [BytesReceived(1, b"first")]
    assert running.to_kernel.get(timeout=LIMIT_S) == [BytesReceived(1, b"second")]


def test_broker_and_kernel_pause_a_connection(running):
    records = running.records
    records.answers = {ConnectionOpened: lambda event: [SetReading(event.connection_id, False)]}
    running.start()
    with client_of(running) as client:
        records.wait(ConnectionOpened)
        client.sendall(frame(b"request"))
        running.data.post_threadsafe([StopRequested()], {FIRST: False})
        records.wait(StopRequested)
        records.answers = {TimeAdvanced: lambda _: [SetReading(FIRST, True)]}
        running.post(TimeAdvanced())
        records.wait(TimeAdvanced)
        running.data.post_threadsafe([], {FIRST: True})
        assert records.wait(FramesReceived).frames == [b"request"]
    assert [FramesReceived] in records.turns


def test_a_deadline_becomes_an_event_and_a_later_one_is_read_again(running):
    running.records.deadline_ms = now().monotonic_ms + 5
    running.start()
    assert running.records.wait(TimeAdvanced) == TimeAdvanced()
    running.records.deadline_ms = now().monotonic_ms + 10_000
    running.post(StopRequested())
    running.records.wait(StopRequested)
    running.records.deadline_ms = now().monotonic_ms + 5
    running.post(StopRequested())
    running.records.wait(StopRequested)
    running.records.wait(TimeAdvanced)


def test_work_of_a_lane_and_name_runs_in_order_and_of_others_beside_it(running):
    gate, ran = threading.Event(), []

    def work(number):
        def run():
            ran.append((number, threading.current_thread().name))

        return run

    def failing():
        raise OSError("full")

    running.records.answers = {
        StopRequested: lambda _: [
            RunWork(1, Lane.FLUSH, "/a", gate.wait),
            RunWork(2, Lane.FLUSH, "/a", work(2)),
            RunWork(3, Lane.FLUSH, "/b", work(3)),
            RunWork(4, Lane.FILES, "/a", failing),
        ]
    }
    running.start()
    running.post(StopRequested())
    beside = {running.records.wait(WorkDone).token for _ in range(2)}
    assert beside == {3, 4}
    gate.set()
    assert [running.records.wait(WorkDone).token for _ in range(2)] == [1, 2]
    assert ran == [(3, "flush /b"), (2, "flush /a")]
    assert len(running.data._lanes._workers) == 3


def test_an_error_of_work_is_in_its_event(running):
    error = OSError("full")

    def failing():
        raise error

    running.records.answers = {StopRequested: lambda _: [RunWork(4, Lane.FILES, "/a", failing)]}
    running.start()
    running.post(StopRequested())
    assert running.records.wait(WorkDone) == WorkDone(4, error)


def test_the_end_waits_little_for_work(running):
    gate, ran = threading.Event(), threading.Event()
    running.records.answers = {
        StopRequested: lambda _: [
            RunWork(1, Lane.FLUSH, "/a", gate.wait),
            RunWork(2, Lane.FLUSH, "/b", ran.set),
        ]
    }
    running.start()
    running.post(StopRequested())
    running.records.wait(WorkDone)
    running.data.close()
    assert ran.is_set()
    gate.set()


def test_links_to_other_brokers_are_opened_written_and_closed(running):
    records = running.records
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LIMIT_S)
        host, port = server.getsockname()
        records.answers = {
            StopRequested: lambda _: [ConnectPeer(5, host, port)],
            PeerConnected: lambda event: [SendPeerBytes(event.peer_id, b"request")],
            PeerBytes: lambda event: [ClosePeer(event.peer_id), ConnectPeer(6, host, port)],
        }
        running.start()
        running.post(StopRequested())
        link, _ = server.accept()
        with link:
            link.settimeout(LIMIT_S)
            assert link.recv(100) == b"request"
            link.sendall(b"response")
            assert records.wait(PeerBytes) == PeerBytes(5, b"response")
            assert link.recv(100) == b""
        link, _ = server.accept()
        link.close()
        assert records.wait(PeerDisconnected) == PeerDisconnected(6, refused=False)


@pytest.mark.parametrize("place", ["step", "callback"])
def test_an_error_ends_the_node_and_nothing_is_stepped_after_it(running, place):
    error = ValueError("a bug")

    def failing(*_):
        raise error

    running.start()
    if place == "step":
        running.records.answers = {StopRequested: failing}
        running.post(StopRequested())
    else:
        running.data._loop.call_soon_threadsafe(failing)
    assert running.errors.get(timeout=LIMIT_S) is error
    turns = len(running.records.turns)
    running.data._loop.call_soon_threadsafe(failing)
    running.post(StopRequested())
    turned = threading.Event()
    running.data._loop.call_soon_threadsafe(
        running.data._loop.call_soon, running.data._loop.call_soon, turned.set
    )
    assert turned.wait(LIMIT_S)
    assert len(running.records.turns) == turns
    assert running.errors.empty()


def test_the_end_closes_connections_and_comes_once(running):
    running.start()
    client = client_of(running)
    with client:
        running.records.wait(ConnectionOpened)
        turns = len(running.records.turns)
        running.data.close()
        running.data.close()
        assert client.recv(1) == b""
    running.post(StopRequested())
    assert len(running.records.turns) == turns


def test_a_loop_that_never_started_is_closed(running):
    running.data.close()
    assert running.data._loop.is_closed()


def test_the_longest_turn_is_known_by_its_cpu(running, capsys):
    """A turn is longer than the CPU that its step takes for itself; a long one is told."""
    records, used = running.records, []

    def work(_):
        begin = time.thread_time_ns()
        while time.thread_time_ns() - begin < TOLD_NS:
            pass
        used.append(time.thread_time_ns() - begin)
        return []

    records.answers[BrokerEpochChanged] = work
    records.answers[StopRequested] = lambda _: [Ready()]
    running.start()
    running.post(BrokerEpochChanged(BrokerEpoch(1)))
    records.wait(BrokerEpochChanged)
    running.post(StopRequested())
    running.to_kernel.get(timeout=LIMIT_S)
    assert running.data.longest_turn.cpu_ns > used[0]
    assert "long_turn_of_records" in capsys.readouterr().err
